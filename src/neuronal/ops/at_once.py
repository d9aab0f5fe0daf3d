"""Weights and biases of several layers from one kernel, and their gradients from another: on a GPU, in float32.

Under autocast they come in autocast's precision at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from neuronal.ops import farkas, operators, sphere
from neuronal.ops.operators import call, present, spread

Made = list[tuple[Tensor, Tensor | None]]
"""Weight and bias of every layer."""


def geometric(
    deltas: Sequence[Tensor],
    scales: Sequence[Tensor],
    offsets: Sequence[Tensor | None],
    shapes: Sequence[tuple[int, ...]],
    *,
    channels_last: bool = False,
) -> Made:
    """As :func:`neuronal.ops.sphere.weight_and_bias`, of linear layers and of convolutions of images."""
    places = tuple(shape[2:].numel() for shape in map(torch.Size, shapes))
    biased = tuple(offset is not None for offset in offsets)
    # One scale that several units share, or a piece of something larger, does not lie in memory as the kernels read it.
    given = (*deltas, *(scale.contiguous() for scale in scales), *(o.contiguous() for o in present(offsets)))
    found = _Geometric.apply(places, biased, channels_last, _dtype(deltas[0]), *given)
    weights = [_view(w, s, channels_last) for w, s in zip(found, shapes, strict=False)]
    return list(zip(weights, spread(found[len(shapes) :], biased), strict=True))


def closed(
    rows: Sequence[Tensor],
    offsets: Sequence[Tensor | None],
    lasts: Sequence[Tensor | None],
    *,
    bases: Sequence[float],
    margins: Sequence[float],
    cutoffs: Sequence[float],
) -> Made:
    """As :func:`neuronal.ops.farkas.weight_and_bias`; a layer has both offsets and a last one, or neither."""
    biased = tuple(offset is not None for offset in offsets)
    given = (*rows, *(o.contiguous() for o in present(offsets)), *present(lasts))
    fixed = (tuple(bases), tuple(margins), tuple(cutoffs))
    found = _Farkas.apply(biased, *fixed, _dtype(rows[0]), *given)
    return list(zip(found[: len(rows)], spread(found[len(rows) :], biased), strict=True))


def _dtype(given: Tensor) -> torch.dtype:
    kind = given.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else given.dtype


def _view(weight: Tensor, shape: tuple[int, ...], channels_last: bool) -> Tensor:
    """A weight as the layer's, from its rows as they lie in memory."""
    if len(shape) == 4 and channels_last:
        units, channels, *size = shape
        return weight.view(units, *size, channels).permute(0, 3, 1, 2)
    return weight.view(shape)


class _Geometric(torch.autograd.Function):
    """Rows as they lie in memory, then biases; a gradient that will be differentiated again is built from plain steps."""

    @staticmethod
    def forward(
        ctx: Any,
        places: tuple[int, ...],
        biased: tuple[bool, ...],
        channels_last: bool,
        dtype: torch.dtype,
        *given: Tensor,
    ) -> tuple[Tensor, ...]:
        count = len(places)
        ctx.options = (list(biased), list(places), channels_last)
        found = call(operators.geometric_weights, *_kinds(given, count), *ctx.options, dtype)
        ctx.save_for_backward(*given, *found[count : 2 * count])
        made = (*found[:count], *found[2 * count :])
        _mark_unused(ctx, made)
        return made

    @staticmethod
    def backward(ctx: Any, *g: Tensor | None) -> tuple[Tensor | None, ...]:
        if not present(g):
            return (None,) * len(ctx.needs_input_grad)
        count = len(ctx.options[1])
        given, products = list(ctx.saved_tensors[:-count]), list(ctx.saved_tensors[-count:])
        if torch.is_grad_enabled():
            return (None, None, None, None, *_plainly(given, g, *ctx.options))
        filled = _filled(ctx, g)
        parts = (*_kinds(given, count), products, filled[:count], filled[count:])
        found = call(operators.geometric_gradients, *parts, *ctx.options)
        return (None, None, None, None, *_of_used(found, [*g[:count], *g]))


