r"""Sums of a kernel over all pairs of units of a row, through a uniform grid.

:math:`h_i = \frac1N \sum_k \tanh(x_k - x_i)` and its companion with :math:`\mathrm{sech}^2` are smooth in the positions:
tanh is analytic in a strip around the real line. So a unit at :math:`x` is replaced by masses on the :math:`m` grid nodes
around it, the weights of polynomial interpolation; the sums over nodes are a matrix product with a table that depends on
the spacing alone; and the same weights read the result at the units. Because the weights are used both ways, the sums keep
the symmetry of the kernel exactly.

The error is known beforehand (:func:`bound`), so the spacing follows from the error that is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, factorial, log, prod, sqrt
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

# Beyond this difference tanh is 1 to the last bit of a double, and longer gaps between units change nothing.
_SATURATED = 20.0
# Up to this many nodes the sums are a matrix product with a table; beyond, a convolution by Fourier transform.
_LARGEST_TABLE = 1024
# Rows wider than this many nodes have the empty stretches between their units shortened first.
_WIDE = 4096
_COARSEST = 0.3


Kernel = Literal["tanh", "sech2"]


@dataclass(frozen=True)
class Precision:
    """How finely the sums are computed: points per unit, spacing of the nodes, and the error that comes of it."""

    points: int
    spacing: float
    error: float
    dtype: torch.dtype


def precision_for(allowed: float, width: float, dtype: torch.dtype) -> Precision:
    """The cheapest grid whose error is at most ``allowed``, for rows that span ``width``."""
    if width / _COARSEST > _WIDE:
        # Positions of so many nodes need the digits of a double.
        dtype = torch.float64
    floor = 2e-7 if dtype == torch.float32 else 1e-15
    allowed = max(allowed, floor)
    points = next((m for m, least in ((4, 3e-4), (6, 3e-6), (8, 3e-8)) if allowed >= least), 12)
    spacing = min(_COARSEST, (allowed / bound(points)) ** (1 / points))
    return Precision(points, spacing, bound(points) * spacing**points + floor, dtype)


@cache
def bound(points: int) -> float:
    """C such that sums of tanh on a grid of spacing c, with so many points per unit, are off by at most C c^points.

    Interpolating f at m equidistant nodes around the middle interval errs by max|f^(m)| / m! times the product of the
    distances to the nodes; it is done twice, and the second time multiplies the first error by at most the sum of the
    absolute weights.
    """
    half = points // 2
    distances = prod((k - 0.5) ** 2 for k in range(1, half + 1))
    # Derivatives of tanh are polynomials in t = tanh: P' (1 - t^2).
    polynomial = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(points):
        polynomial = polynomial.deriv() * np.polynomial.Polynomial([1.0, 0.0, -1.0])
    steepest = float(np.abs(polynomial(np.linspace(-1, 1, 20_001))).max()) * 1.001
    fractions = torch.linspace(0, 1, 1001, dtype=torch.float64)
    weights = _weights(fractions, *fractions.new_empty(2, points, len(fractions)))
    amplification = float(weights.abs().sum(0).max())
    return steepest / factorial(points) * distances * (1 + amplification)


def _weights(f: Tensor, out: Tensor, powers: Tensor) -> Tensor:
    """Weights of the nodes 1 - m/2 ... m/2 for positions ``f`` in [0, 1] between node 0 and node 1, into ``(m, ...)``."""
    powers[0].fill_(1)
    torch.sub(f, 0.5, out=powers[1])
    for k in range(2, len(powers)):
        torch.mul(powers[k - 1], powers[1], out=powers[k])
    torch.mm(_coefficients(len(powers)).to(f), powers.view(len(powers), -1), out=out.view(len(out), -1))
    return out


@cache
def _coefficients(points: int) -> Tensor:
    """The weights as polynomials in f - 1/2: row for a node, column for a power."""
    nodes = [k + 0.5 for k in range(-(points // 2), points // 2)]
    rows = []
    for node in nodes:
        others = [other for other in nodes if other != node]
        polynomial = np.polynomial.Polynomial.fromroots(others) / prod(node - other for other in others)
        rows.append(polynomial.coef)
    return torch.from_numpy(np.array(rows))


class Workspace:
    """Memory that the fields of one solve take turns with: fresh memory costs more than what is computed in it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], tuple[Tensor, ...]] = {}

    def take(self, x: Tensor, points: int) -> tuple[Tensor, ...]:
        """Weights and powers, cells, and three tensors like the rows ``x``; the same again for the same shape."""
        key = (*x.shape, points, x.dtype, x.device)
        if key not in self._kept:
            cell = torch.empty(x.shape, dtype=torch.long, device=x.device)
            self._kept[key] = (*x.new_empty(2, points, *x.shape), cell, *(torch.empty_like(x) for _ in range(3)))
        return self._kept[key]


