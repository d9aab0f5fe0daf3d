r"""Non-negative multipliers that show a layer to be active, and inputs that show the opposite.

For :math:`\lambda \ge 0` with sum 1 the largest of several numbers is at least their weighted mean, so for every x of a box

.. math:: \max_i (W x + b)_i \;\ge\; \lambda^\top b + \min_{x} \,(W^\top \lambda)^\top x .

What a solver says is only a proposal here; :func:`lower_bound` and :func:`is_exact` are the proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuronal.certify.bounds import OWN, gamma
from neuronal.core.limits import extras

Array = NDArray[np.float64]
# Exact elimination costs the cube of this, with numbers that grow along.
MOST_EXACT = 96


@dataclass(frozen=True)
class Proposal:
    """What a linear program found: the multipliers, and the input at which the largest unit is smallest."""

    multipliers: Array
    x: Array


def propose(weight: Array, bias: Array, low: Array, high: Array) -> Proposal | None:
    """Solves min over the box of max_i (W x + b)_i; None when the solver gives nothing usable."""
    m, n = weight.shape
    linprog = _linprog()
    # Rows of very different size trouble the solver; the answer is checked with the true ones.
    size = max(float(np.abs(weight).max(initial=0)), float(np.abs(bias).max(initial=0)), 1e-300)
    rows = np.hstack([weight / size, -np.ones((m, 1))])
    bounds = [*zip(low, high, strict=True), (None, None)]
    found = linprog(np.append(np.zeros(n), 1.0), A_ub=rows, b_ub=-bias / size, bounds=bounds, method="highs")
    if found.x is None or getattr(found, "ineqlin", None) is None or found.ineqlin.marginals is None:
        return None
    multipliers = np.maximum(-np.asarray(found.ineqlin.marginals, dtype=np.float64), 0.0)
    total = multipliers.sum()
    if not np.isfinite(total) or total <= 0 or not np.isfinite(found.x).all():
        return None
    return Proposal(multipliers / total, np.clip(found.x[:n], low, high))


def propose_everywhere(weight: Array, bias: Array) -> Array | None:
    """Multipliers with W' lam = 0, nearly, and the largest lam' b; None when the solver finds none."""
    m = len(weight)
    sizes = np.abs(weight).max(axis=0, initial=0)
    columns = weight[:, sizes > 0] / sizes[sizes > 0]
    equal = np.vstack([columns.T, np.ones((1, m))])
    right = np.append(np.zeros(len(equal) - 1), 1.0)
    found = _linprog()(-bias, A_eq=equal, b_eq=right, bounds=(0, None), method="highs")
    if found.x is None or not np.isfinite(found.x).all():
        return None
    multipliers: Array = np.maximum(found.x, 0.0)
    return multipliers


def _linprog() -> Any:
    with extras():
        return import_module("scipy.optimize").linprog


def lower_bound(
    weight: Array, bias: Array, multipliers: Array, low: Array, high: Array, bias_size: Array | None = None
) -> float:
    """A number below the largest unit at every input of the box: computed in floats, rounding taken off.

    Weight and bias may themselves be off by a few roundings of their own size (``bias_size`` for the bias).
    """
    m, n = weight.shape
    total = float(multipliers.sum())
    if not (multipliers >= 0).all() or not 0 < total < np.inf:
        return -np.inf
    g = multipliers @ weight
    value = float(multipliers @ bias + np.minimum(g * low, g * high).sum())
    reach = np.maximum(np.abs(low), np.abs(high))
    sizes = np.abs(bias) if bias_size is None else np.maximum(bias_size, np.abs(bias))
    # Every product and sum above, in any order, is off by at most gamma times the sum of absolute values.
    error = 2 * gamma(m + n + 32, OWN) * float(multipliers @ (np.abs(weight) @ reach + sizes))
    bound = (value - error) / total
    return bound - 4 * OWN * abs(bound) if np.isfinite(bound) else -np.inf


def is_exact(weight: Array, bias: Array, multipliers: Sequence[Fraction], cutoff: float) -> bool:
    """Whether these multipliers prove activity for every input: W' lam = 0 and lam' b > cutoff sum(lam), in rationals."""
    if any(value < 0 for value in multipliers):
        return False
    used = [(i, value) for i, value in enumerate(multipliers) if value]
    for column in weight.T:
        if sum(value * Fraction(float(column[i])) for i, value in used):
            return False
    above = sum(value * (Fraction(float(bias[i])) - Fraction(cutoff)) for i, value in used)
    return above > 0


def exact_multipliers(weight: Array, proposed: Array) -> list[Fraction] | None:
    """Rational multipliers with W' lam = 0 exactly, on the rows the proposal uses; None where there are none.

    A vertex of the linear program uses at most one row more than W has independent columns, and these rows have one
    dependency, which elimination in whole numbers finds.
    """
    rows = [int(i) for i in np.argsort(-proposed) if proposed[i] > 0][: weight.shape[1] + 1]
    if not rows or weight.shape[1] > MOST_EXACT:
        return None
    columns = weight[rows].T[np.abs(weight[rows].T).max(axis=1) > 0]
    solution = _null_vector([[Fraction(float(v)) for v in column] for column in columns], len(rows))
    if solution is None:
        return None
    if any(v < 0 for v in solution):
        solution = [-v for v in solution]
    if any(v < 0 for v in solution):
        return None
    result = [Fraction(0)] * len(weight)
    for row, value in zip(rows, solution, strict=True):
        result[row] = value
    return result


def _null_vector(matrix: list[list[Fraction]], n: int) -> list[Fraction] | None:
    """A vector v with matrix v = 0 and v of the last free unknown 1, by elimination without fractions (Bareiss)."""
    scales = [lcm(*(v.denominator for v in row)) for row in matrix]
    rows = [[int(v * scale) for v in row] for row, scale in zip(matrix, scales, strict=True)]
    pivots: list[int] = []
    previous = 1
    for column in range(n):
        top = len(pivots)
        lead = next((i for i in range(top, len(rows)) if rows[i][column]), None)
        if lead is None:
            continue
        rows[top], rows[lead] = rows[lead], rows[top]
        pivot = rows[top][column]
        for i in range(top + 1, len(rows)):
            factor = rows[i][column]
            rows[i] = [(pivot * a - factor * b) // previous for a, b in zip(rows[i], rows[top], strict=True)]
        previous = pivot
        pivots.append(column)
    free = [column for column in range(n) if column not in pivots]
    if len(free) != 1:
        return None
    solution = [Fraction(0)] * n
    solution[free[0]] = Fraction(1)
    for i in reversed(range(len(pivots))):
        column = pivots[i]
        known = sum((rows[i][k] * solution[k] for k in range(column + 1, n)), Fraction(0))
        solution[column] = -known / rows[i][column]
    return solution
