"""Which rows of units are worked on together: those that share a grid, a cache's worth at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import torch
from torch import Tensor

from neuronal.ops.grid import Precision, precision_for, without_grid

# Rows are taken in groups of about this many units, so that what a step needs stays in the cache.
_CHUNK = 280_000
_PAIRS = 1 << 20
# Up to so many units in all, calls cost more than memory.
_SMALL = 1 << 16
# Rows of up to so many units are summed pair by pair.
_FEW = 96
_FAR = 400.0
# Up to this width a wider grid costs next to nothing.
_NARROW = 20.0


def all_finite(rows: Tensor) -> Tensor:
    """Whether a row has numbers only; extremes show it, and are found in one pass without a copy."""
    return rows.amin(1).isfinite() & rows.amax(1).isfinite()


def only_finite(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Which rows have numbers only, and the rows with zeros in the place of the others."""
    if rows.numel() == 0:
        return torch.ones(len(rows), dtype=torch.bool, device=rows.device), rows
    finite = all_finite(rows)
    return finite, rows if finite.all() else torch.where(finite.unsqueeze(1), rows, 0.0)


def groups(
    a: Tensor, slope: Tensor, allowed: Tensor, dtype: torch.dtype, order: int = 0
) -> Iterator[tuple[Tensor | slice, Precision]]:
    """Rows that share a grid, a cache's worth at a time, and the precision the most demanding of them is allowed.

    ``order`` is that of the derivative of tanh that is summed.
    """
    count, units = a.shape
    width = slope.double() * (a.amax(1).double() - a.amin(1).double())
    if units <= _FEW:
        size = _even(count, max(1, _PAIRS // units**2))
        for start in range(0, count, size):
            some = slice(start, start + size)
            # Differences of units far from the middle of their row need the digits of a double.
            double = float(width[some].amax()) > _FAR
            yield some, without_grid(torch.float64 if double else dtype)
        return
    # Of a wide row, the nodes are what fills the cache.
    nodes = float(width.mean()) / precision_for(float(allowed.amin()), 0.0, dtype, order).spacing
    size = max(1, _CHUNK // max(units, int(nodes)))
    if a.numel() > _SMALL:
        # What a group needs is some twenty times its units; of a layer that comes in three groups, some seven times.
        size = min(size, -(-count // 3))
    for rows in _like(width, _even(count, size)):
        yield rows, precision_for(float(allowed[rows].amin()), float(width[rows].amax()), dtype, order)


def _even(rows: int, size: int) -> int:
    """The number of rows per group if no group may exceed ``size`` and none is a small rest."""
    return -(-rows // -(-rows // size))


def _like(width: Tensor, size: int) -> Iterator[Tensor | slice]:
    """At most ``size`` rows at a time, of widths as alike as can be: the widest row sets the grid of its group."""
    if len(width) <= size and width.amax() <= 2 * width.amin() + _NARROW:
        yield slice(0, len(width))
        return
    widths, order = width.sort()
    ordered, start = widths.tolist(), 0
    while start < len(ordered):
        end = min(start + size, bisect_right(ordered, 2 * ordered[start] + _NARROW))
        yield order[start:end]
        start = end
