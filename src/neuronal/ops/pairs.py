"""Sums over all pairs of units, written out: for rows so short that a grid would have more nodes than they have units."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from neuronal.ops.field import chebyshev, interval
from neuronal.ops.grid import tanh_derivative
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
        self._x, self._space, self._units = x, space, x.shape[1]
        shape = (*x.shape, x.shape[1])
        # p_ki = 1 / (1 + exp 2 (x_k - x_i)): tanh of the difference is 1 - 2p, and its derivative 4 p (1 - p).
        self._pairs = space.take("pairs", shape, x)
        middle = x.mean(1, keepdim=True)
        dtype = _exponent((x - middle).abs_().amax().item(), x.dtype)
        if dtype:
            # From the exponentials of both units: N of these in the place of N^2.
            e = (x - middle).to(dtype).mul_(2).exp_()
            sums = torch.add(e.unsqueeze(2), e.unsqueeze(1), out=space.take("sums", shape, e))
            torch.div(e.unsqueeze(1), sums, out=self._pairs)
        else:
            torch.sub(x.unsqueeze(1), x.unsqueeze(2), out=self._pairs).mul_(2).sigmoid_()

    @cached_property
    def tanh(self) -> Tensor:
        """Mean tanh of the differences to all units, at every unit."""
        return self._pairs.sum(1).mul_(-2 / self._units).add_(1)

    @cached_property
    def _kernel(self) -> Tensor:
        """A quarter of sech^2."""
        out = self._space.take("sums", self._shape, self._x)
        return torch.addcmul(self._pairs, self._pairs, self._pairs, value=-1, out=out)

    @property
    def _shape(self) -> tuple[int, ...]:
        return tuple(self._pairs.shape)

    @cached_property
    def slope(self) -> Tensor:
        """Mean sech^2 of the differences to all units, at every unit."""
        return self._kernel.sum(1).mul_(4 / self._units)

    @cached_property
    def stretch(self) -> Tensor:
        """Mean of t sech^2 t over the differences t to all units, at every unit."""
        # Not as a difference of sums: units far away would leave nothing but rounding.
        apart = self._space.take("apart", self._shape, self._x)
        torch.sub(self._x.unsqueeze(2), self._x.unsqueeze(1), out=apart)
        return apart.mul_(self._kernel).sum(1).mul_(4 / self._units)

    def means(self) -> Tensor:
        """Mean tanh of the differences to all units, in memory of its own."""
        return self.tanh.clone()

    def slopes(self) -> Tensor:
        """Mean sech^2 of the differences to all units, in memory of its own."""
        return self.slope.clone()

    def apply(self, v: Tensor) -> Tensor:
        """Mean over k of sech^2(x_k - x_i) v_k."""
        return torch.bmm(v.unsqueeze(1), self._kernel).squeeze(1).mul_(4 / self._units)

    def derivative(self, v: Tensor, order: int) -> Tensor:
        """Mean over k of the derivative of tanh of that order at x_k - x_i, times v_k."""
        kernel = tanh_derivative(self._x.unsqueeze(1) - self._x.unsqueeze(2), order)
        return torch.bmm(kernel, v.unsqueeze(2)).squeeze(2).div_(self._units)

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
