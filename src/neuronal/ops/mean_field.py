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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from neuronal.ops.grid import Field, Precision, Workspace, precision_for

MAX_STEPS = 60
# A solve in float32 cannot promise more than this; below it the work is done in float64.
_FLOAT32_FLOOR = 5e-5
# Rows are taken in groups of about this many units, so that what a step needs stays in the cache.
_CHUNK = 1 << 18
_MOST_LINEAR_STEPS = 200
# Up to this width a wider grid costs next to nothing.
_NARROW = 20.0


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
    a: Tensor, coupling: Tensor | float, slope: Tensor | float, *, tolerance: float = 1e-4, max_steps: int = MAX_STEPS
) -> Solution:
    r"""Solves the equation for every row; differentiable with respect to ``a``, ``coupling`` and ``slope``.

    Args:
        a: ``(rows, N)``. Half precision is solved in float32.
        coupling: :math:`\lambda`, a number or one per row; negative contracts.
        slope: :math:`p > 0`, a number or one per row.
        tolerance: Bound on the residual to stop at.
        max_steps: Newton steps after which a row is given up and reported as not converged.

    Raises:
        ValueError: :math:`\lambda p \ge 1`, where solutions need not be unique, or a slope that is not positive.

    Cost:
        O(N) per row and step while a row spans up to some hundred times 1/p; O(N log N) beyond.
    """
    if a.dim() != 2:
        raise ValueError(f"solve needs rows of units, a tensor of shape (rows, N), got shape {tuple(a.shape)}.")
    work = torch.float64 if a.dtype == torch.float64 else torch.float32
    lam, p = (torch.as_tensor(v, device=a.device, dtype=work).expand(a.shape[0]) for v in (coupling, slope))
    if not torch.compiler.is_compiling():
        check_unique(lam, p)
    value, residual, steps, converged = _Solve.apply(a.to(work), lam, p, tolerance, max_steps)
    return Solution(value.to(a.dtype), residual, steps, converged)


def check_unique(coupling: Tensor, slope: Tensor) -> None:
    """``ValueError`` if the bound below which solutions are unique is violated anywhere."""
    if slope.numel() == 0 or coupling.is_meta or slope.is_meta:
        return
    if not (slope > 0).all():
        raise ValueError(f"slope needs to be above 0, got {slope.min().item():g}.")
    worst = int((coupling * slope).argmax())
    lam, p = coupling[worst].item(), slope[worst].item()
    if not lam * p < 1:
        raise ValueError(
            f"coupling * slope needs to be below 1 for a unique solution, got {lam:g} * {p:g} = {lam * p:g}. "
            f"With slope {p:g} choose a coupling below {1 / p:g}; any negative one will do."
        )


