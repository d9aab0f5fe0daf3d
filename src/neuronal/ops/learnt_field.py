"""A layer's solve on a GPU as one node of the graph: from what is learnt to the solution, and nothing is waited for.

Plain torch would take some thirty calls each way for the couplings alone, and more time for them than the kernels need.
Forward there are three launches at most, backward three; see :mod:`neuronal.ops.kernels`. Gradients of gradients are
made of torch's operations.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from neuronal.ops import dispatch
from neuronal.ops.kernels import mean_field as kernels
from neuronal.ops.mean_field import MAX_STEPS, Solution, gradients
from neuronal.ops.sphere import plain_gradients


def takes(a: Tensor, raw_coupling: Tensor, log_slope: Tensor, units: int, tolerance: float) -> bool:
    """Whether :func:`solve_learnt` is for these: rows of tanh units on a GPU, and nobody who looks on."""
    if not kernels.are_called(a, tolerance, units):
        return False
    same = raw_coupling.device == log_slope.device == a.device
    return same and raw_coupling.dtype == log_slope.dtype == torch.float32


def solve_learnt(
    a: Tensor, raw_coupling: Tensor, log_slope: Tensor, units: int, most: float | None, tolerance: float
) -> Solution:
    """The solution for rows of so many units, of which ``a`` may have any shape; so does the value.

    Args:
        raw_coupling: One for all rows, or one per channel; a learnt one is kept where solutions are unique.
        log_slope: One for all rows.
        most: Bound on coupling * slope; ``None`` if the coupling is fixed, and not for us to change.
    """
    return Solution(*_Layer.apply(a, raw_coupling, log_slope, units, most, tolerance)[:4])


def bounded(raw_coupling: Tensor, slope: Tensor, most: float) -> Tensor:
    """A learnt coupling, which times the slope stays below ``most``."""
    top = most / slope
    return torch.where(raw_coupling > 0, top * torch.tanh(raw_coupling / top), raw_coupling)


class _Layer(torch.autograd.Function):
    """The solve with its implicit gradient, in the precision and order of memory of its input."""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, raw_coupling: Tensor, log_slope: Tensor, units: int, most: float | None, tolerance: float
    ) -> tuple[Tensor, ...]:
        from neuronal.ops.kernels import learnt

        coupling, slope = learnt.values(raw_coupling, log_slope, most)
        found = kernels.solve(a.to(torch.float32), coupling, slope, tolerance, MAX_STEPS, units)
        # The kernel writes the solution twice: the gradient needs it as it is, and what follows may be a ReLU in place. The
        # second is an output too, so that gradients of the gradient find their way through it.
        ctx.save_for_backward(found.kept, coupling, slope, raw_coupling, log_slope)
        ctx.units, ctx.most, ctx.dtype = units, most, a.dtype
        ctx.mark_non_differentiable(found.residual, found.steps, found.converged)
        ctx.set_materialize_grads(False)
        return laid_out_like(a, found.value.to(a.dtype)), found.residual, found.steps, found.converged, found.kept

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, *others: Tensor | None) -> tuple[Tensor | None, ...]:
        parts = [one.to(torch.float32) for one in (g, others[3]) if one is not None]
        if not parts:
            return (None,) * 6
        found = (_plain_gradients if torch.is_grad_enabled() else _gradients)(ctx, sum(parts[1:], start=parts[0]))
        return (*found, None, None, None)


def _gradients(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    from neuronal.ops.kernels import learnt

    z, coupling, slope, raw_coupling, _ = ctx.saved_tensors
    _, with_coupling, with_slope, *_ = ctx.needs_input_grad
    # A slope that is learnt moves the bound of a coupling that is.
    with_coupling = with_coupling or (with_slope and ctx.most is not None)
    v, of_rows = kernels.vjp(g, z, coupling, slope, with_coupling, with_slope, ctx.units)
    d_raw, d_log_slope = None, None
    if with_coupling or with_slope:
        d_raw, d_log_slope = learnt.gradients(of_rows, raw_coupling, slope, ctx.most, with_coupling, with_slope)
    return v.to(ctx.dtype), d_raw, d_log_slope


def _plain_gradients(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
    """The same in steps that can be differentiated."""
    z, _, _, raw_coupling, log_slope = ctx.saved_tensors
    slope = log_slope.exp()
    coupling = raw_coupling if ctx.most is None else bounded(raw_coupling, slope, ctx.most)
    rows, g_rows = (t.reshape(-1, ctx.units) for t in (z, g))
    v, *of_numbers = gradients(g_rows, rows, coupling, slope, True, True)
    d_numbers: list[Tensor | None] = [None, None]
    if any(ctx.needs_input_grad[1:3]):
        d_numbers = plain_gradients([coupling, slope], [raw_coupling, log_slope], of_numbers)
    return v.view(z.shape).to(ctx.dtype), *d_numbers


def laid_out_like(a: Tensor, z: Tensor) -> Tensor:
    """z with the channels where they are in a: first, or last in memory."""
    if dispatch.is_vmapped(a):
        return z
    for dims, layout in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if a.dim() == dims and a.is_contiguous(memory_format=layout) and not a.is_contiguous():
            return z.contiguous(memory_format=layout)
    return z