class Field:
    """The units of some rows on a grid, and the sums over them."""

    def __init__(self, x: Tensor, precision: Precision, workspace: Workspace) -> None:
        """``x`` is ``(rows, N)``; a field is good until the next one of this shape is made in the workspace."""
        self._precision, self._shape = precision, x.shape
        c, m = precision.spacing, precision.points
        weights, powers, cell, fraction, self._one, self._two = workspace.take(x, m)
        low, high = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
        if (high - low).amax() > _WIDE * c:
            x, low = _shortened(x), torch.zeros_like(low)
        position = torch.sub(x, low, out=fraction).mul_(1 / c)
        # The first of the m nodes of a unit; the others are reached by shifting the nodes, not the index.
        self._cell = cell.copy_(position)
        self._fraction = position.frac_()
        self._cells = int(self._cell.amax()) + 1
        self._nodes = self._cells + m - 1
        self._weights = _weights(self._fraction, weights, powers)
        self._masses = self._spread(None)

    def means(self) -> Tensor:
        """Mean tanh of the differences to all units, at every unit."""
        return self._read(_product(self._masses, self._precision.spacing, "tanh"))

    def slopes(self) -> Tensor:
        """Mean sech^2 of the differences to all units, at every unit."""
        return self._read(_product(self._masses, self._precision.spacing))

    def rough_slopes(self) -> Tensor:
        """The same with linear weights, for a step that need not be exact."""
        return self._read_linear(_product(self._masses, self._precision.spacing), torch.empty_like(self._fraction))

    def apply(self, v: Tensor) -> Tensor:
        """Mean over k of sech^2(x_k - x_i) v_k."""
        return self._read(_product(self._spread(v), self._precision.spacing))

    def rough_solve(self, b: Tensor, kappa: Tensor, diagonal: Tensor) -> Tensor:
        """Nearly v with diagonal * v + kappa * apply(v) = b: exact but for linear weights on every second node.

        With D the diagonal, K the table and q the masses of the units weighted by 1/D, lumped to nodes, the sums of v on
        the nodes are Y = K (r - kappa q Y), r those of b/D: a symmetric system in sqrt(q) Y, as large as the grid and not
        as the row. Conjugate gradients, as many steps as the condition number asks for.
        """
        inverse = diagonal.reciprocal()
        start = b * inverse
        r, q = _halved(self._spread_linear(start)), _halved(self._spread_linear(inverse))
        root = q.sqrt_()
        weighted = kappa * root
        c = 2 * self._precision.spacing
        Kr = _product(r, c)

        def matrix(t: Tensor) -> Tensor:
            return _product(root * t, c).mul_(weighted).add_(t)

        # Eigenvalues lie between 1 / (1 + |kappa|) and 1 + kappa.
        condition = 1 + float(kappa.abs().amax())
        rate = (sqrt(condition) - 1) / (sqrt(condition) + 1)
        t = _conjugate_gradients(matrix, root * Kr, max(2, ceil(log(0.01) / log(rate))) if rate > 0 else 1)
        Y = _doubled(_product(root * t, c).mul_(-kappa).add_(Kr), self._nodes)
        return start.sub_(self._read_linear(Y, self._two).mul_(inverse).mul_(kappa))

    def _spread(self, v: Tensor | None) -> Tensor:
        """Masses of the units, or of ``v`` on them, divided by N, on the nodes."""
        out = self._fraction.new_zeros(self._shape[0], self._nodes)
        for number, weight in enumerate(self._weights):
            mass = weight if v is None else torch.mul(weight, v, out=self._one)
            out.narrow(1, number, self._cells).scatter_add_(1, self._cell, mass)
        return out.div_(self._shape[1])

    def _read(self, nodes: Tensor) -> Tensor:
        out = nodes.narrow(1, 0, self._cells).gather(1, self._cell).mul_(self._weights[0])
        for number, weight in enumerate(self._weights[1:], start=1):
            own = torch.gather(nodes.narrow(1, number, self._cells), 1, self._cell, out=self._one)
            out.addcmul_(weight, own)
        return out

    def _spread_linear(self, v: Tensor) -> Tensor:
        out = v.new_zeros(self._shape[0], self._nodes)
        near, next_one = (out.narrow(1, k, self._cells) for k in self._middle)
        far = torch.mul(v, self._fraction, out=self._one)
        next_one.scatter_add_(1, self._cell, far)
        near.scatter_add_(1, self._cell, torch.sub(v, far, out=self._two))
        return out.div_(self._shape[1])

    def _read_linear(self, nodes: Tensor, out: Tensor) -> Tensor:
        near, next_one = (nodes.narrow(1, k, self._cells) for k in self._middle)
        torch.gather(near, 1, self._cell, out=out)
        return out.lerp_(torch.gather(next_one, 1, self._cell, out=self._one), self._fraction)

    @property
    def _middle(self) -> tuple[int, int]:
        """The two of a unit's nodes that it lies between."""
        half = self._precision.points // 2
        return half - 1, half