# Note [Unused layers]: a layer that a call of the model leaves out gets no gradient, as if it made its own weights; of
# zeros, weight decay and momentum would move it. To the kernels these are zeros like any. What is compiled has zeros.


def _mark_unused(ctx: Any, made: Sequence[Tensor]) -> None:
    """See Note [Unused layers]."""
    if not torch.compiler.is_compiling():
        ctx.set_materialize_grads(False)
    ctx.shapes = [one.shape for one in made]


def _filled(ctx: Any, g: Sequence[Tensor | None]) -> list[Tensor]:
    """Gradients for all that was made, zeros where there is none."""
    kind = present(g)[0]
    # Of the precision of the others, as a kernel takes one.
    return [kind.new_zeros(shape) if one is None else one for one, shape in zip(g, ctx.shapes, strict=True)]


def _of_used(found: Sequence[Tensor], made: Sequence[Tensor | None]) -> list[Tensor | None]:
    """What was found, where there was a gradient of what was made of it."""
    return [None if one is None else gradient for gradient, one in zip(found, made, strict=True)]


def _kinds(given: Sequence[Tensor], count: int) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Angles, scales and offsets."""
    return list(given[:count]), list(given[count : 2 * count]), list(given[2 * count :])


def _plainly(
    given: Sequence[Tensor],
    g: Sequence[Tensor | None],
    biased: Sequence[bool],
    places: Sequence[int],
    channels_last: bool,
) -> list[Tensor | None]:
    """Gradients in steps that can be differentiated, for those given that want one."""
    deltas, scales, few = _kinds(given, len(places))
    outputs = []
    for delta, scale, inner in zip(deltas, scales, places, strict=True):
        weight = scale.unsqueeze(1) * sphere.direction(delta)
        outputs.append(weight.unflatten(1, (-1, inner)).mT.flatten(1) if channels_last else weight)
    outputs += [s * o for s, o in zip(scales, spread(few, biased), strict=True) if o is not None]
    return sphere.plain_gradients(outputs, given, g)


class _Farkas(torch.autograd.Function):
    """Weights, then biases."""

    @staticmethod
    def forward(
        ctx: Any,
        biased: tuple[bool, ...],
        bases: tuple[float, ...],
        margins: tuple[float, ...],
        cutoffs: tuple[float, ...],
        dtype: torch.dtype,
        *given: Tensor,
    ) -> tuple[Tensor, ...]:
        count, few = len(bases), sum(biased)
        rows, offsets, lasts = given[:count], given[count : count + few], given[count + few :]
        ctx.save_for_backward(*rows, *lasts)
        ctx.options = (list(biased), list(bases))
        parts = (list(rows), list(offsets), list(lasts), *ctx.options, list(margins), list(cutoffs))
        made = tuple(call(operators.farkas_weights, *parts, dtype))
        _mark_unused(ctx, made)
        return made

    @staticmethod
    def backward(ctx: Any, *g: Tensor | None) -> tuple[Tensor | None, ...]:
        if not present(g):
            return (None,) * len(ctx.needs_input_grad)
        biased, bases = ctx.options
        count = len(bases)
        rows, lasts = list(ctx.saved_tensors[:count]), list(ctx.saved_tensors[count:])
        filled = _filled(ctx, g)
        of_rows, of_biases = filled[:count], filled[count:]
        if not torch.is_grad_enabled():
            found = call(operators.farkas_gradients, rows, lasts, of_rows, of_biases, biased, bases)
        else:
            layers = zip(rows, spread(lasts, biased), of_rows, spread(of_biases, biased), bases, strict=True)
            found = [t for kind in zip(*(farkas.gradients(*one) for one in layers), strict=True) for t in present(kind)]
        return (None, None, None, None, None, *_of_used(found, [*g, *g[count:]]))
