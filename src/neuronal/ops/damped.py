r"""The equation of implicit-bias neurons solved by plain steps, for programs that hold no solver of ours.

One step is :math:`z \leftarrow z - \eta\,(z + \lambda M(z) - a)`, :math:`M` the mean coupling to the units of a row and
:math:`\eta = 2 / (2 - \lambda p)`. The left side of the equation is the gradient of a convex function: the slopes of tanh
lie between 0 and 1 and are the same both ways between two units, so the eigenvalues of its Jacobian lie between 1 and
:math:`1 - \lambda p`. A step therefore shrinks the Euclidean distance to the solution by a factor of
:math:`|\lambda| p / (2 - \lambda p)` at least, wherever it is, and how many are enough is known beforehand.
"""

from __future__ import annotations

from math import ceil, log, sqrt
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop_op

_MOST_UNITS = 2**20
"""Rows of more would fill a memory with their pairs."""
_MOST_STEPS = 10_000
"""What a loop ends at: more than a coupling of -100 needs, if rounding lets it reach the tolerance."""


def num_steps(coupling: float, slope: float, error: float) -> int:
    """Steps after which every unit of a row of up to a million is within ``error`` of its solution, from z = a."""
    # Units start within |coupling| of their solution: tanh stays below 1.
    distance, shrink = sqrt(_MOST_UNITS) * abs(coupling), abs(coupling) * slope / (2 - coupling * slope)
    return max(1, ceil(log(error / distance) / log(shrink))) if distance > error else 1


def pairwise_mean(z: Tensor, slope: Tensor | float) -> Tensor:
    """The mean coupling pair by pair; O(N^2) per row, in operations of torch alone.

    Args:
        z: ``(..., N)``.
        slope: A number, or those of the rows, ``(..., 1)``.
    """
    apart = z.unsqueeze(-2) - z.unsqueeze(-1)
    return ((slope.unsqueeze(-1) if isinstance(slope, Tensor) else slope) * apart).tanh().mean(-1)


def loop(a: Tensor, coupling: Tensor, slope: Tensor, tolerance: float, _: int) -> tuple[Tensor, ...]:
    """What the operator ``neuronal.mean_field`` gives, by a loop of steps until every row keeps the tolerance."""
    count = coupling.shape[0], slope.shape[0]
    lam, p = (one.repeat(a.shape[0] // n).unsqueeze(1) for one, n in zip((coupling, slope), count, strict=True))
    scale = a.abs().amax(1).clamp_min(1)

    def rest(z: Tensor, a: Tensor, lam: Tensor, p: Tensor) -> Tensor:
        return a - z - lam * pairwise_mean(z, p)

    def goes_on(z: Tensor, steps: Tensor, a: Tensor, lam: Tensor, p: Tensor, scale: Tensor) -> Tensor:
        return (rest(z, a, lam, p).abs().amax(1) > tolerance * scale).any() & (steps < _MOST_STEPS)

    def step(z: Tensor, steps: Tensor, a: Tensor, lam: Tensor, p: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        return z + 2 / (2 - lam * p) * rest(z, a, lam, p), steps + 1

    start: Any = (a.clone(), torch.zeros((), dtype=torch.long))
    z, steps = while_loop_op(goes_on, step, start, (a, lam, p, scale))
    residual = rest(z, a, lam, p).abs().amax(1) / scale
    return z, residual, steps.expand(a.shape[0]).clone(), residual <= tolerance
