"""Sums over all pairs of units, written out: for rows so short that a grid would have more nodes than they have units."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from neuronal.ops.field import chebyshev, interval
from neuronal.ops.workspace import Workspace

def _exponent(furthest: float, dtype: torch.dtype) -> torch.dtype | None:
    """The dtype in which exp of twice the furthest value is a number; none beyond double."""
    if furthest < 40 and dtype == torch.float32:
        return torch.float32
    return torch.float64 if furthest < 350 else None


class Pairs:
    """What :class:`neuronal.ops.field.Field` does, at O(N^2) per row and exact: the units are the nodes."""

    def __init__(self, x: Tensor, space: Workspace) -> None:
        """``x`` is ``(rows, N)``. Good until the next one is made in the workspace."""
        self._space, self._units = space, x.shape[1]
        rows, n = x.shape
        self._pairs = space.take("pairs", (rows, n, n), x)
        middle = x.mean(1, keepdim=True)
        dtype = _exponent((x - middle).abs_().amax().item(), x.dtype)
        if dtype:
            # tanh of a difference from the exponentials of both: N of these in the place of N^2 of those.
            e = (x - middle).to(dtype).mul_(2).exp_()
            sums, differences = (space.take(name, (rows, n, n), e) for name in ("sums", "differences"))
            torch.sub(e.unsqueeze(2), e.unsqueeze(1), out=differences)
            torch.div(differences, torch.add(e.unsqueeze(2), e.unsqueeze(1), out=sums), out=self._pairs)
        else:
            torch.sub(x.unsqueeze(2), x.unsqueeze(1), out=self._pairs).tanh_()
        self._x = x

    @cached_property
    def tanh(self) -> Tensor:
        """Mean tanh of the differences to all units, at every unit."""
        return self._pairs.sum(1).div_(self._units)

    @cached_property
    def _kernel(self) -> Tensor:
        one = self._pairs.new_ones(())
        return torch.addcmul(one, self._pairs, self._pairs, value=-1, out=self._space.take("sums", self._shape, one))

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self._pairs.shape)

    @cached_property
    def slope(self) -> Tensor:
        """Mean sech^2 of the differences to all units, at every unit."""
        return self._kernel.sum(1).div_(self._units)

    @cached_property
    def stretch(self) -> Tensor:
        """Mean of t sech^2 t over the differences t to all units, at every unit."""
        return self.apply(self._x) - self._x * self.slope

    def means(self) -> Tensor:
        """Mean tanh of the differences to all units, in memory of its own."""
        return self.tanh.clone()

    def slopes(self) -> Tensor:
        """Mean sech^2 of the differences to all units, in memory of its own."""
        return self.slope.clone()

    def apply(self, v: Tensor) -> Tensor:
        """Mean over k of sech^2(x_k - x_i) v_k."""
        return torch.bmm(v.unsqueeze(1), self._kernel).squeeze(1).div_(self._units)

    def spread(self, v: Tensor) -> Tensor:
        """What the units weigh times ``v``."""
        return v / self._units

    def solve(self, b: Tensor, kappa: Tensor, relative: float) -> tuple[Tensor, Tensor]:
        """v with (1 - kappa slopes) v + kappa apply(v) = b to ``relative``, and v spread."""
        strength = kappa * self.slope
        D = 1 - strength
        weight = kappa / D
        v = chebyshev(lambda t: self.apply(t).mul_(weight).add_(t), b / D, *interval(strength), relative)
        return v, self.spread(v)