@torch.library.custom_op("neuronal::mean_field", mutates_args=())
def _solve(
    a: Tensor, coupling: Tensor, slope: Tensor, tolerance: float, max_steps: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    with torch.autocast(a.device.type, enabled=False):
        return _solve_rows(a, coupling, slope, tolerance, max_steps)


def _solve_rows(
    a: Tensor, coupling: Tensor, slope: Tensor, tolerance: float, max_steps: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    value = torch.empty_like(a, memory_format=torch.contiguous_format)
    residual = a.new_zeros(a.shape[0])
    steps = torch.zeros(a.shape[0], dtype=torch.long, device=a.device)
    converged = torch.ones(a.shape[0], dtype=torch.bool, device=a.device)
    if a.numel() == 0:
        return value, residual, steps, converged
    # A row with NaN or infinity is NaN; the others do not know of it.
    finite = _finite(a)
    safe = a if finite.all() else torch.where(finite.unsqueeze(1), a, 0.0)
    # The error of the grid may take up a quarter of the tolerance.
    allowed = 0.25 * tolerance * _size(safe).clamp_min(1) / coupling.abs().clamp_min(1e-12)
    double = a.dtype == torch.float64 or tolerance < _FLOAT32_FLOOR
    workspace = Workspace()
    for rows, precision in _groups(safe, slope, allowed, torch.float64 if double else torch.float32):
        some = (safe[rows].to(precision.dtype), coupling[rows], slope[rows])
        one = _newton(*some, tolerance, max_steps, precision, torch.finfo(a.dtype).eps / 2, workspace)
        value[rows], residual[rows], steps[rows] = one[0].to(a.dtype), one[1].to(a.dtype), one[2]
        converged[rows] = one[1] <= tolerance
    if not finite.all():
        value[~finite], residual[~finite], converged[~finite] = torch.nan, torch.nan, False
    return value, residual, steps, converged


@_solve.register_fake
def _(a: Tensor, coupling: Tensor, slope: Tensor, tolerance: float, max_steps: int) -> tuple[Tensor, ...]:
    rows = a.shape[0]
    flags = torch.empty(rows, dtype=torch.bool, device=a.device)
    return torch.empty_like(a), a.new_empty(rows), torch.empty(rows, dtype=torch.long, device=a.device), flags


@torch.library.custom_op("neuronal::mean_field_vjp", mutates_args=())
def _vjp(
    g: Tensor, z: Tensor, coupling: Tensor, slope: Tensor, with_coupling: bool, with_slope: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for a, coupling and slope: v with A v = g, and what follows from it, row by row."""
    with torch.autocast(z.device.type, enabled=False):
        return _vjp_rows(g, z, coupling, slope, with_coupling, with_slope)


def _vjp_rows(
    g: Tensor, z: Tensor, coupling: Tensor, slope: Tensor, with_coupling: bool, with_slope: bool
) -> tuple[Tensor, Tensor, Tensor]:
    v, d_coupling, d_slope = torch.zeros_like(z), torch.zeros_like(coupling), torch.zeros_like(slope)
    if z.numel() == 0:
        return v, d_coupling, d_slope
    finite = _finite(z) & _finite(g)
    safe, safe_g = (torch.where(finite.unsqueeze(1), t, 0.0) if not finite.all() else t for t in (z, g))
    # A gradient is to be right in relation to itself, whatever the size of the row and the tolerance of its solution.
    # Units that push each other apart multiply errors by up to 1 / (1 - coupling slope).
    room = 1 - (coupling * slope).clamp_min(0)
    single = z.dtype == torch.float32
    relative = (3e-5 if single else 1e-12) * float(room.amin())
    sums = torch.where(coupling > 0, 3 * room.square(), 1.0) * (3e-5 if single else 3e-13)
    workspace = Workspace()
    for rows, precision in _groups(safe, slope, sums, z.dtype):
        lam, p = (t[rows].to(precision.dtype).unsqueeze(1) for t in (coupling, slope))
        value = safe[rows].to(precision.dtype)
        field = Field(p * value, precision, workspace)
        slopes = field.slopes()
        own = _linear(field, safe_g[rows].to(precision.dtype), lam * p, slopes, relative)
        v[rows] = own.to(z.dtype)
        if with_coupling:
            d_coupling[rows] = -torch.linalg.vecdot(own, field.means()).to(coupling.dtype)
        if with_slope:
            spread = field.apply(value).sub_(value * slopes)
            d_slope[rows] = -(lam.squeeze(1) * torch.linalg.vecdot(own, spread)).to(slope.dtype)
    if not finite.all():
        v[~finite], d_coupling[~finite], d_slope[~finite] = torch.nan, torch.nan, torch.nan
    return v, d_coupling, d_slope


@_vjp.register_fake
def _(
    g: Tensor, z: Tensor, coupling: Tensor, slope: Tensor, with_coupling: bool, with_slope: bool
) -> tuple[Tensor, ...]:
    return torch.empty_like(z), torch.empty_like(coupling), torch.empty_like(slope)


class _Solve(torch.autograd.Function):
    """The solve with its implicit gradient."""

    @staticmethod
    def forward(a: Tensor, coupling: Tensor, slope: Tensor, tolerance: float, max_steps: int) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = _solve(a, coupling, slope, tolerance, max_steps)
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(output[0], inputs[1], inputs[2])
        ctx.mark_non_differentiable(*output[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        _, with_coupling, with_slope, *_ = ctx.needs_input_grad
        return (*_vjp(g.contiguous(), *ctx.saved_tensors, with_coupling, with_slope), None, None)


def _finite(rows: Tensor) -> Tensor:
    """Whether a row has numbers only; extremes show it, and are found in one pass without a copy."""
    return rows.amin(1).isfinite() & rows.amax(1).isfinite()


def _size(rows: Tensor) -> Tensor:
    """Largest absolute value of every row, without a copy."""
    return torch.maximum(rows.amax(1), -rows.amin(1))


def _groups(
    a: Tensor, slope: Tensor, allowed: Tensor, dtype: torch.dtype
) -> Iterator[tuple[Tensor | slice, Precision]]:
    """Rows that share a grid, a cache's worth at a time, and the precision the most demanding of them is allowed."""
    width = slope * (a.amax(1) - a.amin(1))
    for rows in _like(width, max(1, _CHUNK // a.shape[1])):
        yield rows, precision_for(float(allowed[rows].amin()), float(width[rows].amax()), dtype)


def _like(width: Tensor, size: int) -> Iterator[Tensor | slice]:
    """At most ``size`` rows at a time, of widths that do not differ much: the widest row sets the grid of its group."""
    # The rows of a network's layer are alike; then they stay in their order and nothing is copied.
    if width.amax() <= 2 * width.mean() + _NARROW:
        yield from (slice(start, start + size) for start in range(0, len(width), size))
        return
    widths, order = width.sort()
    start = 0
    for end, own in enumerate([*widths.tolist()[1:], float("inf")], start=1):
        if own > 2 * widths[start] + _NARROW or end - start == size:
            yield order[start:end]
            start = end


@dataclass
class _Problem:
    """Some rows in the unit of length in which the slope is 1: x = p z solves x = target - kappa mean tanh."""

    target: Tensor
    kappa: Tensor
    scale: Tensor
    """max(1, max|a|) of every row, in that unit."""

    def rows(self, index: Tensor) -> _Problem:
        return _Problem(self.target[index], self.kappa[index], self.scale[index])


def _newton(
    a: Tensor,
    coupling: Tensor,
    slope: Tensor,
    tolerance: float,
    max_steps: int,
    precision: Precision,
    unit: float,
    workspace: Workspace,
) -> tuple[Tensor, Tensor, Tensor]:
    """Value, residual and steps of some rows whose values will be rounded to relative precision ``unit``."""
    lam, p = (t.to(a.dtype).unsqueeze(1) for t in (coupling, slope))
    target = p * a
    problem = _Problem(target, lam * p, torch.maximum(p.squeeze(1), _size(target)))
    x = target.clone()
    residual = torch.zeros_like(problem.scale)
    steps = torch.zeros(a.shape[0], dtype=torch.long, device=a.device)
    _improve(problem, x, residual, steps, tolerance, max_steps, precision, unit, workspace)
    # Rows that needed no step, those without coupling among them, are what they were to the last bit.
    return torch.where((steps > 0).unsqueeze(1), x / p, a), residual, steps


def _improve(
    problem: _Problem,
    x: Tensor,
    residual: Tensor,
    steps: Tensor,
    tolerance: float,
    max_steps: int,
    precision: Precision,
    unit: float,
    workspace: Workspace,
) -> None:
    """Newton's method on ``x`` in place, until every row is within the tolerance or out of steps."""
    kappa, target = problem.kappa, problem.target
    strength = kappa.squeeze(1).abs()
    low, high = target.amin(1, keepdim=True), target.amax(1, keepdim=True)
    reach = kappa.clamp_min(0)
    order: Tensor | None = None
    while True:
        before = residual.clone()
        field = Field(x, precision, workspace)
        F = field.means().mul_(kappa).add_(x).sub_(target)
        # The violation itself, the error of the grid, and what rounding x to the dtype of the answer can do.
        rounding = torch.where(steps > 0, unit * _shaken(field, x, kappa, tolerance * problem.scale / unit), 0)
        residual.copy_((_size(F) + strength * precision.error + rounding) / problem.scale)
        open_rows = (residual > tolerance) & (steps < max_steps)
        left = int(open_rows.sum())
        if not left:
            return
        if left < 0.7 * len(x):
            # Go on with the rows that need it.
            index = open_rows.nonzero().flatten()
            some = (x[index], residual[index], steps[index])
            _improve(problem.rows(index), *some, tolerance, max_steps, precision, unit, workspace)
            x[index], residual[index], steps[index] = some
            return
        if order is None and (open_rows & (steps > 0) & (residual > 0.5 * before)).any():
            order = target.argsort(1)
        steps += open_rows
        if order is None:
            new = field.rough_solve(F, kappa, field.rough_slopes().mul_(-kappa).add_(1)).neg_().add_(x)
        else:
            # Where a rough step did not help, an exact one, kept to what is known of the solution, does.
            new = in_order(x - _linear(field, F, kappa, field.slopes(), 1e-3), target, order, kappa)
        # The solution lies between the extreme units; a step that leaves that range has overshot.
        x.copy_(torch.where(open_rows.unsqueeze(1), new.clamp_(low - reach, high + reach), x))


def _shaken(field: Field, x: Tensor, kappa: Tensor, matters: Tensor) -> Tensor:
    """By how much the equation changes at most, per unit of relative error in x.

    At most 1 + 2 |kappa| times the largest x; where that ``matters``, row by row what it really is, since units that are
    far from all others, like the largest, hardly feel the coupling.
    """
    simple = _size(x) * (1 + 2 * kappa.squeeze(1).abs())
    if (simple < 0.25 * matters).all():
        return simple
    size = x.abs()
    felt = size * field.slopes() + field.apply(size)
    return (size + kappa.abs() * felt).amax(1)


def in_order(x: Tensor, target: Tensor, order: Tensor, kappa: Tensor) -> Tensor:
    """The nearest thing to x with what is known of the solution: order, no larger gaps if contracting, the mean."""
    gaps = x.gather(1, order).diff(dim=1).clamp_min(0)
    widest = target.gather(1, order).diff(dim=1)
    gaps = torch.where(kappa <= 0, gaps.minimum(widest), gaps)
    climbed = torch.nn.functional.pad(gaps.cumsum(1), (1, 0))
    climbed += target.mean(1, keepdim=True) - climbed.mean(1, keepdim=True)
    return torch.empty_like(x).scatter_(1, order, climbed)


def _linear(field: Field, b: Tensor, kappa: Tensor, slopes: Tensor, relative: float) -> Tensor:
    """v with A v = b to ``relative`` accuracy: conjugate gradients, made fast by the rough solve.

    The rough solve is nearly A^-1 where the coupling is moderate, and one or two steps are all it takes. It is not quite
    symmetric, so each direction is made orthogonal with the change of the residual (Polak & Ribiere).
    """
    diagonal = 1 - kappa * slopes
    goal = relative * _size(b).clamp_min(1e-30)
    v = field.rough_solve(b, kappa, diagonal)
    left = _left(field, b, v, kappa, diagonal)
    direction, before = left, left
    inner = torch.ones_like(goal)
    for step in range(_MOST_LINEAR_STEPS):
        if (_size(left) <= goal).all():
            break
        rough = field.rough_solve(left, kappa, diagonal)
        new = torch.linalg.vecdot(left, rough)
        turn = (new - torch.linalg.vecdot(before, rough)) / inner
        direction = rough if step == 0 else torch.addcmul(rough, turn.clamp_min(0).unsqueeze(1), direction)
        A = field.apply(direction).mul_(kappa).addcmul_(diagonal, direction)
        length = (torch.linalg.vecdot(left, direction) / _away_from_zero(torch.linalg.vecdot(direction, A))).unsqueeze(
            1
        )
        v = torch.addcmul(v, length, direction)
        before, left = left, torch.addcmul(left, length, A, value=-1)
        inner = _away_from_zero(new)
    return v


def _left(field: Field, b: Tensor, v: Tensor, kappa: Tensor, diagonal: Tensor) -> Tensor:
    """b - A v."""
    return field.apply(v).mul_(-kappa).addcmul_(diagonal, v, value=-1).add_(b)


def _away_from_zero(x: Tensor) -> Tensor:
    """The same, but 1 where a finished row has nothing left to divide by."""
    return torch.where(x.abs() < torch.finfo(x.dtype).tiny, 1.0, x)


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
    with torch.autocast(z.device.type, enabled=False):
        for rows, field, _ in _fields(z, slope):
            out[rows] = field.means().to(z.dtype)
    return out


@_mean.register_fake
def _(z: Tensor, slope: Tensor) -> Tensor:
    return torch.empty_like(z)


@torch.library.custom_op("neuronal::coupling_mean_vjp", mutates_args=())
def _mean_vjp(g: Tensor, z: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    d_z, d_slope = torch.zeros_like(z), torch.zeros_like(slope)
    with torch.autocast(z.device.type, enabled=False):
        for rows, field, p in _fields(z, slope):
            own, value = g[rows].to(p.dtype), z[rows].to(p.dtype)
            slopes = field.slopes()
            d_z[rows] = (p * (field.apply(own) - slopes * own)).to(z.dtype)
            d_slope[rows] = (own * (field.apply(value) - value * slopes)).sum(1).to(slope.dtype)
    return d_z, d_slope


@_mean_vjp.register_fake
def _(g: Tensor, z: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(z), torch.empty_like(slope)


def _fields(z: Tensor, slope: Tensor) -> Iterator[tuple[Tensor | slice, Field, Tensor]]:
    """Groups of rows with their field at the finest precision the dtype is worth, and their slope."""
    if z.numel() == 0:
        return
    finest = 1e-6 if z.dtype == torch.float32 else 1e-12
    workspace = Workspace()
    for rows, precision in _groups(z, slope, torch.full_like(slope, finest), z.dtype):
        p = slope[rows].to(precision.dtype).unsqueeze(1)
        yield rows, Field(p * z[rows].to(precision.dtype), precision, workspace), p


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
        found: tuple[Tensor, Tensor] = _mean_vjp(g.contiguous(), *ctx.saved_tensors)
        return found
