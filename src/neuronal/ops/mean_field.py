r"""The equation of implicit-bias neurons, solved and differentiated.

A row :math:`a \in \mathbb{R}^N` of pre-activations becomes the row :math:`z` with

.. math:: z_i = a_i - \lambda \, \frac1N \sum_k \tanh(p\,(z_k - z_i)).

All units of a row see one and the same function of their own value, so a row costs O(N) and not O(N^2): unit masses are
put on a uniform grid (:mod:`neuronal.ops.grid`), the sums over all units become one matrix product common to all rows,
and are read off the grid again. Newton's method does the rest: with :math:`S_i` the mean slope of the coupling at unit
:math:`i` and :math:`W` its matrix, the Jacobian is :math:`A = \mathrm{diag}(1 - \lambda p S) + \lambda p W`, symmetric,
and the gradient of a solution solves the same linear system.

For :math:`\lambda p < 1` the solution is unique and keeps the order of the units; its mean is that of :math:`a`; for
:math:`\lambda \le 0` the map from :math:`a` to :math:`z` does not expand distances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._decomp import register_decomposition
from torch.func import grad

from neuronal.ops import damped, dispatch
from neuronal.ops.coupling_mean import coupling_mean, mean_tangent
from neuronal.ops.groups import all_finite, groups
from neuronal.ops.kernels import mean_field as kernels
from neuronal.ops.newton import largest, linear, newton, sums_over

MAX_STEPS = 60
# Below this coupling * slope solutions are unique: the slopes of tanh make a positive matrix.
UNIQUE_BELOW = 1.0
# A solve in float32 cannot promise more than this; below it the work is done in float64.
_FLOAT32_FLOOR = 5e-5


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solve found, row by row."""

    value: Tensor
    """z, of the shape of a."""
    residual: Tensor
    """Bound on the largest violation of the equation in each row, relative to max(1, max|a|); the grid's error is in it."""
    steps: Tensor
    """Newton steps taken, per row."""
    converged: Tensor
    """Whether the residual is within the tolerance. False for rows that hold NaN or infinity."""


def solve(
    a: Tensor,
    coupling: Tensor | float,
    slope: Tensor | float,
    *,
    tolerance: float = 1e-4,
    max_steps: int = MAX_STEPS,
    check: bool = True,
) -> Solution:
    r"""Solves the equation for every row; differentiable with respect to ``a``, ``coupling`` and ``slope``, in both modes
    and any number of times.

    Args:
        a: ``(rows, N)``. Half precision is solved in float32.
        coupling: :math:`\lambda`, a number, one per row or one per channel, of which row r has r % channels; negative
            contracts.
        slope: :math:`p > 0`, likewise.
        tolerance: Bound on the residual to stop at.
        max_steps: Newton steps after which a row is given up and reported as not converged.
        check: Whether to look at coupling and slope, for which a GPU has to be waited for. Not if it is known that
            solutions are unique.

    Raises:
        ValueError: :math:`\lambda p \ge 1`, where solutions need not be unique, or a slope that is not positive.

    Cost:
        O(N) per row and step while a row spans up to some thousand times 1/p; O(N log N) beyond. A derivative is one
        linear solve, as dear as a step or two, and every further one some solves and sums of O(N); on a GPU, gradients of
        gradients and forward mode sum with torch's operations and wait for the device.
    """
    if a.dim() != 2 or not a.is_floating_point():
        raise ValueError(f"solve needs rows of units, floats of shape (rows, N), got {a.dtype} {tuple(a.shape)}.")
    if not tolerance > 0:
        raise ValueError(f"tolerance needs to be above 0, got {tolerance}.")
    work = torch.float64 if a.dtype == torch.float64 else torch.float32
    lam, p = _numbers(coupling, "coupling", a, work), _numbers(slope, "slope", a, work)
    if check and not torch.compiler.is_compiling() and not any(map(dispatch.is_vmapped, (lam, p))):
        alike = lam.shape[0] == p.shape[0] or 1 in (lam.shape[0], p.shape[0])
        both = (lam, p) if alike else (_per_row(t, a.shape[0]) for t in (lam, p))
        check_unique(*without_nan(*both)[:2])
    value, residual, steps, converged = _solution(a.to(work), lam, p, tolerance, max_steps)
    return Solution(value.to(a.dtype), residual, steps, converged)


