r"""Newton's method for rows of coupled units, and the linear system it and the gradient share.

In the unit of length in which the slope is 1 the equation reads :math:`x = t - \kappa\, h(x)`, :math:`h` being the mean
tanh of the differences to all units. Its Jacobian :math:`A = \mathrm{diag}(1 - \kappa S) + \kappa W` is symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor
from torch.nn.functional import pad

from neuronal.ops.field import Field
from neuronal.ops.grid import Precision, precision_for
from neuronal.ops.pairs import Pairs
from neuronal.ops.workspace import workspace

_MOST_LINEAR_STEPS = 200
# While kappa S is below this, the grid follows 1/D as well as it does tanh.
_GENTLE = 0.5
# Steps at most on the way to a first guess.
_GUESSED = 10


def largest(rows: Tensor) -> Tensor:
    """Largest absolute value of every row, without a copy."""
    return torch.maximum(rows.amax(1), -rows.amin(1))


Sums = Field | Pairs


def sums_over(x: Tensor, precision: Precision) -> Sums:
    """The sums over the units of rows, to that precision; good until the next are made."""
    space = workspace("row")
    return Field(x, precision, space) if precision.points else Pairs(x, space)


@dataclass
class _Problem:
    """Some rows in the unit of length in which the slope is 1: x = p (z - middle) solves x = target - kappa mean tanh."""

    target: Tensor
    kappa: Tensor
    shift: Tensor
    """p times the middle of every row."""
    scale: Tensor
    """max(1, max|a|) of every row, in that unit."""

    def rows(self, index: Tensor) -> _Problem:
        return _Problem(*(getattr(self, field.name)[index] for field in fields(self)))


def newton(
    a: Tensor,
    coupling: Tensor,
    slope: Tensor,
    tolerance: float,
    max_steps: int,
    precision: Precision,
    unit: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Value, residual and steps of some rows whose values will be rounded to relative precision ``unit``."""
    lam, p = (t.to(a.dtype).unsqueeze(1) for t in (coupling, slope))
    # Only differences matter, and they are the most exact around 0.
    middle = a.mean(1, keepdim=True)
    target = (a - middle).mul_(p)
    problem = _Problem(target, lam * p, p * middle, p.squeeze(1) * largest(a).clamp_min(1))
    residual = torch.full_like(problem.scale, torch.inf)
    steps = torch.zeros(a.shape[0], dtype=torch.long, device=a.device)
    x = _first_guess(problem, steps, tolerance, max_steps, precision)
    _improve(problem, x, residual, steps, tolerance, max_steps, precision, unit)
    # Rows that needed no step, those without coupling among them, are what they were to the last bit.
    return _but_for(steps == 0, x.div_(p).add_(middle), a), residual, steps


def _first_guess(problem: _Problem, steps: Tensor, tolerance: float, max_steps: int, precision: Precision) -> Tensor:
    """The solution as a function of the target, found on the nodes of a grid of targets and read at the units.

    The nodes with the masses of the units on them are a row like any other, but a shorter one, and in order. Nothing is
    promised of the result: whatever it misses is seen and mended at the units themselves.
    """
    target, kappa = problem.target, problem.kappa
    if not precision.points:
        return target.clone()
    # Over many units the errors of the grid cancel each other to a small part of their bound.
    rough = precision_for(40 * precision.error, 0.0, precision.dtype)
    field = Field(target, rough, workspace("row"))
    if field.nodes > 0.75 * target.shape[1] or not field.uniform or max_steps < _GUESSED:
        return target.clone()
    nodes, masses = field.positions, field.masses
    # At first the nodes are where the grid is, and nothing needs to be spread or read.
    Y = field.smooth_part(masses * field.tanh * kappa, kappa, 1e-3)
    change = (field.tanh - Y).mul_(kappa).div_(1 - kappa * field.slope)
    # The first step is off by the square of what the coupling does to a unit: nothing to look at here, if that is little.
    is_weak = bool((kappa * field.slope).abs_().amax() < 0.15)
    x = nodes
    # Units that are all equal stay as they are.
    coupled = (kappa.squeeze(1) != 0) & (target.amax(1) > target.amin(1))
    for _ in range(_GUESSED):
        steps += coupled
        x = _between(x - change, rough.spacing, nodes, masses, kappa)
        if is_weak:
            break
        own = Field(x, rough, workspace("nodes"), masses)
        F = own.means().mul_(kappa).add_(x).sub_(nodes)
        if (largest(F) < 0.5 * tolerance * problem.scale).all():
            break
        change = own.solve(F, kappa, 1e-2)[0]
    return _but_for(~coupled, field.read(x), target)


def _but_for(rows: Tensor, x: Tensor, other: Tensor) -> Tensor:
    """x, with some rows, usually none, taken from the other."""
    return torch.where(rows.unsqueeze(1), other, x) if rows.any() else x


def _between(x: Tensor, widest: Tensor | float, target: Tensor, mass: Tensor | float, kappa: Tensor) -> Tensor:
    """The nearest thing to x with what is known of the solution for targets in order.

    It climbs, where units attract each other by no more than the target does (``widest``), and has the same mean.
    """
    gaps = x.diff(dim=1).clamp_min_(0)
    gaps = torch.where(kappa <= 0, gaps.clamp_max(widest), gaps)
    climbed = pad(gaps.cumsum(1), (1, 0))
    return climbed.add_((mass * (target - climbed)).sum(1, keepdim=True))


