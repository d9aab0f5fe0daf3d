"""Weight and bias of a Farkas layer with fixed multipliers in one kernel per direction.

The rows are read once and written once, in the precision the layer computes in, and their sum closes them on the way: what
a plain layer's cast to that precision costs, and no more. Order of memory does not matter: a column is an entry of every
row.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from neuronal.ops.kernels.launch import on_its_device

_ROWS, _COLUMNS = 256, 16
"""Of the tile a program works on: narrow, so that a layer of few inputs still keeps many programs busy."""


@triton.jit
def _forward(
    rows, offsets, last, weight, bias, n, base, margin, cutoff,
    m: tl.constexpr, BIAS: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Copies some columns of m free rows and closes them, which makes the row behind them; one program the offsets too."""
    block = tl.program_id(0)
    column = (block * C + tl.arange(0, C)).to(tl.int64)
    total = tl.zeros((C,), tl.float32)
    for start in range(0, m, R):
        row = (start + tl.arange(0, R)).to(tl.int64)
        inside = (row[:, None] < m) & (column[None, :] < n)
        place = row[:, None] * n + column[None, :]
        values = tl.load(rows + place, inside, other=0.0)
        tl.store(weight + place, values, inside)
        total += tl.sum(values, 0)
    tl.store(weight + m * n + column, -base * total, column < n)
    if BIAS:  # noqa: SIM102 - decided when the kernel is compiled, the inner one when it runs
        if block == 0:
            sum_of_offsets = 0.0
            for first in range(0, m, R):
                unit = first + tl.arange(0, R)
                own = tl.load(offsets + unit, unit < m, other=0.0)
                tl.store(bias + unit, own, unit < m)
                sum_of_offsets += tl.sum(own, 0)
            b = tl.load(last)
            softplus = tl.maximum(b, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(b)))
            tl.store(bias + m, softplus + margin + cutoff * (1.0 + base * m) - base * sum_of_offsets)


@triton.jit
def _backward(
    g, g_bias, last, d_rows, d_offsets, d_last, m, n, base, BIAS: tl.constexpr, R: tl.constexpr, C: tl.constexpr
):
    block, band = tl.program_id(0), tl.program_id(1)
    row = (band * R + tl.arange(0, R)).to(tl.int64)
    column = (block * C + tl.arange(0, C)).to(tl.int64)
    closing = tl.load(g + m * n + column, column < n, other=0.0).to(tl.float32)
    inside = (row[:, None] < m) & (column[None, :] < n)
    place = row[:, None] * n + column[None, :]
    values = tl.load(g + place, inside, other=0.0).to(tl.float32)
    tl.store(d_rows + place, values - base * closing[None, :], inside)
    if BIAS:  # noqa: SIM102 - decided when the kernel is compiled, the inner one when it runs
        if block == 0:
            of_last = tl.load(g_bias + m).to(tl.float32)
            own = tl.load(g_bias + row, row < m, other=0.0).to(tl.float32)
            tl.store(d_offsets + row, own - base * of_last, row < m)
            if band == 0:
                tl.store(d_last, of_last * tl.sigmoid(tl.load(last)))


@on_its_device
def weight_and_bias(
    rows: Tensor,
    offsets: Tensor | None,
    last: Tensor | None,
    base: float,
    margin: float,
    cutoff: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor | None]:
    """``rows`` and minus ``base`` times their sum; ``offsets`` and what makes their weighted sum what is promised."""
    rows = _dense(rows)
    m = len(rows)
    weight = torch.empty((m + 1, *rows.shape[1:]), device=rows.device, dtype=dtype, memory_format=_order_of(rows))
    n = rows[0].numel()
    has_bias = offsets is not None and last is not None
    bias = torch.empty(m + 1, device=rows.device, dtype=dtype) if has_bias else None
    # What a layer without biases has none of is not looked at.
    given = (rows, offsets, last, weight, bias) if has_bias else (rows, rows, rows, weight, weight)
    options = {"m": m, "BIAS": has_bias, "R": _ROWS, "C": _COLUMNS}
    _forward[(triton.cdiv(n, _COLUMNS),)](*given, n, base, margin, cutoff, **options)
    return weight, bias


@on_its_device
def gradients(
    rows: Tensor, last: Tensor | None, g: Tensor, g_bias: Tensor | None, base: float
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Gradients for ``rows``, ``offsets`` and ``last`` from those of weight and bias."""
    rows = _dense(rows)
    m, n = len(rows), rows[0].numel()
    g = g.contiguous(memory_format=_order_of(rows))
    d_rows = torch.empty_like(rows)
    has_bias = g_bias is not None and last is not None
    d_offsets = rows.new_empty(m) if has_bias else None
    d_last = rows.new_empty(1) if has_bias else None
    grid = (triton.cdiv(n, _COLUMNS), triton.cdiv(m, _ROWS))
    g_bias = g_bias.contiguous() if g_bias is not None else None
    given = (g, g_bias, last, d_rows, d_offsets, d_last) if has_bias else (g, g, rows, d_rows, rows, rows)
    _backward[grid](*given, m, n, base, BIAS=has_bias, R=_ROWS, C=_COLUMNS)
    return d_rows, d_offsets, d_last


def _order_of(rows: Tensor) -> Any:
    if rows.dim() == 4 and not rows.is_contiguous() and rows.is_contiguous(memory_format=torch.channels_last):
        return torch.channels_last
    return torch.contiguous_format


def _dense(rows: Tensor) -> Tensor:
    return rows if _order_of(rows) == torch.channels_last else rows.contiguous()
