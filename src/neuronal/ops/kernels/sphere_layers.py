"""Weights of several layers of geometric units in one kernel per direction: see ops/kernels/sphere.py.

Twenty small kernels, one after the other, mostly wait for each other to start and end. Here a program takes a unit of
whichever layer, long rows first. Weights are ``(units, n)`` in the order of memory the layer reads them in: channels and
places of the filter, or places and channels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from neuronal.ops.kernels.launch import groups, numbers, owners, pointers
from neuronal.ops.kernels.sphere import backward_row, block, forward_row


@triton.jit
def _order(length, inner, LAST: tl.constexpr):
    """How a row lies in memory: strides of channels and of places."""
    if LAST:
        return 1, length // inner
    return inner, 1


@triton.jit
def _forward(
    deltas, scales, offsets, weights, biases, products, owner, size, programs,
    COUNT: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    which = tl.load(owner + tl.program_id(0))
    row = tl.load(owner + programs + tl.program_id(0)).to(tl.int64)
    n, inner, biased = tl.load(size + which), tl.load(size + COUNT + which), tl.load(size + 2 * COUNT + which)
    delta, scale, offset, weight, bias, product = deltas[0], scales[0], offsets[0], weights[0], biases[0], products[0]
    for i in tl.static_range(1, COUNT):
        if which == i:
            delta, scale, offset = deltas[i], scales[i], offsets[i]
            weight, bias, product = weights[i], biases[i], products[i]
    outer_stride, inner_stride = _order(n, inner, LAST)
    r = forward_row(delta, scale, weight, product, row, n, inner, outer_stride, inner_stride, BLOCK)
    tl.store(bias + row, r * tl.load(offset + row), biased != 0)


@triton.jit
def _backward(
    deltas, scales, offsets, products, gs, g_biases, d_deltas, d_scales, d_offsets, owner, size, programs,
    COUNT: tl.constexpr, LAST: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    which = tl.load(owner + tl.program_id(0))
    row = tl.load(owner + programs + tl.program_id(0)).to(tl.int64)
    n, inner, biased = tl.load(size + which), tl.load(size + COUNT + which), tl.load(size + 2 * COUNT + which)
    delta, scale, offset, product, g, g_bias = deltas[0], scales[0], offsets[0], products[0], gs[0], g_biases[0]
    d_delta, d_scale, d_offset = d_deltas[0], d_scales[0], d_offsets[0]
    for i in tl.static_range(1, COUNT):
        if which == i:
            delta, scale, offset, product, g, g_bias = deltas[i], scales[i], offsets[i], products[i], gs[i], g_biases[i]
            d_delta, d_scale, d_offset = d_deltas[i], d_scales[i], d_offsets[i]
    outer_stride, inner_stride = _order(n, inner, LAST)
    r = tl.load(scale + row)
    of_scale = backward_row(delta, product, g, d_delta, r, row, n, inner, outer_stride, inner_stride, BLOCK)
    of_bias = tl.load(g_bias + row, biased != 0, other=0.0).to(tl.float32)
    tl.store(d_offset + row, of_bias * r, biased != 0)
    tl.store(d_scale + row, of_scale + of_bias * tl.load(offset + row, biased != 0, other=0.0))


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
        owner, size = _tables(deltas, offsets, places, some)
        _forward[(owner.shape[1],)](
            pointers(deltas, deltas, some),
            pointers(scales, scales, some),
            pointers(offsets, scales, some),
            pointers(weights, weights, some),
            pointers(biases, weights, some),
            pointers(products, products, some),
            owner,
            size,
            owner.shape[1],
            COUNT=len(some),
            LAST=channels_last,
            **block(deltas[some[0]].shape[1] + 1),
        )
    return weights, biases, products


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
    gs = [g.contiguous() for g in gs]
    for some in groups([d.shape[1] for d in deltas]):
        owner, size = _tables(deltas, offsets, places, some)
        _backward[(owner.shape[1],)](
            pointers(deltas, deltas, some),
            pointers(scales, scales, some),
            pointers(offsets, scales, some),
            pointers(products, products, some),
            pointers(gs, gs, some),
            pointers(g_biases, gs, some),
            pointers(d_deltas, d_deltas, some),
            pointers(d_scales, d_scales, some),
            pointers(d_offsets, d_scales, some),
            owner,
            size,
            owner.shape[1],
            COUNT=len(some),
            LAST=channels_last,
            **block(deltas[some[0]].shape[1] + 1),
        )
    return d_deltas, d_scales, d_offsets


def _tables(
    deltas: Sequence[Tensor], offsets: Sequence[Tensor | None], places: Sequence[int], some: Sequence[int]
) -> tuple[Tensor, Tensor]:
    device = deltas[0].device
    columns = (
        tuple(deltas[i].shape[1] + 1 for i in some),
        tuple(places[i] for i in some),
        tuple(int(offsets[i] is not None) for i in some),
    )
    return owners(tuple(len(deltas[i]) for i in some), device), numbers(columns, device)
