"""The kernels for several layers at once as operators of torch, so that what is compiled can call them.

Layers without biases have no place in the lists of what belongs to biases; ``biased`` says which have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def spread(few: Sequence[Tensor], biased: Sequence[bool]) -> list[Tensor | None]:
    """What only layers with biases have, with None for the others."""
    left = iter(few)
    return [next(left) if one else None for one in biased]


def present(values: Sequence[Tensor | None]) -> list[Tensor]:
    """What there is."""
    return [value for value in values if value is not None]


def geometric_weights(
    deltas: list[Tensor],
    scales: list[Tensor],
    offsets: list[Tensor],
    biased: list[bool],
    places: list[int],
    channels_last: bool,
    dtype: torch.dtype,
) -> list[Tensor]:
    """Weights, products and biases."""
    from neuronal.ops.kernels import sphere_layers

    given = (deltas, scales, spread(offsets, biased), places, channels_last, dtype)
    weights, biases, products = sphere_layers.weights_and_biases(*given)
    return [*weights, *products, *present(biases)]


def _geometric_weights_look(
    deltas: list[Tensor],
    scales: list[Tensor],
    offsets: list[Tensor],
    biased: list[bool],
    places: list[int],
    channels_last: bool,
    dtype: torch.dtype,
) -> list[Tensor]:
    weights = [d.new_empty(d.shape[0], d.shape[1] + 1, dtype=dtype) for d in deltas]
    products = [d.new_empty(d.shape[0], d.shape[1] + 1) for d in deltas]
    return [*weights, *products, *(torch.empty_like(o, dtype=dtype) for o in offsets)]


def geometric_gradients(
    deltas: list[Tensor],
    scales: list[Tensor],
    offsets: list[Tensor],
    products: list[Tensor],
    g: list[Tensor],
    g_biases: list[Tensor],
    biased: list[bool],
    places: list[int],
    channels_last: bool,
) -> list[Tensor]:
    """Those for angles, scales and offsets."""
    from neuronal.ops.kernels import sphere_layers

    given = (deltas, scales, spread(offsets, biased), products, g, spread(g_biases, biased), places, channels_last)
    d_deltas, d_scales, d_offsets = sphere_layers.gradients(*given)
    return [*d_deltas, *d_scales, *present(d_offsets)]


def _geometric_gradients_look(
    deltas: list[Tensor], scales: list[Tensor], offsets: list[Tensor], *_: Any
) -> list[Tensor]:
    return [torch.empty_like(t) for t in (*deltas, *scales, *offsets)]


def farkas_weights(
    rows: list[Tensor],
    offsets: list[Tensor],
    lasts: list[Tensor],
    biased: list[bool],
    bases: list[float],
    margins: list[float],
    cutoffs: list[float],
    dtype: torch.dtype,
) -> list[Tensor]:
    """Weights and biases."""
    from neuronal.ops.kernels import farkas_layers

    given = (rows, spread(offsets, biased), spread(lasts, biased), bases, margins, cutoffs, dtype)
    weights, biases = farkas_layers.weights_and_biases(*given)
    return [*weights, *present(biases)]


def _farkas_weights_look(
    rows: list[Tensor],
    offsets: list[Tensor],
    lasts: list[Tensor],
    biased: list[bool],
    bases: list[float],
    margins: list[float],
    cutoffs: list[float],
    dtype: torch.dtype,
) -> list[Tensor]:
    weights = [torch.empty_like(torch.cat([r, r[:1]]), dtype=dtype, memory_format=_order(r)) for r in rows]
    return [*weights, *(o.new_empty(len(o) + 1, dtype=dtype) for o in offsets)]


def farkas_gradients(
    rows: list[Tensor],
    lasts: list[Tensor],
    g: list[Tensor],
    g_biases: list[Tensor],
    biased: list[bool],
    bases: list[float],
) -> list[Tensor]:
    """Those for rows, offsets and what is behind the last bias."""
    from neuronal.ops.kernels import farkas_layers

    given = (rows, spread(lasts, biased), g, spread(g_biases, biased), bases)
    d_rows, d_offsets, d_lasts = farkas_layers.gradients(*given)
    return [*d_rows, *present(d_offsets), *present(d_lasts)]


def _farkas_gradients_look(
    rows: list[Tensor], lasts: list[Tensor], g: list[Tensor], g_biases: list[Tensor], *_: Any
) -> list[Tensor]:
    d_offsets = [last.new_empty(len(b) - 1) for last, b in zip(lasts, g_biases, strict=True)]
    return [*(torch.empty_like(r, memory_format=_order(r)) for r in rows), *d_offsets, *map(torch.empty_like, lasts)]


def _order(rows: Tensor) -> torch.memory_format:
    last = rows.dim() == 4 and not rows.is_contiguous() and rows.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


def _declare(function: Callable[..., object], look: Callable[..., object], arguments: str) -> None:
    """As ``torch.ops.neuronal``'s; ``look`` says what the answers look like."""
    name, schema = f"neuronal::{function.__name__}", f"({arguments}) -> Tensor[]"
    torch.library.custom_op(name, function, mutates_args=(), schema=schema).register_fake(look)


_LAYERS = "Tensor[] deltas, Tensor[] scales, Tensor[] offsets, "
_ROWS = "Tensor[] rows, Tensor[] offsets, Tensor[] lasts, "
_declare(
    geometric_weights,
    _geometric_weights_look,
    _LAYERS + "bool[] biased, int[] places, bool channels_last, ScalarType dtype",
)
_declare(
    geometric_gradients,
    _geometric_gradients_look,
    _LAYERS + "Tensor[] products, Tensor[] g, Tensor[] g_biases, bool[] biased, int[] places, bool channels_last",
)
_declare(
    farkas_weights,
    _farkas_weights_look,
    _ROWS + "bool[] biased, float[] bases, float[] margins, float[] cutoffs, ScalarType dtype",
)
_declare(
    farkas_gradients,
    _farkas_gradients_look,
    "Tensor[] rows, Tensor[] lasts, Tensor[] g, Tensor[] g_biases, bool[] biased, float[] bases",
)


def call(function: Callable[..., list[Tensor]], *given: Any) -> list[Tensor]:
    """The function; where a compiler looks on, by way of its operator, which takes longer to call."""
    if not torch.compiler.is_compiling():
        return function(*given)
    found: list[Tensor] = getattr(torch.ops.neuronal, function.__name__)(*given)
    return found