def _shortened(x: Tensor) -> Tensor:
    """The same rows with gaps between neighbours cut to where tanh is 1: no sum changes, but the rows get narrow."""
    ordered, order = x.sort(1)
    gaps = ordered.diff(dim=1).clamp_max(_SATURATED)
    return torch.empty_like(x).scatter_(1, order, pad(gaps.cumsum(1), (1, 0)))


def _halved(masses: Tensor) -> Tensor:
    """Masses on every second node: those between go half to the one, half to the other side."""
    even, odd = masses[:, 0::2], 0.5 * masses[:, 1::2]
    out = pad(even, (0, odd.shape[1] + 1 - even.shape[1]))
    out[:, :-1] += odd
    out[:, 1:] += odd
    return out


def _doubled(values: Tensor, nodes: int) -> Tensor:
    """Values on every node from those on every second: the mean of both neighbours in between."""
    between = torch.lerp(values[:, :-1], values[:, 1:], 0.5)
    out = torch.stack([values[:, :-1], between], 2).flatten(1)
    return torch.cat([out, values[:, -1:]], 1)[:, :nodes]


def _conjugate_gradients(matrix: Callable[[Tensor], Tensor], b: Tensor, steps: int) -> Tensor:
    """A fixed number of steps for every row: nothing is looked at on the way."""
    t, r, d = torch.zeros_like(b), b.clone(), b.clone()
    rr = torch.linalg.vecdot(r, r).unsqueeze(1)
    for step in range(steps):
        Ad = matrix(d)
        alpha = rr / torch.linalg.vecdot(d, Ad).unsqueeze(1).clamp_min_(1e-30)
        t.addcmul_(alpha, d)
        if step == steps - 1:
            break
        r.addcmul_(alpha, Ad, value=-1)
        new = torch.linalg.vecdot(r, r).unsqueeze(1)
        d.mul_(new / rr.clamp_min(1e-30)).add_(r)
        rr = new
    return t


def _product(masses: Tensor, c: float, kernel: Kernel = "sech2") -> Tensor:
    """Sums of the kernel over the masses, at the nodes."""
    n = masses.shape[1]
    if n > _LARGEST_TABLE:
        return _convolved(masses, c, kernel)
    return masses @ _table(c, _rounded(n), kernel, masses.dtype, masses.device)[:n, :n]


def _rounded(n: int) -> int:
    """Tables come in few sizes, so that rows a little wider than the last find theirs made."""
    return -(-n // 64) * 64


@lru_cache(maxsize=64)
def _table(c: float, n: int, kernel: Kernel, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The kernel at all differences of n nodes: entry (j, g) for node j seen from node g."""
    nodes = c * torch.arange(n, dtype=torch.float64)
    tanh = (nodes.unsqueeze(1) - nodes).tanh()
    return (tanh if kernel == "tanh" else 1 - tanh.square()).to(device, dtype)


def _convolved(masses: Tensor, c: float, kernel: Kernel) -> Tensor:
    n = masses.shape[1]
    length = 1 << (2 * n - 1).bit_length()
    # Entry (j, g) depends on j - g; as a convolution in g the kernel runs backwards.
    tanh = (c * torch.arange(-(n - 1), n, dtype=masses.dtype, device=masses.device)).neg().tanh()
    values = tanh if kernel == "tanh" else 1 - tanh.square()
    spectrum = torch.fft.rfft(masses, length) * torch.fft.rfft(values, length)
    sums: Tensor = torch.fft.irfft(spectrum, length)[:, n - 1 : 2 * n - 1]
    return sums
