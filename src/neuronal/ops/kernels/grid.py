r"""Rows of coupled units on a GPU, several to a program: sums over all units by way of nodes.

A program has 4,096 nodes: 16 rows of 256, or 4 rows of 1,024, which hold rows four times as wide.

Units give their masses to the nodes of a uniform grid as in :mod:`neuronal.ops.grid`, here with cubic splines, whose
error is an eighth of that of polynomials through four nodes (:func:`neuronal.ops.kernels.tables.error`). The rows of a
program share the spacing of their grids, and so the tables.
"""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.device_functions import TURNS, UNIT, any_of, has_turn, looked_at, remainder, row_of, shrinkage
from neuronal.ops.kernels.halves import pair, reciprocal
from neuronal.ops.kernels.nodes import (
    ALL,
    SIZE,
    on_lines,
    positions,
    product,
    product_of_tanh,
    row_max,
    smooth_part,
    to_rows,
)
from neuronal.ops.kernels.spread import between, cell_of, read, shared, units_of, weighed
from neuronal.ops.kernels.tables import (
    INVERSE,
    KINDS,
    SECH2,
    TABLE,
    TANH,
    TANH_SPLINE,
    error,
    holds,
    needed,
    spacing_index,
)

_TRIES = tl.constexpr(8)


@triton.jit
def _widest(width, active):
    """Which spacing holds all active rows."""
    return spacing_index(tl.max(tl.where(active, needed(width, ALL // width.shape[0]), 0.0), 0))


@triton.jit
def _first_step(
    a_ptr, z_ptr, at, active, middle, slope, kappa, s, low, high, lowest, highest, spacing_ptr, tables_ptr,
    units, W: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """A Newton step from s times the target; extremes of where it leads."""
    ROWS: tl.constexpr = at.shape[0]
    index = _widest(high - low, active)
    c = tl.load(spacing_ptr + index)
    tables_ptr += index * KINDS * TABLE
    M = shared(a_ptr, a_ptr, at, active, middle, s * slope, low, c, s, units, False, W)
    pull = kappa * (1 / SIZE)
    H = product_of_tanh(M, tables_ptr + TANH * TABLE, ROWS)
    S = tl.maximum(product(M, tables_ptr + SECH2 * TABLE, ROWS), 0.0)
    F = positions(low, c) * on_lines(1 - 1 / s) + on_lines(pull) * H
    Y = smooth_part(M * F, M, S, pull, active, tables_ptr + SECH2 * TABLE, 1e-2)
    change = (F - on_lines(pull) * Y) * reciprocal(1 - on_lines(pull) * S)
    change = to_rows(product(change, tables_ptr + INVERSE * TABLE, ROWS), ROWS)
    lows = tl.zeros((ROWS, V), tl.float32) + highest[:, None]
    highs = tl.zeros((ROWS, V), tl.float32) + lowest[:, None]
    start = 0
    while start < units:
        n = start + tl.arange(0, V)
        real = active[:, None] & (n < units)[None, :]
        x = (s * slope)[:, None] * (units_of(a_ptr, at, n, active, units) - middle[:, None])
        first, f = cell_of(x, low, c)
        x = tl.minimum(tl.maximum(x - read(change, first, f), lowest[:, None]), highest[:, None])
        tl.store(z_ptr + at[:, None] + n[None, :], x, mask=real)
        lows = tl.minimum(lows, tl.where(real, x, highest[:, None]))
        highs = tl.maximum(highs, tl.where(real, x, lowest[:, None]))
        start += V
    tl.debug_barrier()
    return tl.min(lows, 1), tl.max(highs, 1)


@triton.jit
def _missed(a_ptr, z_ptr, work_ptr, at, rows, middle, slope, kappa, means, low, c, units, V: tl.constexpr):
    """What the units of some rows miss their equation by, left in ``work_ptr``: the largest, and the sum of squares."""
    misses = tl.zeros((at.shape[0], V), tl.float32)
    sizes = tl.zeros((at.shape[0], V), tl.float32)
    start = 0
    while start < units:
        n = start + tl.arange(0, V)
        real = rows[:, None] & (n < units)[None, :]
        x = units_of(z_ptr, at, n, rows, units)
        t = slope[:, None] * (units_of(a_ptr, at, n, rows, units) - middle[:, None])
        first, f = cell_of(x, low, c)
        F = tl.where(real, x - t + kappa[:, None] * read(means, first, f), 0.0)
        tl.store(work_ptr + at[:, None] + n[None, :], F, mask=real)
        misses = tl.maximum(misses, tl.abs(F))
        sizes += F * F
        start += V
    return tl.max(misses, 1), tl.sum(sizes, 1)


@triton.jit
def _moved(z_ptr, work_ptr, at, rows, both, miss, low, c, lowest, highest, units, V: tl.constexpr):
    """A Newton step of some rows, given 1/D and kappa Y / D as pairs: extremes of where it leads, and the largest change."""
    ROWS: tl.constexpr = at.shape[0]
    changes = tl.zeros((ROWS, V), tl.float32)
    lows = tl.zeros((ROWS, V), tl.float32) + highest[:, None]
    highs = tl.zeros((ROWS, V), tl.float32) + lowest[:, None]
    start = 0
    while start < units:
        n = start + tl.arange(0, V)
        real = rows[:, None] & (n < units)[None, :]
        x = units_of(z_ptr, at, n, rows, units)
        F = units_of(work_ptr, at, n, rows, units)
        first, f = cell_of(x, low, c)
        inverse, pulled = between(both, first, f)
        change = F * inverse - miss[:, None] * pulled
        changes = tl.maximum(changes, tl.where(real, tl.abs(change), 0.0))
        x = tl.minimum(tl.maximum(x - change, lowest[:, None]), highest[:, None])
        tl.store(z_ptr + at[:, None] + n[None, :], x, mask=real)
        lows = tl.minimum(lows, tl.where(real, x, highest[:, None]))
        highs = tl.maximum(highs, tl.where(real, x, lowest[:, None]))
        start += V
    return tl.min(lows, 1), tl.max(highs, 1), tl.max(changes, 1)


@triton.jit
def _solve(
    a_ptr, z_ptr, work_ptr, at, active, middle, slope, kappa, s, low, high, lowest, highest, scale, rounding, goal,
    max_steps, spacing_ptr, tables_ptr, scratch_ptr, units, W: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Newton's method for the active rows: residual and steps; z is left in the unit of length of the slope."""
    ROWS: tl.constexpr = at.shape[0]
    NODES: tl.constexpr = ALL // ROWS
    low, high = s * slope * (low - middle), s * slope * (high - middle)
    least, most = _first_step(
        a_ptr, z_ptr, at, active, middle, slope, kappa, s, low, high, lowest, highest, spacing_ptr, tables_ptr,
        units, W, V,
    )  # fmt: skip
    steps = tl.where(active, 1, 0)
    residual = tl.full((ROWS,), float("inf"), tl.float32)
    before = tl.full((ROWS,), float("inf"), tl.float32)
    nothing, one = tl.zeros((ROWS,), tl.float32), tl.full((ROWS,), 1.0, tl.float32)
    open_rows = active & holds(most - least, NODES)
    while tl.max(open_rows.to(tl.int32), 0) > 0:
        index = _widest(most - least, open_rows)
        c = tl.load(spacing_ptr + index)
        table_ptr = tables_ptr + index * KINDS * TABLE
        uncertain = tl.abs(kappa) * error(c, NODES)
        # What is loaded lies where units do. What was computed would take the computation with it, to every line.
        tl.store(scratch_ptr, least, mask=active)
        tl.debug_barrier()
        lower = tl.load(scratch_ptr, mask=active, other=0.0)
        weights = weighed(z_ptr, at, active, nothing, one, lower, c, units, W)
        means = to_rows(product_of_tanh(weights, table_ptr + TANH_SPLINE * TABLE, ROWS, True), ROWS) * (1 / SIZE)
        miss, size = _missed(a_ptr, z_ptr, work_ptr, at, open_rows, middle, slope, kappa, means, least, c, units, V)
        residual = tl.where(open_rows, (miss + uncertain) / scale + rounding, residual)
        open_rows = open_rows & (residual > goal) & (steps < max_steps) & (steps < _TRIES) & (size < before)
        if tl.max(open_rows.to(tl.int32), 0) > 0:
            tl.debug_barrier()
            before = tl.where(open_rows, size, before)
            pull = tl.where(open_rows, kappa * (1 / SIZE), 0.0)
            M = product(weights, table_ptr + INVERSE * TABLE, ROWS)
            S = tl.maximum(product(M, table_ptr + SECH2 * TABLE, ROWS), 0.0)
            factor = tl.where(open_rows, 1 / tl.maximum(miss, 1e-37), 0.0)
            B = shared(z_ptr, work_ptr, at, active, nothing, one, lower, c, factor, units, True, W)
            Y = smooth_part(B, M, S, pull, open_rows, table_ptr + SECH2 * TABLE, 5e-3)
            inverse = reciprocal(1 - on_lines(pull) * S)
            both = to_rows(pair(inverse, on_lines(pull) * Y * inverse), ROWS)
            moved = _moved(z_ptr, work_ptr, at, open_rows, both, miss, least, c, lowest, highest, units, V)
            least, most = tl.where(open_rows, moved[0], least), tl.where(open_rows, moved[1], most)
            steps += tl.where(open_rows, 1, 0)
            # After a small step there is nothing left to look at. Of the step itself it is known that second derivatives
            # of S and Y are at most 4 times as large as they are, so that lines between nodes miss 1/D and Y by
            # c^2 q (1 + q), q being the largest of kappa S / D.
            q = row_max(tl.abs(on_lines(pull) * S) * inverse, ROWS)
            promised = (5e-3 + c * c * q * (1 + q)) * miss
            promised += remainder(kappa, (1.05 / SIZE) * row_max(S, ROWS) + 1e-3, moved[2])
            promised = (promised + uncertain * (1 + 4 * moved[2] / c)) / scale + rounding
            kept = open_rows & (promised <= goal)
            residual = tl.where(kept, promised, residual)
            open_rows = open_rows & (kept == 0)
            tl.debug_barrier()
    return residual, steps


@triton.jit
def _open(residual_ptr, steps_ptr, row, rows, tolerance, max_steps):
    """Which of some rows an earlier launch, with fewer nodes, did not solve."""
    residual = tl.load(residual_ptr + row, mask=row < rows, other=0.0)
    steps = tl.load(steps_ptr + row, mask=row < rows, other=0)
    return (residual > tolerance) & ((steps < max_steps) | (residual == float("inf")))


@triton.jit
def _some(
    row, there, a_ptr, coupling_ptr, slope_ptr, z_ptr, work_ptr, residual_ptr, steps_ptr, spacing_ptr, tables_ptr,
    num_couplings, num_slopes, tolerance, max_steps, units, W: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Solves those rows of some that are there."""
    ROWS: tl.constexpr = row.shape[0]
    NODES: tl.constexpr = ALL // ROWS
    at = row.to(tl.int64) * units
    coupling = tl.load(coupling_ptr + row % num_couplings, mask=there, other=0.0)
    slope = tl.load(slope_ptr + row % num_slopes, mask=there, other=1.0)
    kappa = coupling * slope
    origin = tl.load(a_ptr + at, mask=there, other=0.0)
    totals = tl.zeros((ROWS, V), tl.float32)
    squares = tl.zeros((ROWS, V), tl.float32)
    lows = tl.full((ROWS, V), float("inf"), tl.float32)
    highs = tl.full((ROWS, V), -float("inf"), tl.float32)
    start = 0
    while start < units:
        n = start + tl.arange(0, V)
        real = there[:, None] & (n < units)[None, :]
        a = units_of(a_ptr, at, n, there, units)
        off = tl.where(real, a - origin[:, None], 0.0)
        totals += off
        squares += off * off
        lows = tl.minimum(lows, tl.where(real, a, float("inf")))
        highs = tl.maximum(highs, tl.where(real, a, -float("inf")))
        start += V
    total = tl.sum(totals, 1)
    low, high = tl.where(there, tl.min(lows, 1), 0.0), tl.where(there, tl.max(highs, 1), 0.0)
    # What has no numbers, or would overflow on the way, is NaN; there is another kernel to look at it.
    finite = (tl.abs(total) < float("inf")) & (tl.abs(kappa) < float("inf")) & (slope * (high - low) < 1e15)
    mean = total / units
    middle = origin + mean
    scale = slope * tl.maximum(tl.maximum(tl.abs(low), tl.abs(high)), 1.0)
    lowest, highest = slope * (low - middle), slope * (high - middle)
    s = shrinkage(kappa, slope * slope * tl.maximum(tl.sum(squares, 1) / units - mean * mean, 0.0))
    goal = tolerance * (1 - 8 * UNIT)
    # What rounding the answer to float32 can do to the equation.
    rounding = UNIT * (4 + 4 * tl.abs(kappa)) * (tl.maximum(-lowest, highest) + slope * tl.abs(middle)) / scale
    reach = tl.maximum(kappa, 0.0)
    lowest -= reach
    highest += reach
    width = s * (highest - lowest)
    trivial = (kappa == 0) | (low == high)
    todo = there & finite & (trivial == 0)
    residual = tl.where(todo, float("inf"), 0.0)
    steps = tl.where(todo, 1, 0)
    # Neither rows that the nodes do not hold, nor those that they would be too far apart for. Units at both ends are pulled
    # by |kappa| at most, so a row stays wider than its spread alone makes one think.
    at_end = tl.maximum(width, slope * (high - low) - 2 * tl.abs(kappa))
    todo = todo & holds(at_end, NODES)
    own = tl.load(spacing_ptr + spacing_index(needed(at_end, NODES)), mask=todo, other=0.0)
    todo = todo & (tl.abs(kappa) * error(own, NODES) / scale + rounding <= goal)
    tried = todo[:, None]
    # Rows that a common grid would be too coarse for wait for their turn.
    while tl.max(todo.to(tl.int32), 0) > 0:
        c = tl.load(spacing_ptr + _widest(width, todo))
        fine = tl.abs(kappa) * error(c, NODES) <= 0.5 * goal * scale
        active = todo & (fine | (needed(width, NODES) >= c / 1.2))
        found, taken = _solve(
            a_ptr, z_ptr, work_ptr, at, active, tl.where(active, middle, 0.0), slope, tl.where(active, kappa, 0.0),
            tl.where(active, s, 1.0), tl.where(active, low, 0.0), tl.where(active, high, 0.0),
            tl.where(active, lowest, 0.0), tl.where(active, highest, 0.0), scale, rounding, goal, max_steps,
            spacing_ptr, tables_ptr, residual_ptr + row, units, W, V,
        )  # fmt: skip
        residual = tl.where(active, found, residual)
        steps = tl.where(active, taken, steps)
        todo = todo & (active == 0)
    tl.debug_barrier()
    start = 0
    while start < units:
        n = start + tl.arange(0, V)
        real = there[:, None] & (n < units)[None, :]
        a = units_of(a_ptr, at, n, there, units)
        z = (
            tl.load(z_ptr + at[:, None] + n[None, :], mask=real & tried, other=0.0) * (1 / slope)[:, None]
            + middle[:, None]
        )
        z = tl.where(finite[:, None], tl.where(tried, z, a), float("nan"))
        tl.store(z_ptr + at[:, None] + n[None, :], z, mask=real)
        tl.store(work_ptr + at[:, None] + n[None, :], z, mask=real)
        start += V
    # What overflowed on the way is no number.
    residual = tl.where(residual < 1e30, residual * (1 + 4 * UNIT), float("inf"))
    tl.store(residual_ptr + row, tl.where(finite, residual, float("nan")), mask=there)
    tl.store(steps_ptr + row, steps, mask=there)


@triton.jit(do_not_specialize=["rows", "num_couplings", "num_slopes", "max_steps"])
def forward(
    a_ptr, coupling_ptr, slope_ptr, z_ptr, work_ptr, residual_ptr, steps_ptr, spacing_ptr, tables_ptr,
    rows, num_couplings, num_slopes, tolerance, max_steps, units,
    ROWS: tl.constexpr, AGAIN: tl.constexpr, W: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Solves rows by Newton's method; the residual of one that the nodes are too few for is infinite.

    Row r has coupling r % num_couplings and slope r % num_slopes. The solution is left in ``work_ptr`` too. ``AGAIN`` is for
    those rows alone that an earlier launch, with fewer nodes, did not solve: a program looks at several groups of ROWS.
    """
    own = tl.arange(0, ROWS)
    if AGAIN:
        seen = looked_at()[:, None] * ROWS + own[None, :]
        is_open = tl.max(_open(residual_ptr, steps_ptr, seen, rows, tolerance, max_steps).to(tl.int32), 1) > 0
        if any_of(is_open):
            for turn in range(TURNS):
                if has_turn(is_open, turn):
                    row = row_of(turn).to(tl.int32) * ROWS + own
                    _some(
                        row, _open(residual_ptr, steps_ptr, row, rows, tolerance, max_steps), a_ptr, coupling_ptr,
                        slope_ptr, z_ptr, work_ptr, residual_ptr, steps_ptr, spacing_ptr, tables_ptr, num_couplings,
                        num_slopes, tolerance, max_steps, units, W, V,
                    )  # fmt: skip
    else:
        row = tl.program_id(0) * ROWS + own
        _some(
            row, row < rows, a_ptr, coupling_ptr, slope_ptr, z_ptr, work_ptr, residual_ptr, steps_ptr, spacing_ptr,
            tables_ptr, num_couplings, num_slopes, tolerance, max_steps, units, W, V,
        )  # fmt: skip
