"""The mean coupling of a unit to all units of its row, differentiable: what plain iterations of the equation are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from neuronal.ops.groups import groups, only_finite
from neuronal.ops.newton import Sums, sums_over


def coupling_mean(z: Tensor, slope: Tensor) -> Tensor:
    r""":math:`\frac1N \sum_k \tanh(p\,(z_k - z_i))` for rows of units, differentiable in both.

    Args:
        z: ``(rows, N)`` of float32 or float64.
        slope: :math:`p`, one per row.

    Returns:
        ``(rows, N)``, to 1e-6 in float32 and 1e-12 in float64.
    """
    mean: Tensor = _Mean.apply(z, slope)
    return mean


@torch.library.custom_op("neuronal::coupling_mean", mutates_args=())
def _mean(z: Tensor, slope: Tensor) -> Tensor:
    out = torch.empty_like(z, memory_format=torch.contiguous_format)
    finite, safe = only_finite(z)
    with torch.autocast(z.device.type, enabled=False):
        for rows, field, _ in _fields(safe, slope):
            out[rows] = field.means().to(z.dtype)
    return out if finite.all() else torch.where(finite.unsqueeze(1), out, torch.nan)


@_mean.register_fake
def _(z: Tensor, slope: Tensor) -> Tensor:
    return torch.empty_like(z, memory_format=torch.contiguous_format)


@torch.library.custom_op("neuronal::coupling_mean_vjp", mutates_args=())
def _mean_vjp(g: Tensor, z: Tensor, slope: Tensor, with_slope: bool = True) -> tuple[Tensor, Tensor]:
    d_z, d_slope = torch.zeros_like(z, memory_format=torch.contiguous_format), torch.zeros_like(slope)
    finite, safe = only_finite(z)
    with torch.autocast(z.device.type, enabled=False):
        for rows, field, p in _fields(safe, slope):
            own = g[rows].to(p.dtype)
            d_z[rows] = (p * (field.apply(own) - field.slopes() * own)).to(z.dtype)
            if with_slope:
                stretch = torch.linalg.vecdot(field.spread(own), field.stretch) / p.squeeze(1)
                d_slope[rows] = (z.shape[1] * stretch).to(slope.dtype)
    if not finite.all():
        d_z[~finite], d_slope[~finite] = torch.nan, torch.nan
    return d_z, d_slope


@_mean_vjp.register_fake
def _(g: Tensor, z: Tensor, slope: Tensor, with_slope: bool = True) -> tuple[Tensor, Tensor]:
    return torch.empty_like(z, memory_format=torch.contiguous_format), torch.empty_like(slope)


def _fields(z: Tensor, slope: Tensor) -> Iterator[tuple[Tensor | slice, Sums, Tensor]]:
    """Groups of rows with their field at the finest precision the dtype is worth, and their slope."""
    if z.numel() == 0:
        return
    finest = 1e-6 if z.dtype == torch.float32 else 1e-12
    for rows, precision in groups(z, slope, torch.full_like(slope, finest), z.dtype):
        p = slope[rows].to(precision.dtype).unsqueeze(1)
        value = z[rows].to(precision.dtype)
        yield rows, sums_over((value - value.mean(1, keepdim=True)).mul_(p), precision), p


class _Mean(torch.autograd.Function):
    """The mean coupling with its gradient."""

    @staticmethod
    def forward(z: Tensor, slope: Tensor) -> Tensor:
        mean: Tensor = _mean(z, slope)
        return mean

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = _mean_vjp(g.contiguous(), *ctx.saved_tensors, ctx.needs_input_grad[1])
        return found
