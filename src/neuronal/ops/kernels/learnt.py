r"""Couplings and slope from what a layer learns, and the gradients back to it, in one launch each.

The slope is :math:`p = e^l`. A positive learnt coupling stays below :math:`T = \mathrm{most} / p`, where solutions are
unique: :math:`\lambda = T \tanh(r / T)`; a negative one is :math:`r` itself. See ``coupling`` of the layers.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from neuronal.ops.kernels.launch import on_its_device

# Numbers of rows that are summed at a time.
_BLOCK = 4096


@triton.jit
def _tanh(y):
    """Of positive numbers, and to the last digits of small ones too."""
    square = y * y
    small = y * (1 - square * (1 / 3 - square * (2 / 15)))
    return tl.where(y < 0.1, small, 1 - 2 / (1 + tl.exp(2 * tl.minimum(y, 40.0))))


@triton.jit
def _forward(
    raw_ptr, log_slope_ptr, coupling_ptr, slope_ptr, most, num_couplings, FIXED: tl.constexpr, C: tl.constexpr
):
    slope = tl.exp(tl.load(log_slope_ptr))
    tl.store(slope_ptr, slope)
    if FIXED == 0:
        c = tl.arange(0, C)
        raw = tl.load(raw_ptr + c, mask=c < num_couplings, other=0.0)
        top = most / slope
        tl.store(coupling_ptr + c, tl.where(raw > 0, top * _tanh(raw / top), raw), mask=c < num_couplings)


@triton.jit(do_not_specialize=["rows"])
def _backward(
    d_coupling_ptr, d_slope_ptr, raw_ptr, slope_ptr, d_raw_ptr, d_log_slope_ptr, most, rows, num_couplings,
    FIXED: tl.constexpr, WITH_COUPLING: tl.constexpr, WITH_SLOPE: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Sums over the rows that share a coupling, R samples and C couplings at a time, and the rest of the chain."""
    slope = tl.load(slope_ptr)
    top = most / slope
    d_log_slope = 0.0
    channel = 0
    while channel < num_couplings:
        c = channel + tl.arange(0, C)
        of_coupling = tl.zeros((R, C), tl.float32)
        of_slope = tl.zeros((R, C), tl.float32)
        start = 0
        while start < rows:
            r = start + tl.arange(0, R)[:, None] * num_couplings + c[None, :]
            there = (r < rows) & (c[None, :] < num_couplings)
            if WITH_COUPLING:
                of_coupling += tl.load(d_coupling_ptr + r, mask=there, other=0.0)
            if WITH_SLOPE:
                of_slope += tl.load(d_slope_ptr + r, mask=there, other=0.0)
            start += R * num_couplings
        if WITH_COUPLING:
            given = tl.sum(of_coupling, 0)
            own = given
            if FIXED == 0:
                raw = tl.load(raw_ptr + c, mask=c < num_couplings, other=0.0)
                y = raw / top
                tanh = _tanh(tl.maximum(y, 0.0))
                sech2 = 1 - tanh * tanh
                own = tl.where(raw > 0, given * sech2, given)
                if WITH_SLOPE:
                    d_log_slope -= tl.sum(tl.where(raw > 0, top * given * (tanh - y * sech2), 0.0), 0)
            tl.store(d_raw_ptr + c, own, mask=c < num_couplings)
        if WITH_SLOPE:
            d_log_slope += slope * tl.sum(tl.sum(of_slope, 0), 0)
        channel += C
    if WITH_SLOPE:
        tl.store(d_log_slope_ptr, d_log_slope)


@on_its_device
def values(raw: Tensor, log_slope: Tensor, most: float | None) -> tuple[Tensor, Tensor]:
    """Coupling and slope; with ``most`` None, what is given is the coupling itself."""
    coupling, slope = raw if most is None else torch.empty_like(raw), torch.empty_like(log_slope)
    count = len(raw)
    options = {"FIXED": most is None, "C": triton.next_power_of_2(count), "num_warps": 1 if count <= 256 else 4}
    _forward[(1,)](raw, log_slope, coupling, slope, most or 0.0, count, **options)
    return coupling, slope


@on_its_device
def gradients(
    of_rows: Tensor, raw: Tensor, slope: Tensor, most: float | None, with_coupling: bool, with_slope: bool
) -> tuple[Tensor | None, Tensor | None]:
    """For raw coupling and logarithm of the slope, from those for coupling and slope of every row, ``(2, rows)``.

    Where a learnt coupling has a bound that depends on a learnt slope, both are asked for.
    """
    d_raw = torch.empty_like(raw) if with_coupling else None
    d_log_slope = torch.empty_like(slope) if with_slope else None
    count = len(raw)
    size = min(64, triton.next_power_of_2(count))
    _backward[(1,)](
        of_rows,
        of_rows[1],
        raw,
        slope,
        raw if d_raw is None else d_raw,
        slope if d_log_slope is None else d_log_slope,
        most or 0.0,
        of_rows.shape[1],
        count,
        FIXED=most is None,
        WITH_COUPLING=with_coupling,
        WITH_SLOPE=with_slope,
        R=_BLOCK // size,
        C=size,
        num_warps=8,
    )
    return d_raw, d_log_slope
