r"""A uniform grid that stands in for the units of a row, and the sums of a kernel over its nodes.

tanh is analytic in a strip around the real line. So a unit may be replaced by masses on the :math:`m` nodes around it, the
weights of polynomial interpolation, and sums over units become a matrix product with a table that depends on the spacing
alone. The error is known beforehand (:func:`bound`), so the spacing follows from the error that is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, factorial, log, prod
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from neuronal.ops.workspace import Workspace

_BLOCK = 32
# Rows wider than this many nodes have the empty stretches between their units shortened first.
WIDE = 4096
_COARSEST = 0.4
# What rounding does to a mean of numbers up to 1.
_ROUNDING = {torch.float32: 2e-7, torch.float64: 1e-15}

Kernel = Literal["tanh", "slope", "stretch"] | int
"""tanh(t); its derivative sech^2(t); t sech^2(t), what the sum gains as the slope grows; n, the n-th derivative of tanh."""


@dataclass(frozen=True)
class Precision:
    """How the sums are computed: points per unit, spacing of the nodes, and the error that comes of it."""

    points: int
    """0 without a grid."""
    spacing: float
    error: float
    dtype: torch.dtype


def precision_for(allowed: float, width: float, dtype: torch.dtype, order: int = 0) -> Precision:
    """The cheapest grid whose error is at most ``allowed``, for rows that span ``width`` and that derivative of tanh."""
    if width / _COARSEST > WIDE:
        # Positions of so many nodes need the digits of a double.
        dtype = torch.float64
    allowed = max(allowed, _ROUNDING[dtype])
    points = next((m for m, least in ((4, 1e-4), (6, 3e-6), (8, 3e-8)) if allowed >= least), 12)
    spacing = min(_COARSEST, (allowed / bound(points, order)) ** (1 / points))
    return Precision(points, spacing, bound(points, order) * spacing**points + _ROUNDING[dtype], dtype)


def without_grid(dtype: torch.dtype) -> Precision:
    """Sums that are exact but for rounding."""
    return Precision(0, 0.0, _ROUNDING[dtype], dtype)


@cache
def bound(points: int, order: int = 0) -> float:
    """C such that sums of tanh on a grid of spacing c, with so many points per unit, are off by at most C c^points.

    Sums of a derivative of tanh likewise, given its order.

    Interpolating f at m equidistant nodes around the middle interval errs by max|f^(m)| / m! times the product of the
    distances to the nodes; it is done twice, and the second time multiplies the first error by at most the sum of the
    absolute weights.
    """
    half = points // 2
    distances = prod((k - 0.5) ** 2 for k in range(1, half + 1))
    steepest = float(np.abs(_derivative(points + order)(np.linspace(-1, 1, 20_001))).max()) * 1.001
    powers = np.linspace(-0.5, 0.5, 1001) ** np.arange(points)[:, None]
    amplification = float(np.abs(_coefficients(points) @ powers).sum(0).max())
    return steepest / factorial(points) * distances * (1 + amplification)


@cache
def _derivative(order: int) -> np.polynomial.Polynomial:
    """The derivative of tanh of that order, as a polynomial in t = tanh: P' (1 - t^2) follows P."""
    if order == 0:
        return np.polynomial.Polynomial([0.0, 1.0])
    return _derivative(order - 1).deriv() * np.polynomial.Polynomial([1.0, 0.0, -1.0])


def tanh_derivative(t: Tensor, order: int) -> Tensor:
    """The derivative of tanh of that order, at ``t``."""
    tanh = t.tanh()
    *lower, highest = _derivative(order).coef.tolist()
    value = torch.full_like(tanh, highest)
    for coefficient in reversed(lower):
        value.mul_(tanh).add_(coefficient)
    return value


@cache
def _coefficients(points: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Weights of the nodes 1 - m/2 ... m/2 as polynomials in f, the position of a unit from the middle of its cell."""
    nodes = [k + 0.5 for k in range(-(points // 2), points // 2)]
    rows = []
    for node in nodes:
        others = [other for other in nodes if other != node]
        polynomial = np.polynomial.Polynomial.fromroots(others) / prod(node - other for other in others)
        rows.append(polynomial.coef)
    return np.array(rows)


@lru_cache(maxsize=64)
def weights(points: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The weight polynomials: a row for every node of a unit, a column for every power."""
    with torch.inference_mode(False):
        return torch.from_numpy(_coefficients(points)).to(device, dtype)


def sums(masses: Tensor, precision: Precision, kernel: Kernel, space: Workspace, name: str) -> Tensor:
    """Sums of the kernel over the masses, at the nodes, in memory of that name.

    A kernel is worth computing near by only: beyond some distance tanh is 1 and its derivative 0. So nodes are taken in
    blocks, and each block is multiplied with a table that reaches as far as needed to both sides.
    """
    rows, n = masses.shape
    # 1 - tanh(t) < 2 exp(-2t), t sech^2(t) < 4 t exp(-2t): a tenth of the error that is there anyway. Every derivative
    # doubles it.
    reach = 0.5 * log(100 * (2**kernel if isinstance(kernel, int) else 1) / precision.error) / precision.spacing
    side = ceil(reach / _BLOCK) * _BLOCK
    if n <= 2 * side + _BLOCK:
        out = space.take(name, (rows, n), masses)
        return torch.mm(masses, _table(n, n, 0, precision, kernel, masses.device), out=out)
    blocks, window = -(-n // _BLOCK), _BLOCK + 2 * side
    padded = space.take("padded", (rows, blocks * _BLOCK + 2 * side), masses).zero_()
    padded.narrow(1, side, n).copy_(masses)
    windows = space.take("windows", (rows, blocks, window), masses).copy_(padded.unfold(1, window, _BLOCK))
    found = space.take(name, (rows, blocks, _BLOCK), masses)
    table = _table(window, _BLOCK, side, precision, kernel, masses.device)
    torch.mm(windows.flatten(0, 1), table, out=found.flatten(0, 1))
    if kernel == "tanh":
        # What lies beyond the table pulls with all its mass: to the right if it is there, else to the left.
        before = padded.view(rows, -1, _BLOCK).sum(2).cumsum(1)
        left, right = pad(before, (1, 0))[:, :blocks], before[:, -1:] - before[:, 2 * side // _BLOCK :]
        found += (right - left).unsqueeze(2)
    return found.flatten(1).narrow(1, 0, n)


def _kernel(t: Tensor, kernel: Kernel) -> Tensor:
    if isinstance(kernel, int):
        return tanh_derivative(t, kernel)
    tanh = t.tanh()
    if kernel == "tanh":
        return tanh
    slope = 1 - tanh.square()
    return slope if kernel == "slope" else t * slope


@lru_cache(maxsize=64)
def _table(n: int, block: int, side: int, precision: Precision, kernel: Kernel, device: torch.device) -> Tensor:
    """The kernel at differences of nodes: entry (j, g) for node j - side seen from node g."""
    with torch.inference_mode(False):
        sources = torch.arange(n, dtype=torch.float64).sub_(side)
        differences = sources.unsqueeze(1) - torch.arange(block, dtype=torch.float64)
        return _kernel(precision.spacing * differences, kernel).to(device, precision.dtype)
