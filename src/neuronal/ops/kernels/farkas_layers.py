"""Weight and bias of several Farkas layers in one kernel per direction: see ops/kernels/farkas.py.

As for geometric layers (ops/kernels/sphere_layers.py), a program takes a piece of whichever layer.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from neuronal.ops.kernels.device import on_its_device
from neuronal.ops.kernels.farkas import (
    COLUMNS,
    ROWS,
    backward_bias,
    backward_tile,
    dense,
    forward_bias,
    forward_columns,
    order_of,
)
from neuronal.ops.kernels.launch import groups, pointers, starts
from neuronal.ops.kernels.settled import settle

# SIZES are free rows, columns and whether there is a bias, layer by layer; FACTORS bases, and margins and cut-offs.


@triton.jit
def _forward(
    rows, offsets, lasts, weights, biases,
    STARTS: tl.constexpr, SIZES: tl.constexpr, FACTORS: tl.constexpr, COUNT: tl.constexpr, R: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    first, m, n, biased = STARTS[0], SIZES[0][0], SIZES[0][1], SIZES[0][2]
    base, margin, cutoff = FACTORS[0][0], FACTORS[0][1], FACTORS[0][2]
    row, offset, last, weight, bias = rows[0], offsets[0], lasts[0], weights[0], biases[0]
    for i in tl.static_range(1, COUNT):
        if program >= STARTS[i]:
            first, m, n, biased = STARTS[i], SIZES[i][0], SIZES[i][1], SIZES[i][2]
            base, margin, cutoff = FACTORS[i][0], FACTORS[i][1], FACTORS[i][2]
            row, offset, last, weight, bias = rows[i], offsets[i], lasts[i], weights[i], biases[i]
    block = program - first
    forward_columns(row, weight, (block * C + tl.arange(0, C)).to(tl.int64), m, n, base, R, C)
    if (block == 0) & (biased != 0):
        forward_bias(offset, last, bias, m, base, margin, cutoff, R)


@triton.jit
def _backward(
    gs, g_biases, lasts, d_rows, d_offsets, d_lasts,
    STARTS: tl.constexpr, SIZES: tl.constexpr, FACTORS: tl.constexpr, COUNT: tl.constexpr, R: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    first, m, n, biased, base = STARTS[0], SIZES[0][0], SIZES[0][1], SIZES[0][2], FACTORS[0]
    g, g_bias, last, d_row, d_offset, d_last = gs[0], g_biases[0], lasts[0], d_rows[0], d_offsets[0], d_lasts[0]
    for i in tl.static_range(1, COUNT):
        if program >= STARTS[i]:
            first, m, n, biased, base = STARTS[i], SIZES[i][0], SIZES[i][1], SIZES[i][2], FACTORS[i]
            g, g_bias, last = gs[i], g_biases[i], lasts[i]
            d_row, d_offset, d_last = d_rows[i], d_offsets[i], d_lasts[i]
    number = program - first
    blocks = (n + C - 1) // C
    block, band = number % blocks, number // blocks
    row = (band * R + tl.arange(0, R)).to(tl.int64)
    backward_tile(g, d_row, row, (block * C + tl.arange(0, C)).to(tl.int64), m, n, base)
    if (block == 0) & (biased != 0):
        backward_bias(g_bias, last, d_offset, d_last, row, band, m, base)


@on_its_device
def weights_and_biases(
    rows: Sequence[Tensor],
    offsets: Sequence[Tensor | None],
    lasts: Sequence[Tensor | None],
    bases: Sequence[float],
    margins: Sequence[float],
    cutoffs: Sequence[float],
    dtype: torch.dtype,
) -> tuple[list[Tensor], list[Tensor | None]]:
    """The rows of every layer, closed, in their order of memory; and the biases."""
    rows = [dense(r) for r in rows]
    device = rows[0].device
    weights = [
        torch.empty((len(r) + 1, *r.shape[1:]), device=device, dtype=dtype, memory_format=order_of(r)) for r in rows
    ]
    biases = [None if o is None else torch.empty(len(o) + 1, device=device, dtype=dtype) for o in offsets]
    for some in groups([len(r) for r in rows]):
        first = starts([-(-rows[i][0].numel() // COLUMNS) for i in some])
        _forward[(first[-1],)](
            pointers(rows, rows, some),
            pointers(offsets, rows, some),
            pointers(lasts, rows, some),
            pointers(weights, weights, some),
            pointers(biases, weights, some),
            STARTS=first,
            SIZES=_sizes(rows, offsets, some),
            FACTORS=tuple((bases[i], margins[i], cutoffs[i]) for i in some),
            COUNT=len(some),
            R=ROWS,
            C=COLUMNS,
        )
    return weights, biases


@on_its_device
def gradients(
    rows: Sequence[Tensor],
    lasts: Sequence[Tensor | None],
    gs: Sequence[Tensor],
    g_biases: Sequence[Tensor | None],
    bases: Sequence[float],
) -> tuple[list[Tensor], list[Tensor | None], list[Tensor | None]]:
    """Gradients for rows, offsets and what is behind the last bias."""
    rows = [dense(r) for r in rows]
    gs = [g.contiguous(memory_format=order_of(r)) for g, r in zip(gs, rows, strict=True)]
    g_biases = [None if g is None else g.contiguous() for g in g_biases]
    d_rows = [torch.empty_like(r) for r in rows]
    d_offsets = [None if b is None else r.new_empty(len(r)) for b, r in zip(g_biases, rows, strict=True)]
    d_lasts = [None if b is None else r.new_empty(()) for b, r in zip(g_biases, rows, strict=True)]
    for some in groups([len(r) for r in rows]):
        first = starts([-(-rows[i][0].numel() // COLUMNS) * -(-len(rows[i]) // ROWS) for i in some])
        _backward[(first[-1],)](
            pointers(gs, gs, some),
            pointers(g_biases, gs, some),
            pointers(lasts, rows, some),
            pointers(d_rows, d_rows, some),
            pointers(d_offsets, d_rows, some),
            pointers(d_lasts, d_rows, some),
            STARTS=first,
            SIZES=_sizes(rows, g_biases, some),
            FACTORS=tuple(bases[i] for i in some),
            COUNT=len(some),
            R=ROWS,
            C=COLUMNS,
        )
    return d_rows, d_offsets, d_lasts


def _sizes(
    rows: Sequence[Tensor], biased: Sequence[Tensor | None], some: Sequence[int]
) -> tuple[tuple[int, int, int], ...]:
    return tuple((len(rows[i]), rows[i][0].numel(), int(biased[i] is not None)) for i in some)


settle(globals())
