"""Sums of the clipped line over all pairs of units: in order, a unit's partners are a window, and windows are differences
of running sums.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from neuronal.ops.field import chebyshev

_HALVINGS = 40


class Windows:
    """What :class:`neuronal.ops.field.Field` does, with clip(t, -1, 1) for tanh(t): exact, O(N log N) per row.

    The units are the nodes.
    """

    def __init__(self, x: Tensor) -> None:
        """``x`` is ``(rows, N)`` in float64, since running sums add up their rounding."""
        self._x, self._units = x, x.shape[1]
        ordered, self._order = x.sort(1)
        # For every unit, how many lie below x - 1, and how many up to x + 1.
        self._below = torch.searchsorted(ordered, x - 1)
        self._within = torch.searchsorted(ordered, x + 1, right=True)

    @cached_property
    def tanh(self) -> Tensor:
        """Mean clipped difference to all units, at every unit."""
        inside = self._window(self._x) - (self._within - self._below) * self._x
        return (inside + (self._units - self._within) - self._below).div_(self._units)

    @cached_property
    def slope(self) -> Tensor:
        """Share of the units that are less than 1 away, at every unit."""
        return (self._within - self._below).to(self._x.dtype).div_(self._units)

    @cached_property
    def stretch(self) -> Tensor:
        """Mean difference to the units that are less than 1 away, of all units, at every unit."""
        return self.apply(self._x) - self._x * self.slope

    def means(self) -> Tensor:
        """Mean clipped difference to all units, in memory of its own."""
        return self.tanh.clone()

    def slopes(self) -> Tensor:
        """Share of the units that are less than 1 away, in memory of its own."""
        return self.slope.clone()

    def apply(self, v: Tensor) -> Tensor:
        """Sum of v over the units less than 1 away, over N."""
        return self._window(v).div_(self._units)

    def spread(self, v: Tensor) -> Tensor:
        """What the units weigh times ``v``."""
        return v / self._units

    def solve(self, b: Tensor, kappa: Tensor, relative: float) -> tuple[Tensor, Tensor]:
        """v with (1 - kappa slopes) v + kappa apply(v) = b to ``relative``, and v spread."""
        strength = kappa * self.slope
        D = 1 - strength
        weight = kappa / D
        # A window has waves it answers with the other sign, so the eigenvalues lie on both sides of 1.
        spread = 1.01 * float((strength.abs() / D).amax())
        v = chebyshev(lambda t: self.apply(t).mul_(weight).add_(t), b / D, max(1 - spread, 1e-4), 1 + spread, relative)
        return v, self.spread(v)

    def _window(self, v: Tensor) -> Tensor:
        running = pad(v.gather(1, self._order).cumsum(1), (1, 0))
        return running.gather(1, self._within) - running.gather(1, self._below)


def descend(target: Tensor, kappa: Tensor, goal: Tensor, max_steps: int) -> tuple[Tensor, Tensor]:
    """x with |x + kappa mean clip - target| <= goal, row by row, and the steps taken.

    The equation is the gradient of a convex function made of parabolas. From one piece to another Newton's step can jump to
    and fro for ever; along it the slope of that function only rises, so it is halved until it does not lead far uphill.
    """
    x = target.clone()
    steps = torch.zeros(len(x), dtype=torch.long, device=x.device)
    field = Windows(x)
    F = field.means().mul_(kappa)
    for _ in range(max_steps):
        open_rows = F.abs().amax(1) > goal
        if not open_rows.any():
            break
        steps += open_rows
        change = field.solve(F, kappa, 1e-9)[0]
        fall = torch.linalg.vecdot(F, change)
        length = open_rows.to(x.dtype)
        for _ in range(_HALVINGS):
            new = x - length.unsqueeze(1) * change
            field = Windows(new)
            after = field.means().mul_(kappa).add_(new).sub_(target)
            uphill = -torch.linalg.vecdot(after, change) > 0.5 * fall
            if not (open_rows & uphill).any():
                break
            length = torch.where(uphill, 0.5 * length, length)
        x, F = new, after
    return x, steps