def _numbers(given: Tensor | float, name: str, a: Tensor, dtype: torch.dtype) -> Tensor:
    """Some numbers that rows take in turn."""
    if not isinstance(given, Tensor):
        # Made where it is needed, since a GPU would be waited for to copy it.
        return torch.full((1,), given, device=a.device, dtype=dtype)
    found = given.to(a.device, dtype).reshape(-1)
    # Sizes by shape: the exporter takes a length for a fixed number.
    rows, count = a.shape[0], found.shape[0]
    if count != rows and (count == 0 or rows % count):
        raise ValueError(f"{name} needs to be one number or as many as divide the {rows} rows, got {count}.")
    return found


def _per_row(numbers: Tensor, rows: int) -> Tensor:
    return numbers if numbers.shape[0] == rows else numbers.repeat(rows // numbers.shape[0])


def _in_all(of_rows: Tensor, count: int) -> Tensor:
    """Gradients of numbers that rows take in turn, from those of the rows."""
    return of_rows.view(-1, count).sum(0) if count else of_rows


def without_nan(coupling: Tensor, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Coupling and slope with 0 and 1 where one of them is no finite number, and where both are.

    A training that diverges makes them NaN: like those of a NaN weight, the rows are NaN, and the loss shows it.
    """
    known = coupling.isfinite() & slope.isfinite()
    return torch.where(known, coupling, 0.0), torch.where(known, slope, 1.0), known


def check_unique(coupling: Tensor, slope: Tensor) -> None:
    """``ValueError`` if coupling * slope is 1 or more anywhere: below, solutions are unique."""
    if slope.numel() == 0 or dispatch.is_valueless(coupling) or dispatch.is_valueless(slope):
        return
    if not (slope > 0).all():
        raise ValueError(f"slope needs to be above 0, got {slope.min().item():g}.")
    worst = int((coupling * slope).argmax())
    lam, p = coupling[worst].item(), slope[worst].item()
    if not lam * p < UNIQUE_BELOW:
        raise ValueError(
            f"coupling * slope needs to be below {UNIQUE_BELOW:g} for a unique solution, got {lam:g} * {p:g} = {lam * p:g}. "
            f"With slope {p:g} choose a coupling below {UNIQUE_BELOW / p:g}; any negative one will do."
        )


def _solve_now(
    a: Tensor, coupling: Tensor, slope: Tensor, tolerance: float, max_steps: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if kernels.covers(a, tolerance):
        found = kernels.solve(a, coupling, slope, tolerance, max_steps)
        return found.value, found.residual, found.steps, found.converged
    with torch.autocast(a.device.type, enabled=False):
        rows = a.shape[0]
        return _solve_rows(a, _per_row(coupling, rows), _per_row(slope, rows), tolerance, max_steps)


def _in_one_step(rows: Tensor) -> bool:
    """Whether kernels are called for these rows, with no operator around them that others may want to see."""
    return not torch.is_grad_enabled() and kernels.are_called(rows, 1.0)


def _solve_rows(
    a: Tensor, coupling: Tensor, slope: Tensor, tolerance: float, max_steps: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    value = torch.empty_like(a, memory_format=torch.contiguous_format)
    residual = a.new_zeros(a.shape[0])
    steps = torch.zeros(a.shape[0], dtype=torch.long, device=a.device)
    if a.numel() == 0:
        return value, residual, steps, residual <= tolerance
    # A row with NaN or infinity is NaN; the others do not know of it.
    coupling, slope, known = without_nan(coupling, slope)
    finite = all_finite(a) & known
    safe = a if finite.all() else torch.where(finite.unsqueeze(1), a, 0.0)
    # The error of the grid may take up a quarter of the tolerance.
    allowed = 0.25 * tolerance * largest(safe).clamp_min(1) / coupling.abs().clamp_min(1e-12)
    double = a.dtype == torch.float64 or tolerance < _FLOAT32_FLOOR
    for rows, precision in groups(safe, slope, allowed, torch.float64 if double else torch.float32):
        some = (safe[rows].to(precision.dtype), coupling[rows], slope[rows])
        unit = torch.finfo(a.dtype).eps
        one = newton(*some, (1 - 4 * unit) * tolerance, max_steps, precision, unit / 2)
        # A bound is rounded up.
        value[rows], residual[rows], steps[rows] = one[0].to(a.dtype), ((1 + 2 * unit) * one[1]).to(a.dtype), one[2]
    converged = residual <= tolerance
    if not finite.all():
        value[~finite], residual[~finite], converged[~finite] = torch.nan, torch.nan, False
    return value, residual, steps, converged


_solve = torch.library.custom_op("neuronal::mean_field", _solve_now, mutates_args=())


@_solve.register_fake
def _(a: Tensor, coupling: Tensor, slope: Tensor, tolerance: float, max_steps: int) -> tuple[Tensor, ...]:
    rows = a.shape[0]
    flags = torch.empty(rows, dtype=torch.bool, device=a.device)
    return torch.empty_like(a), a.new_empty(rows), torch.empty(rows, dtype=torch.long, device=a.device), flags


# For programs that have no operator of ours: ONNX.
register_decomposition(torch.ops.neuronal.mean_field.default)(damped.loop)


def _vjp_now(
    g: Tensor, z: Tensor, coupling: Tensor, slope: Tensor, with_coupling: bool, with_slope: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for a, coupling and slope: v with A v = g, and what follows from it."""
    if kernels.covers(z, 1.0):
        v, (d_coupling, d_slope) = kernels.vjp(g, z, coupling, slope, with_coupling, with_slope)
        d_slope = _in_all(d_slope, slope.shape[0]) if with_slope else torch.zeros_like(slope)
        return v, _in_all(d_coupling, coupling.shape[0]), d_slope
    with torch.autocast(z.device.type, enabled=False):
        both = _per_row(coupling, z.shape[0]), _per_row(slope, z.shape[0])
        v, d_coupling, d_slope = _vjp_rows(g, z, *both, with_coupling, with_slope)
        return v, _in_all(d_coupling, coupling.shape[0]), _in_all(d_slope, slope.shape[0])


def _vjp_rows(
    g: Tensor, z: Tensor, coupling: Tensor, slope: Tensor, with_coupling: bool, with_slope: bool
) -> tuple[Tensor, Tensor, Tensor]:
    v, d_coupling, d_slope = torch.zeros_like(z), torch.zeros_like(coupling), torch.zeros_like(slope)
    if z.numel() == 0:
        return v, d_coupling, d_slope
    coupling, slope, known = without_nan(coupling, slope)
    finite = all_finite(z) & all_finite(g) & known
    safe, safe_g = (torch.where(finite.unsqueeze(1), t, 0.0) if not finite.all() else t for t in (z, g))
    # A gradient is to be right in relation to itself, whatever the size of the row and the tolerance of its solution.
    # Units that push each other apart multiply errors by up to 1 / (1 - coupling slope).
    room = 1 - (coupling * slope).clamp_min(0)
    single = z.dtype == torch.float32
    relative = 3e-5 if single else 1e-12
    sums = torch.where(coupling > 0, 3 * room.square(), 1.0) * (3e-5 if single else 3e-13)
    for rows, precision in groups(safe, slope, sums, z.dtype):
        lam, p = (t[rows].to(precision.dtype).unsqueeze(1) for t in (coupling, slope))
        value = safe[rows].to(precision.dtype)
        field = sums_over((value - value.mean(1, keepdim=True)).mul_(p), precision)
        own, spread = linear(field, safe_g[rows].to(precision.dtype), lam * p, relative)
        v[rows] = own.to(z.dtype)
        # What multiplies v is a function on the nodes, so the products are taken there.
        units = z.shape[1]
        if with_coupling:
            d_coupling[rows] = -units * torch.linalg.vecdot(spread, field.tanh).to(coupling.dtype)
        if with_slope:
            stretch = (lam / p).squeeze(1) * torch.linalg.vecdot(spread, field.stretch)
            d_slope[rows] = -units * stretch.to(slope.dtype)
    if not finite.all():
        v[~finite], d_coupling[~finite], d_slope[~finite] = torch.nan, torch.nan, torch.nan
    return v, d_coupling, d_slope


_vjp = torch.library.custom_op("neuronal::mean_field_vjp", _vjp_now, mutates_args=())


@_vjp.register_fake
def _(
    g: Tensor, z: Tensor, coupling: Tensor, slope: Tensor, with_coupling: bool, with_slope: bool
) -> tuple[Tensor, ...]:
    return torch.empty_like(z), torch.empty_like(coupling), torch.empty_like(slope)


class _Solve(torch.autograd.Function):
    """The solve with its implicit gradient."""

    @staticmethod
    def forward(a: Tensor, coupling: Tensor, slope: Tensor, tolerance: float, max_steps: int) -> tuple[Tensor, ...]:
        call = _solve_now if _in_one_step(a) else _solve
        found: tuple[Tensor, ...] = call(a, coupling, slope, tolerance, max_steps)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(output[0], inputs[1], inputs[2])
        ctx.save_for_forward(output[0], inputs[1], inputs[2])
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        _, with_coupling, with_slope, *_ = ctx.needs_input_grad
        z, coupling, slope = ctx.saved_tensors
        found = gradients(g.contiguous(), z, coupling, slope, with_coupling, with_slope)
        return (*found, None, None)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        """Rows of all in one call: to each its own numbers, where these are several."""
        (a, coupling, slope), rest = _first_dims(given[:3], in_dims, info.batch_size), given[3:]
        found = _solution(a.flatten(0, 1), _of_all_rows(coupling, a), _of_all_rows(slope, a), *rest)
        return tuple(one.unflatten(0, a.shape[:2]) for one in found), (0,) * 4


_solve.register_autograd(_Solve.backward, setup_context=_Solve.setup_context)


class _SolveForwardMode(_Solve):
    """The same, also for forward mode."""

    @staticmethod
    def jvp(ctx: Any, t_a: Tensor, t_coupling: Tensor, t_slope: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        dispatch.check_forward_mode()
        return _forward_step(ctx.saved_tensors, t_a, t_coupling, t_slope), None, None, None


def _solution(*given: Any) -> tuple[Tensor, ...]:
    # The compiler does not take functions with a forward-mode rule.
    function = _Solve if torch.compiler.is_compiling() else _SolveForwardMode
    found: tuple[Tensor, ...] = function.apply(*given)
    return found


# Note [Derivatives of all orders]
# With M(z, coupling, slope) = coupling * mean tanh, the equation is z + M = a. Its derivatives are those of M, which has
# them all, and solutions v of A v = g, A = 1 + dM/dz being symmetric:
#     forward    dz = A^-1 (da - dM at a fixed z)
#     backward   v = A^-1 g for a, and -v dM/dcoupling, -v dM/dslope
# The same again for the backward step, a function of g, z, coupling and slope: paired with cotangents (w, w_c, w_s) it is
# g A^-1 r with r = w - dM along (w_c, w_s), so its gradient for g is u = A^-1 r, a forward step, and the others are those
# of -v dM along (u, w_c, w_s), for fixed u and v. Steps of one kind are made of steps of the same kind, at any order.


def gradients(
    g: Tensor, z: Tensor, coupling: Tensor, slope: Tensor, with_coupling: bool, with_slope: bool
) -> tuple[Tensor, ...]:
    """Gradients for a, coupling and slope at the solution z, differentiable where somebody may ask for that."""
    call: Callable[..., tuple[Tensor, ...]] = _vjp
    # What is compiled is differentiated once.
    if dispatch.is_backward_transformed() and not torch.compiler.is_compiling():
        call = _Vjp.apply
    elif _in_one_step(z):
        call = _vjp_now
    return call(g, z, coupling, slope, with_coupling, with_slope)


def _forward_step(at: Sequence[Tensor], t_a: Tensor, t_coupling: Tensor, t_slope: Tensor) -> Tensor:
    """How the solution moves with a, coupling and slope, ``at`` being z, coupling and slope."""
    moved = _coupled_tangent(at, (torch.zeros_like(t_a), t_coupling, t_slope))
    t_z: Tensor = _Vjp.apply(t_a - moved, *at, False, False)[0]
    return t_z


def _coupled_tangent(at: Sequence[Tensor], along: Sequence[Tensor]) -> Tensor:
    """How M moves along a direction."""
    z, *numbers = at
    t_z, *t_numbers = along
    coupling, slope, t_coupling, t_slope = (_per_row(one, z.shape[0]) for one in (*numbers, *t_numbers))
    moved = coupling.unsqueeze(1) * mean_tangent(z, slope, t_z, t_slope)
    return moved + t_coupling.unsqueeze(1) * coupling_mean(z, slope)


def _gradient_of_tangent(v: Tensor, at: Sequence[Tensor], along: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Gradients of v times how M moves along a direction, which is how the gradient of v M does."""
    found: tuple[Tensor, ...] = grad(lambda *at: (v * _coupled_tangent(at, along)).sum(), (0, 1, 2))(*at)
    return found


class _Vjp(torch.autograd.Function):
    """The backward step."""

    @staticmethod
    def forward(*given: Any) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = _vjp(*given)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[1:4], output[0])
        ctx.save_for_forward(*inputs[1:4], output[0])
        ctx.with_numbers = inputs[4:]

    @staticmethod
    def backward(ctx: Any, *w: Tensor) -> tuple[Tensor | None, ...]:
        *at, v = ctx.saved_tensors
        u = _forward_step(at, *w)
        return u, *_gradient_of_tangent(-v, at, (u, *w[1:])), None, None

    @staticmethod
    def jvp(ctx: Any, t_g: Tensor, *given: Any) -> tuple[Tensor, ...]:
        dispatch.check_forward_mode()
        *at, v = ctx.saved_tensors
        t_z, *t_numbers = _gradient_of_tangent(v, at, given[:3])
        t_v, *own = _Vjp.apply(t_g - t_z, *at, *ctx.with_numbers)
        return t_v, *(one - t for one, t in zip(own, t_numbers, strict=True))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        (g, z, coupling, slope), rest = _first_dims(given[:4], in_dims, info.batch_size), given[4:]
        numbers = [one.expand(z.shape[0], -1) if one.dim() == 1 else one for one in (coupling, slope)]
        # As many gradients as there are in the batch: each row has numbers of its own, whose gradients are put together.
        rows = (g.flatten(0, 1), z.flatten(0, 1), *(_of_all_rows(one, z) for one in numbers))
        v, *of_numbers = _Vjp.apply(*rows, *rest)
        sums = [of.view(z.shape[0], -1, one.shape[1]).sum(1) for of, one in zip(of_numbers, numbers, strict=True)]
        return (v.unflatten(0, z.shape[:2]), *sums), (0, 0, 0)


def _first_dims(given: Sequence[Tensor], dims: Sequence[int | None], count: int) -> list[Tensor]:
    """Batches along the first dimension; rows that are the same for all repeated, numbers left as they are."""
    moved = [one if dim is None else one.movedim(dim, 0) for one, dim in zip(given, dims, strict=False)]
    return [
        one.expand(count, *one.shape) if dim is None and one.dim() == 2 else one
        for one, dim in zip(moved, dims, strict=False)
    ]


def _of_all_rows(numbers: Tensor, rows: Tensor) -> Tensor:
    """Numbers that the rows of a whole batch take in turn; one for every row, if each of the batch has others."""
    return numbers if numbers.dim() == 1 else numbers.repeat(1, rows.shape[1] // numbers.shape[1]).flatten()
