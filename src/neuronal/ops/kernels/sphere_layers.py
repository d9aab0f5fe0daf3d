"""Weights of several layers of geometric units in one kernel per direction: see ops/kernels/sphere.py.

Twenty small kernels, one after the other, mostly wait for each other to start and end. Here a program takes a unit of
whichever layer, long rows first. Weights are ``(units, n)`` in the order of memory the layer reads them in: channels and
places of the filter, or places and channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from neuronal.ops.kernels.device import on_its_device
from neuronal.ops.kernels.launch import groups, pointers, starts
from neuronal.ops.kernels.settled import settle
from neuronal.ops.kernels.sphere import backward_row, block, forward_row

_LONGEST = 256
"""Entries of a row held at once: fewer than for one layer, as there are enough rows for all threads."""


@triton.jit
def _order(length, inner, LAST: tl.constexpr):
    """How a row lies in memory: strides of channels and of places."""
    if LAST:
        return 1, length // inner
    return inner, 1


# SIZES are entries of a row, places of a filter and whether there is a bias, layer by layer; STARTS the first programs.


@triton.jit
def _forward(
    deltas, scales, offsets, weights, biases, products,
    STARTS: tl.constexpr, SIZES: tl.constexpr, COUNT: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr,
    SHORT: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    first, n, inner, biased = STARTS[0], SIZES[0][0], SIZES[0][1], SIZES[0][2]
    delta, scale, offset, weight, bias, product = deltas[0], scales[0], offsets[0], weights[0], biases[0], products[0]
    for i in tl.static_range(1, COUNT):
        if program >= STARTS[i]:
            first, n, inner, biased = STARTS[i], SIZES[i][0], SIZES[i][1], SIZES[i][2]
            delta, scale, offset = deltas[i], scales[i], offsets[i]
            weight, bias, product = weights[i], biases[i], products[i]
    row = (program - first).to(tl.int64)
    outer_stride, inner_stride = _order(n, inner, LAST)
    r = forward_row(delta, scale, weight, product, row, n, inner, outer_stride, inner_stride, BLOCK, SHORT)
    tl.store(bias + row, r * tl.load(offset + row), biased != 0)


@triton.jit
def _backward(
    deltas, scales, offsets, products, gs, g_biases, d_deltas, d_scales, d_offsets,
    STARTS: tl.constexpr, SIZES: tl.constexpr, COUNT: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr,
    SHORT: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    first, n, inner, biased = STARTS[0], SIZES[0][0], SIZES[0][1], SIZES[0][2]
    delta, scale, offset, product, g, g_bias = deltas[0], scales[0], offsets[0], products[0], gs[0], g_biases[0]
    d_delta, d_scale, d_offset = d_deltas[0], d_scales[0], d_offsets[0]
    for i in tl.static_range(1, COUNT):
        if program >= STARTS[i]:
            first, n, inner, biased = STARTS[i], SIZES[i][0], SIZES[i][1], SIZES[i][2]
            delta, scale, offset, product, g, g_bias = deltas[i], scales[i], offsets[i], products[i], gs[i], g_biases[i]
            d_delta, d_scale, d_offset = d_deltas[i], d_scales[i], d_offsets[i]
    row = (program - first).to(tl.int64)
    outer_stride, inner_stride = _order(n, inner, LAST)
    r = tl.load(scale + row)
    of_scale = backward_row(delta, product, g, d_delta, r, row, n, inner, outer_stride, inner_stride, BLOCK, SHORT)
    of_bias = tl.load(g_bias + row, biased != 0, other=0.0).to(tl.float32)
    tl.store(d_offset + row, of_bias * r, biased != 0)
    tl.store(d_scale + row, of_scale + of_bias * tl.load(offset + row, biased != 0, other=0.0))


@on_its_device
def weights_and_biases(
    deltas: Sequence[Tensor],
    scales: Sequence[Tensor],
    offsets: Sequence[Tensor | None],
    places: Sequence[int],
    channels_last: bool,
    dtype: torch.dtype,
) -> tuple[list[Tensor], list[Tensor | None], list[Tensor]]:
    """``scale * direction(delta)`` and ``scale * offset`` of every layer, and the products that the gradients need.

    Args:
        places: Entries of a filter, of every layer; 1 for a linear one.
    """
    device = deltas[0].device
    weights = [torch.empty(len(d), d.shape[1] + 1, device=device, dtype=dtype) for d in deltas]
    biases = [None if o is None else torch.empty(len(o), device=device, dtype=dtype) for o in offsets]
    products = [torch.empty(len(d), d.shape[1] + 1, device=device) for d in deltas]
    for some in groups([d.shape[1] for d in deltas]):
        known = _known(deltas, offsets, places, some)
        _forward[(known["STARTS"][-1],)](
            pointers(deltas, deltas, some),
            pointers(scales, scales, some),
            pointers(offsets, scales, some),
            pointers(weights, weights, some),
            pointers(biases, weights, some),
            pointers(products, products, some),
            LAST=channels_last,
            **known,
        )
    return weights, biases, products


@on_its_device
def gradients(
    deltas: Sequence[Tensor],
    scales: Sequence[Tensor],
    offsets: Sequence[Tensor | None],
    products: Sequence[Tensor],
    gs: Sequence[Tensor],
    g_biases: Sequence[Tensor | None],
    places: Sequence[int],
    channels_last: bool,
) -> tuple[list[Tensor], list[Tensor], list[Tensor | None]]:
    """Gradients for angles, scales and offsets from those of :func:`weights_and_biases`."""
    d_deltas, d_scales = [torch.empty_like(d) for d in deltas], [torch.empty_like(s) for s in scales]
    d_offsets = [None if o is None else torch.empty_like(o) for o in offsets]
    gs, g_biases = [g.contiguous() for g in gs], [None if g is None else g.contiguous() for g in g_biases]
    for some in groups([d.shape[1] for d in deltas]):
        known = _known(deltas, offsets, places, some)
        _backward[(known["STARTS"][-1],)](
            pointers(deltas, deltas, some),
            pointers(scales, scales, some),
            pointers(offsets, scales, some),
            pointers(products, products, some),
            pointers(gs, gs, some),
            pointers(g_biases, gs, some),
            pointers(d_deltas, d_deltas, some),
            pointers(d_scales, d_scales, some),
            pointers(d_offsets, d_scales, some),
            LAST=channels_last,
            **known,
        )
    return d_deltas, d_scales, d_offsets


def _known(
    deltas: Sequence[Tensor], offsets: Sequence[Tensor | None], places: Sequence[int], some: Sequence[int]
) -> dict[str, Any]:
    """What the kernels are compiled for."""
    sizes = tuple((deltas[i].shape[1] + 1, places[i], int(offsets[i] is not None)) for i in some)
    first = starts([len(deltas[i]) for i in some])
    return {"STARTS": first, "SIZES": sizes, "COUNT": len(some), **block(sizes[0][0], _LONGEST)}


settle(globals())
