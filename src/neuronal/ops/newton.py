r"""Newton's method for rows of coupled units, and the linear system it and the gradient share.

In the unit of length in which the slope is 1 the equation reads :math:`x = t - \kappa\, h(x)`, :math:`h` being the mean
tanh of the differences to all units. Its Jacobian :math:`A = \mathrm{diag}(1 - \kappa S) + \kappa W` is symmetric.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from neuronal.ops.grid import Field, Precision, Workspace

_MOST_LINEAR_STEPS = 200


def largest(rows: Tensor) -> Tensor:
    """Largest absolute value of every row, without a copy."""
    return torch.maximum(rows.amax(1), -rows.amin(1))


@dataclass
class _Problem:
    """Some rows in the unit of length in which the slope is 1: x = p z solves x = target - kappa mean tanh."""

    target: Tensor
    kappa: Tensor
    scale: Tensor
    """max(1, max|a|) of every row, in that unit."""

    def rows(self, index: Tensor) -> _Problem:
        return _Problem(self.target[index], self.kappa[index], self.scale[index])


def newton(
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
    problem = _Problem(target, lam * p, torch.maximum(p.squeeze(1), largest(target)))
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
        residual.copy_((largest(F) + strength * precision.error + rounding) / problem.scale)
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
            new = _in_order(x - linear(field, F, kappa, field.slopes(), 1e-3), target, order, kappa)
        # The solution lies between the extreme units; a step that leaves that range has overshot.
        x.copy_(torch.where(open_rows.unsqueeze(1), new.clamp_(low - reach, high + reach), x))


def _shaken(field: Field, x: Tensor, kappa: Tensor, matters: Tensor) -> Tensor:
    """By how much the equation changes at most, per unit of relative error in x.

    At most 1 + 2 |kappa| times the largest x; where that ``matters``, row by row what it really is, since units that are
    far from all others, like the largest, hardly feel the coupling.
    """
    simple = largest(x) * (1 + 2 * kappa.squeeze(1).abs())
    if (simple < 0.25 * matters).all():
        return simple
    size = x.abs()
    felt = size * field.slopes() + field.apply(size)
    return (size + kappa.abs() * felt).amax(1)


def _in_order(x: Tensor, target: Tensor, order: Tensor, kappa: Tensor) -> Tensor:
    """The nearest thing to x with what is known of the solution: order, no larger gaps if contracting, the mean."""
    gaps = x.gather(1, order).diff(dim=1).clamp_min(0)
    widest = target.gather(1, order).diff(dim=1)
    gaps = torch.where(kappa <= 0, gaps.minimum(widest), gaps)
    climbed = torch.nn.functional.pad(gaps.cumsum(1), (1, 0))
    climbed += target.mean(1, keepdim=True) - climbed.mean(1, keepdim=True)
    return torch.empty_like(x).scatter_(1, order, climbed)


def linear(field: Field, b: Tensor, kappa: Tensor, slopes: Tensor, relative: float) -> Tensor:
    """v with A v = b to ``relative`` accuracy: conjugate gradients, made fast by the rough solve.

    The rough solve is nearly A^-1 where the coupling is moderate, and one or two steps are all it takes. It is not quite
    symmetric, so each direction is made orthogonal with the change of the residual (Polak & Ribiere).
    """
    diagonal = 1 - kappa * slopes
    goal = relative * largest(b).clamp_min(1e-30)
    v = field.rough_solve(b, kappa, diagonal)
    left = _left(field, b, v, kappa, diagonal)
    direction, before = left, left
    inner = torch.ones_like(goal)
    for step in range(_MOST_LINEAR_STEPS):
        if (largest(left) <= goal).all():
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
