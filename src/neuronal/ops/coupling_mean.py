r"""The mean coupling of a unit to all units of its row, with derivatives of any order.

Plain iterations of the equation are made of it, and so are the derivatives of solutions. Its own derivatives are sums over
the units of a row, and so are theirs: :func:`unit_sum`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._decomp import register_decomposition

from neuronal.ops import dispatch
from neuronal.ops.damped import pairwise_mean
from neuronal.ops.groups import groups, only_finite
from neuronal.ops.newton import Sums, sums_over


def coupling_mean(z: Tensor, slope: Tensor) -> Tensor:
    r""":math:`\frac1N \sum_k \tanh(p\,(z_k - z_i))` for rows of units, differentiable in both any number of times.

    Args:
        z: ``(rows, N)`` of float32 or float64.
        slope: :math:`p`, one per row.

    Returns:
        ``(rows, N)``, to 1e-6 in float32 and 1e-12 in float64.

    Cost:
        O(N) per row, as are its derivatives; in ONNX, which has its operations written out, O(N^2).
    """
    # The compiler does not take functions with a forward-mode rule.
    function = _Mean if torch.compiler.is_compiling() else _MeanForwardMode
    mean: Tensor = function.apply(z, slope)
    return mean


def mean_tangent(z: Tensor, slope: Tensor, t_z: Tensor, t_slope: Tensor) -> Tensor:
    """How :func:`coupling_mean` moves with z and the slope; has all derivatives itself."""
    apart, x = _apart(z, slope)
    t_x = slope.unsqueeze(1) * t_z + t_slope.unsqueeze(1) * apart
    return unit_sum(x, t_x, 1) - t_x * unit_sum(x, torch.ones_like(x), 1)


def unit_sum(x: Tensor, w: Tensor, order: int) -> Tensor:
    r""":math:`\frac1N \sum_k w_k \tanh^{(n)}(x_k - x_i)`, the derivative of order :math:`n \ge 1`, for rows of units.

    Args:
        x: ``(rows, N)`` of float32 or float64.
        w: Of the same shape.
        order: :math:`n`.

    Returns:
        ``(rows, N)``, to 1e-6 (float32) or 1e-12 (float64) of the largest w. Differentiable in x and w any number of times.
    """
    total: Tensor = _Sum.apply(x, w, order)
    return total


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


@register_decomposition(torch.ops.neuronal.coupling_mean.default)
def _written_out(z: Tensor, slope: Tensor) -> Tensor:
    """Pair by pair, for programs that have no operator of ours: ONNX."""
    return pairwise_mean(z, slope.unsqueeze(1)).contiguous()


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


@torch.library.custom_op("neuronal::unit_sum", mutates_args=())
def _sum(x: Tensor, w: Tensor, order: int) -> Tensor:
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    (finite, safe), (w_finite, safe_w) = only_finite(x), only_finite(w)
    with torch.autocast(x.device.type, enabled=False):
        for rows, field, p in _fields(safe, torch.ones_like(x[:, 0]), order):
            out[rows] = field.derivative(safe_w[rows].to(p.dtype), order).to(x.dtype)
    return torch.where((finite & w_finite).unsqueeze(1), out, torch.nan)


@_sum.register_fake
def _(x: Tensor, w: Tensor, order: int) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _fields(z: Tensor, slope: Tensor, order: int = 0) -> Iterator[tuple[Tensor | slice, Sums, Tensor]]:
    """Groups of rows with their field at the finest precision the dtype is worth, and their slope."""
    if z.numel() == 0:
        return
    finest = 1e-6 if z.dtype == torch.float32 else 1e-12
    for rows, precision in groups(z, slope, torch.full_like(slope, finest), z.dtype, order):
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
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        z, slope = ctx.saved_tensors
        if torch.compiler.is_compiling() or not dispatch.is_backward_transformed():
            found: tuple[Tensor, Tensor] = _mean_vjp(g.contiguous(), z, slope, ctx.needs_input_grad[1])
            return found
        apart, x = _apart(z, slope)
        d_x = unit_sum(x, g, 1) - g * unit_sum(x, torch.ones_like(x), 1)
        return slope.unsqueeze(1) * d_x, (apart * d_x).sum(1)


_mean.register_autograd(_Mean.backward, setup_context=_Mean.setup_context)


class _MeanForwardMode(_Mean):
    """The same, also for ``torch.func.jvp`` and ``torch.func.vmap``."""

    @staticmethod
    def jvp(ctx: Any, t_z: Tensor, t_slope: Tensor) -> Tensor:
        dispatch.check_forward_mode()
        z, slope = ctx.saved_tensors
        return mean_tangent(z, slope, t_z, t_slope)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Tensor) -> tuple[Tensor, int]:
        z, slope = all_rows(given, in_dims, info.batch_size)
        return _MeanForwardMode.apply(z, slope).unflatten(0, (info.batch_size, -1)), 0


class _Sum(torch.autograd.Function):
    """:func:`unit_sum`. Its derivatives are other sums: tanh is odd, its first derivative even, and so on."""

    @staticmethod
    def forward(x: Tensor, w: Tensor, order: int) -> Tensor:
        total: Tensor = _sum(x, w, order)
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        x, w, ctx.order = inputs
        ctx.save_for_backward(x, w)
        ctx.save_for_forward(x, w)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        (x, w), order, odd = ctx.saved_tensors, ctx.order, (-1) ** ctx.order
        d_x = odd * w * unit_sum(x, g, order + 1) - g * unit_sum(x, w, order + 1) if ctx.needs_input_grad[0] else None
        return d_x, -odd * unit_sum(x, g, order) if ctx.needs_input_grad[1] else None, None

    @staticmethod
    def jvp(ctx: Any, t_x: Tensor, t_w: Tensor, _: None) -> Tensor:
        dispatch.check_forward_mode()
        (x, w), order = ctx.saved_tensors, ctx.order
        return unit_sum(x, t_w, order) + unit_sum(x, w * t_x, order + 1) - t_x * unit_sum(x, w, order + 1)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> tuple[Tensor, int]:
        x, w = all_rows(given[:2], in_dims, info.batch_size)
        return unit_sum(x, w, given[2]).unflatten(0, (info.batch_size, -1)), 0


def _apart(z: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Distances from the middle of the row, and those in the unit of length in which the slope is 1."""
    apart = z - z.mean(1, keepdim=True)
    return apart, slope.unsqueeze(1) * apart


def all_rows(given: tuple[Tensor, ...], dims: tuple[int | None, ...], count: int) -> list[Tensor]:
    """Rows of a whole batch of ``torch.func.vmap`` as rows of one call."""
    batches = [
        one.expand(count, *one.shape) if dim is None else one.movedim(dim, 0)
        for one, dim in zip(given, dims, strict=False)
    ]
    return [one.flatten(0, 1) for one in batches]