def _improve(
    problem: _Problem,
    x: Tensor,
    residual: Tensor,
    steps: Tensor,
    tolerance: float,
    max_steps: int,
    precision: Precision,
    unit: float,
) -> None:
    """Newton's method on ``x`` in place, until every row is within the tolerance or out of steps."""
    kappa, target = problem.kappa, problem.target
    strength = kappa.squeeze(1).abs()
    low, high = target.amin(1, keepdim=True), target.amax(1, keepdim=True)
    reach = kappa.clamp_min(0)
    order: Tensor | None = None
    while True:
        before = residual.clone()
        field = sums_over(x, precision)
        F = field.means().mul_(kappa).add_(x).sub_(target)
        # The violation itself, the error of the grid, and what rounding x to the dtype of the answer can do.
        rounding = _shaken(field, x, problem, tolerance / unit).mul_(steps > 0)
        violation = (largest(F) + strength * precision.error).div_(problem.scale)
        residual.copy_(violation + unit * rounding / problem.scale)
        # Where rounding is all that is left, another step would change nothing.
        open_rows = (residual > tolerance) & (steps < max_steps) & ((violation > 0.5 * tolerance) | (steps == 0))
        left = int(open_rows.sum())
        if not left:
            return
        if left < 0.7 * len(x):
            # Go on with the rows that need it.
            index = open_rows.nonzero().flatten()
            some = (x[index], torch.full_like(residual[index], torch.inf), steps[index])
            _improve(problem.rows(index), *some, tolerance, max_steps, precision, unit)
            x[index], residual[index], steps[index] = some
            return
        if order is None and (open_rows & (steps > 0) & (residual > 0.5 * before)).any():
            order = target.argsort(1)
        steps += open_rows
        if order is None:
            new = field.solve(F, kappa, 1e-3)[0].neg_().add_(x)
        else:
            # Where such a step did not help, an exact one, kept to what is known of the solution, does.
            new = _in_order(x - linear(field, F, kappa, 1e-3)[0], target, order, kappa)
        # The solution lies between the extreme units; a step that leaves that range has overshot.
        x.copy_(_but_for(~open_rows, new.clamp_(low - reach, high + reach), x))


def _shaken(field: Sums, x: Tensor, problem: _Problem, matters: float) -> Tensor:
    """By how much the equation changes at most, per unit of relative error in the solution.

    At most 2 + 2 |kappa| times its largest value; where that ``matters`` in relation to the scale, row by row what it
    really is, since units that are far from all others, like the largest, hardly feel the coupling.
    """
    strength = problem.kappa.abs()
    simple = (largest(x) + problem.shift.squeeze(1).abs()) * (2 + 2 * strength.squeeze(1))
    if (simple < 0.25 * matters * problem.scale).all():
        return simple
    size = (x + problem.shift).abs_()
    felt = size * field.slopes() + field.apply(size)
    return (2 * size + strength * felt).amax(1)


def _in_order(x: Tensor, target: Tensor, order: Tensor, kappa: Tensor) -> Tensor:
    """:func:`_between` for targets that ``order`` sorts."""
    targets = target.gather(1, order)
    climbed = _between(x.gather(1, order), targets.diff(dim=1), targets, 1 / x.shape[1], kappa)
    return torch.empty_like(x).scatter_(1, order, climbed)


def linear(field: Sums, b: Tensor, kappa: Tensor, relative: float) -> tuple[Tensor, Tensor]:
    """v with A v = b to ``relative`` accuracy, and v spread on the nodes.

    The solution by way of the grid is as exact as the sums are, unless units push each other apart so hard that 1/D varies
    faster than the grid can follow. Then it is checked, and where it falls short it serves conjugate gradients as
    preconditioner. It is not quite symmetric, so each direction is made orthogonal with the change of the residual (Polak &
    Ribiere).
    """
    v, V = field.solve(b, kappa, 0.3 * relative)
    strongest = 0.0 if not isinstance(field, Field) else float((kappa * field.slope).amax())
    if strongest < _GENTLE:
        return v, V
    # What is left may be multiplied by as much as 1 / (1 - strongest) in the solution.
    goal = (1 - strongest) * relative * largest(b).clamp_min(1e-30)
    diagonal = field.slopes().mul_(-kappa).add_(1)
    left = field.apply(v).mul_(-kappa).addcmul_(diagonal, v, value=-1).add_(b)
    direction, before = left, left
    inner = torch.ones_like(goal)
    for step in range(_MOST_LINEAR_STEPS):
        if (largest(left) <= goal).all():
            break
        rough = field.solve(left, kappa, 1e-2)[0]
        new = torch.linalg.vecdot(left, rough)
        turn = (new - torch.linalg.vecdot(before, rough)) / inner
        direction = rough if step == 0 else torch.addcmul(rough, turn.clamp_min(0).unsqueeze(1), direction)
        A = field.apply(direction).mul_(kappa).addcmul_(diagonal, direction)
        length = torch.linalg.vecdot(left, direction) / _away_from_zero(torch.linalg.vecdot(direction, A))
        v = torch.addcmul(v, length.unsqueeze(1), direction)
        before, left = left, torch.addcmul(left, length.unsqueeze(1), A, value=-1)
        inner = _away_from_zero(new)
    return v, field.spread(v)


def _away_from_zero(x: Tensor) -> Tensor:
    """The same, but 1 where a finished row has nothing left to divide by."""
    return torch.where(x.abs() < torch.finfo(x.dtype).tiny, 1.0, x)
