r"""Rows of units on a grid: sums over all pairs, and the linear system of the coupling, at O(N) per row.

Units give their masses to the nodes (:meth:`Field.spread`), the sums are taken there (:func:`neuronal.ops.grid.sums`) and
read at the units (:meth:`Field.read`) with the same weights, so the sums keep the symmetry of the kernel exactly.

A weight is a polynomial in the position :math:`f` of a unit inside its cell. So what is scattered are the moments
:math:`\sum f^k` of a cell, what is gathered are the coefficients of its polynomial, and the weights themselves, as many as
there are points per unit, are never written down.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import ceil, log, sqrt

import torch
from torch import Tensor
from torch.nn.functional import pad

from neuronal.ops.grid import WIDE, Kernel, Precision, sums, weights
from neuronal.ops.workspace import Workspace

# Beyond this difference tanh is 1 to the last bit of a double, and longer gaps between units change nothing.
_SATURATED = 20.0


class Field:
    """The units of some rows on a grid, and the sums over them."""

    def __init__(self, x: Tensor, precision: Precision, workspace: Workspace, mass: Tensor | None = None) -> None:
        """``x`` is ``(rows, N)``, ``mass`` that of every unit, 1/N if left out.

        A field is good until the next one is made in the workspace.
        """
        self.precision, self._space, self._mass, self._shape = precision, workspace, mass, x.shape
        c, m = precision.spacing, precision.points
        low, high = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
        widest = (high - low).amax()
        self.uniform = bool(widest <= WIDE * c)
        """Whether node g is at ``low + c (g - m/2 + 1)``: not where empty stretches have been shortened."""
        if not self.uniform:
            x, low = _shortened(x), torch.zeros_like(low)
            widest = x.amax()
        self.low = low
        position = torch.sub(x, low, out=workspace.take("offset", x.shape, x)).mul_(1 / c)
        self._cell = workspace.take("cell", x.shape, x, torch.long).copy_(position)
        self._offset = position.frac_().sub_(0.5)
        self._cells = int(widest * (1 / c)) + 1
        self.nodes = self._cells + m - 1

    @property
    def positions(self) -> Tensor:
        """Where the nodes are, ``(rows, nodes)``, of a uniform field."""
        c, m = self.precision.spacing, self.precision.points
        steps = torch.arange(self.nodes, dtype=self.low.dtype, device=self.low.device)
        return self.low + c * (steps - (m // 2 - 1))

    @cached_property
    def masses(self) -> Tensor:
        """What the units weigh, on the nodes."""
        return self._spread(self._space.take("power", self._shape, self._offset).fill_(1), "masses")

    @cached_property
    def tanh(self) -> Tensor:
        """Mean tanh of the differences to all units, on the nodes."""
        return self._sums(self.masses, "tanh", "tanh")

    @cached_property
    def slope(self) -> Tensor:
        """Mean sech^2 of the differences to all units, on the nodes."""
        # Interpolation can go below 0 where there are no units near.
        return self._sums(self.masses, "slope", "slope").clamp_min_(0)

    @cached_property
    def stretch(self) -> Tensor:
        """Mean of t sech^2 t over the differences t to all units, on the nodes."""
        return self._sums(self.masses, "stretch", "stretch")

    def means(self) -> Tensor:
        """Mean tanh of the differences to all units, at every unit."""
        return self.read(self.tanh)

    def slopes(self) -> Tensor:
        """Mean sech^2 of the differences to all units, at every unit."""
        return self.read(self.slope)

    def apply(self, v: Tensor) -> Tensor:
        """Mean over k of sech^2(x_k - x_i) v_k."""
        return self.read(self.pull(self.spread(v)))

    def derivative(self, v: Tensor, order: int) -> Tensor:
        """Mean over k of the derivative of tanh of that order, from the first on, at x_k - x_i, times v_k."""
        return self.read(self._sums(self.spread(v), order, "pull"))

    def pull(self, masses: Tensor) -> Tensor:
        """Sums of sech^2 over masses on the nodes, at the nodes."""
        return self._sums(masses, "slope", "pull")

    def spread(self, v: Tensor) -> Tensor:
        """What the units weigh times ``v``, on the nodes."""
        return self._spread(self._space.take("power", self._shape, v).copy_(v), "spread")

    def _sums(self, masses: Tensor, kernel: Kernel, name: str) -> Tensor:
        return sums(masses, self.precision, kernel, self._space, name)

    def _spread(self, power: Tensor, name: str) -> Tensor:
        """The moments of ``power`` in every cell, and from them the masses of the nodes."""
        power.mul_(1 / self._shape[1] if self._mass is None else self._mass)
        moments, products = self._planes("moments").zero_(), self._planes("products")
        for k, moment in enumerate(self._cells_of(moments).unbind()):
            if k:
                power.mul_(self._offset)
            moment.scatter_add_(1, self._cell, power)
        torch.mm(self._weights, moments, out=products)
        out = self._space.take(name, (self._shape[0], self.nodes), power).zero_()
        windows = out.unfold(1, self._cells, 1).unbind(1)
        for window, own in zip(windows, self._cells_of(products).unbind(), strict=True):
            window.add_(own)
        return out

    def read(self, nodes: Tensor) -> Tensor:
        """Values on the nodes, interpolated at the units."""
        windows, products = self._planes("moments"), self._planes("products")
        self._cells_of(windows).copy_(nodes.unfold(1, self._cells, 1).transpose(0, 1))
        torch.mm(self._weights.T, windows, out=products)
        *lower, highest = self._cells_of(products).unbind()
        out = torch.gather(highest, 1, self._cell)
        own = self._space.take("power", self._shape, nodes)
        for coefficient in reversed(lower):
            torch.gather(coefficient, 1, self._cell, out=own)
            torch.addcmul(own, out, self._offset, out=out)
        return out

    def _planes(self, name: str) -> Tensor:
        """Memory for a number per cell, for each of the points of a unit."""
        # Rows a multiple of 4096 bytes apart would push each other out of a CPU's cache.
        length = -(-self._shape[0] * self._cells // 1024) * 1024 + 80
        return self._space.take(name, (self.precision.points, length), self._offset)

    def _cells_of(self, planes: Tensor) -> Tensor:
        shape = (len(planes), self._shape[0], self._cells)
        return planes.as_strided(shape, (planes.stride(0), self._cells, 1))

    @property
    def _weights(self) -> Tensor:
        return weights(self.precision.points, self._offset.dtype, self._offset.device)

    def smooth_part(self, b: Tensor, kappa: Tensor, relative: float) -> Tensor:
        r"""On the nodes, the sums :math:`Y = K v` of the solution of :math:`D v + \kappa K v = b`, given ``spread(b)``.

        D is :math:`1 - \kappa S`, S being the slope. Since :math:`v = (b - \kappa Y) / D` with Y and D smooth functions of
        the position, Y solves :math:`Y + \kappa K (M/D) Y = K (b/D)`, M being the masses: a system as large as the grid
        and not as the row, with eigenvalues between those of 1 and D. Chebyshev's iteration, as many steps as they ask for.
        """
        strength = kappa * self.slope
        D = 1 - strength
        right = self._sums(b / D, "slope", "right")
        q = D.reciprocal_().mul_(self.masses).mul_(kappa)
        own = self._space.take("own", q.shape, q)
        return chebyshev(lambda t: self.pull(torch.mul(q, t, out=own)).add_(t), right, *interval(strength), relative)

    def solve(self, b: Tensor, kappa: Tensor, relative: float) -> tuple[Tensor, Tensor]:
        """Nearly v with (1 - kappa slopes) v + kappa apply(v) = b, and v spread: but for the error of the grid."""
        B = self.spread(b)
        Y = self.smooth_part(B, kappa, relative)
        v = self.read(Y).mul_(-kappa).add_(b).div_(self.slopes().mul_(-kappa).add_(1))
        return v, B.addcmul_(self.masses, kappa * Y, value=-1).div_(1 - kappa * self.slope)


def _shortened(x: Tensor) -> Tensor:
    """The same rows with gaps between neighbours cut to where tanh is 1: no sum changes, but the rows get narrow."""
    ordered, order = x.sort(1)
    gaps = ordered.diff(dim=1).clamp_max(_SATURATED)
    return torch.empty_like(x).scatter_(1, order, pad(gaps.cumsum(1), (1, 0)))


def interval(strength: Tensor) -> tuple[float, float]:
    """Where the eigenvalues of D^-1 A lie, ``strength`` being kappa times the slopes."""
    pulls, pushes = min(float(strength.amin()), 0.0), max(float(strength.amax()), 0.0)
    # A little wider than what the theory says: interpolation makes some masses negative.
    return 0.98 / (1 - pulls), 1.02 / (1 - pushes)


def chebyshev(matrix: Callable[[Tensor], Tensor], b: Tensor, low: float, high: float, relative: float) -> Tensor:
    """t with matrix(t) = b to ``relative``, if the eigenvalues lie between ``low`` and ``high``."""
    middle, half = (high + low) / 2, (high - low) / 2
    root = sqrt(high / low)
    steps = max(1, ceil(log(relative / 2) / log((root - 1) / (root + 1))))
    rate = half / middle
    left, d = b, b / middle
    t = d.clone()
    for _ in range(steps - 1):
        left.sub_(matrix(d))
        new = 1 / (2 * middle / half - rate)
        d.mul_(new * rate).add_(left, alpha=2 * new / half)
        rate = new
        t.add_(d)
    return t
