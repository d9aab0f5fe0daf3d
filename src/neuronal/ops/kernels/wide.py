r"""Rows that are too wide for a grid of nodes, or too hard, on a GPU: all pairs of units, tile by tile.

Which program takes which row, see Note [Rows again]. A row is put in order first, by counting for each unit those below it,
and stays so, since solutions keep the order; its sums are those of :mod:`neuronal.ops.kernels.tiles`. All is O(N^2) per
pass in time, and O(N) in memory.

Values are kept as they are, not in the unit of length of the slope nor around their mean: the difference of two floats is
exact where it matters, however far from zero they are.
"""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.device_functions import TURNS, UNIT, any_of, has_turn, looked_at, remainder, row_of
from neuronal.ops.kernels.tiles import MOVED, equation, linear, rounding, sort, stretch

# Of a step that is longer than this, in the unit of length of the slope, little is known.
_LONG = tl.constexpr(0.5)
# Rows of floats a program needs to work in.
SPACES = 8
_SPACES = tl.constexpr(SPACES)


@triton.jit
def _is_finite(x):
    return tl.abs(x) < float("inf")


@triton.jit
def _step(x_ptr, v_ptr, units):
    """x - v in the place of v, and the largest of the changes."""
    changes = tl.zeros((MOVED,), tl.float32)
    start = 0
    while start < units:
        n = start + tl.arange(0, MOVED)
        v = tl.load(v_ptr + n, mask=n < units, other=0.0)
        changes = tl.maximum(changes, tl.abs(v))
        tl.store(v_ptr + n, tl.load(x_ptr + n, mask=n < units, other=0.0) - v, mask=n < units)
        start += MOVED
    tl.debug_barrier()
    return tl.max(changes, 0)


@triton.jit
def _between(x_ptr, new_ptr, a_ptr, kappa, units):
    """The nearest thing to the new values with what is known of the solution; see :mod:`neuronal.ops.newton`.

    It climbs, where units attract each other by no more than ``a`` does, and has the same mean.
    """
    climbed = tl.load(a_ptr)
    total = 0.0
    start = 0
    while start < units:
        n = start + tl.arange(0, MOVED)
        behind = (n > 0) & (n < units)
        new = tl.load(new_ptr + n, mask=behind, other=0.0)
        gap = tl.maximum(new - tl.load(new_ptr + n - 1, mask=behind, other=0.0), 0.0)
        a = tl.load(a_ptr + n, mask=n < units, other=0.0)
        most = a - tl.load(a_ptr + n - 1, mask=behind, other=0.0)
        gap = tl.where(behind, tl.where(kappa <= 0, tl.minimum(gap, most), gap), 0.0)
        x = climbed + tl.cumsum(gap, 0)
        tl.store(x_ptr + n, x, mask=n < units)
        total += tl.sum(tl.where(n < units, a - x, 0.0), 0)
        climbed += tl.sum(gap, 0)
        start += MOVED
    tl.debug_barrier()
    start = 0
    while start < units:
        n = start + tl.arange(0, MOVED)
        x = tl.load(x_ptr + n, mask=n < units, other=0.0)
        tl.store(x_ptr + n, x + total / units, mask=n < units)
        start += MOVED


@triton.jit
def _copy(to_ptr, from_ptr, units):
    start = 0
    while start < units:
        n = start + tl.arange(0, MOVED)
        tl.store(to_ptr + n, tl.load(from_ptr + n, mask=n < units, other=0.0), mask=n < units)
        start += MOVED


@triton.jit
def _put_back(to_ptr, copy_ptr, sorted_ptr, rank_ptr, units):
    """Units in the order in which they came, in two places."""
    start = 0
    while start < units:
        n = start + tl.arange(0, MOVED)
        rank = tl.load(rank_ptr + n, mask=n < units, other=0.0).to(tl.int32)
        x = tl.load(sorted_ptr + rank, mask=n < units, other=0.0)
        tl.store(to_ptr + n, x, mask=n < units)
        tl.store(copy_ptr + n, x, mask=n < units)
        start += MOVED


@triton.jit
def _dot(a_ptr, b_ptr, units):
    sums = tl.zeros((MOVED,), tl.float32)
    start = 0
    while start < units:
        n = start + tl.arange(0, MOVED)
        sums += tl.load(a_ptr + n, mask=n < units, other=0.0) * tl.load(b_ptr + n, mask=n < units, other=0.0)
        start += MOVED
    return tl.sum(sums, 0)


@triton.jit
def _fill(to_ptr, copy_ptr, value, units):
    start = 0
    while start < units:
        n = start + tl.arange(0, MOVED)
        tl.store(to_ptr + n, tl.zeros((MOVED,), tl.float32) + value, mask=n < units)
        tl.store(copy_ptr + n, tl.zeros((MOVED,), tl.float32) + value, mask=n < units)
        start += MOVED


@triton.jit
def _extent(a_ptr, units):
    """Whether all are numbers, and the largest of them."""
    good = tl.full((MOVED,), 1, tl.int32)
    largest = tl.zeros((MOVED,), tl.float32)
    start = 0
    while start < units:
        n = start + tl.arange(0, MOVED)
        a = tl.load(a_ptr + n, mask=n < units, other=0.0)
        good &= _is_finite(a).to(tl.int32)
        largest = tl.maximum(largest, tl.abs(a))
        start += MOVED
    return tl.min(good, 0) > 0, tl.max(largest, 0)


@triton.jit
def _newton(space_ptr, coupling, slope, largest, tolerance, max_steps, units):
    """Residual and steps, given the row in order in the first two spaces, of which the first will be the solution."""
    x_ptr, a_ptr, F_ptr, S_ptr = space_ptr, space_ptr + units, space_ptr + 2 * units, space_ptr + 3 * units
    d_ptr, e_ptr, v_ptr = space_ptr + 4 * units, space_ptr + 5 * units, space_ptr + 6 * units
    kappa, scale = coupling * slope, tl.maximum(largest, 1.0)
    goal = tolerance * (1 - 8 * UNIT)
    error = tl.abs(coupling) * rounding(units)
    # What rounding the answer can do to the equation, where it is not looked at again.
    shaken = UNIT * (4 + 4 * tl.abs(kappa)) * largest
    residual, before, changed, steps = float("inf"), float("inf"), float("inf"), 0
    going = True
    while going:
        tl.debug_barrier()
        miss, size, least, most = equation(x_ptr, a_ptr, F_ptr, S_ptr, coupling, slope, units)
        residual = (miss + error) / scale
        # Where a short step did not help, rounding is all that is left.
        going = (residual > goal) & (steps < max_steps) & ((slope * changed > _LONG) | (size < before))
        if going:
            tl.debug_barrier()
            before = size
            linear(x_ptr, S_ptr, F_ptr, d_ptr, e_ptr, v_ptr, kappa, slope, least, most, 1e-3, units)
            changed = _step(x_ptr, v_ptr, units)
            if slope * changed > _LONG:
                _between(x_ptr, v_ptr, a_ptr, kappa, units)
            else:
                _copy(x_ptr, v_ptr, units)
                # After a small step there is nothing left to look at.
                missed = 2e-3 * miss + remainder(kappa, most + 1e-6, slope * changed) / slope
                promised = (missed + error + shaken) / scale
                if promised <= goal:
                    residual = promised
                    going = False
            steps += 1
    tl.debug_barrier()
    return residual * (1 + 4 * UNIT), steps


@triton.jit(do_not_specialize=["rows", "num_couplings", "num_slopes", "max_steps"])
def forward(
    a_ptr, coupling_ptr, slope_ptr, z_ptr, copy_ptr, residual_ptr, steps_ptr, converged_ptr, space_ptr,
    rows, num_couplings, num_slopes, tolerance, max_steps, units,
):  # fmt: skip
    """Solves the rows that are not within the tolerance and have steps left, and says of all whether they are."""
    r = looked_at()
    residual = tl.load(residual_ptr + r, mask=r < rows, other=0.0)
    is_done = residual <= tolerance
    tl.store(converged_ptr + r, is_done, mask=r < rows)
    taken = tl.load(steps_ptr + r, mask=r < rows, other=0)
    # A row whose sum overflows looks as if it had no numbers, and is looked at again.
    is_open = (is_done == 0) & ((taken < max_steps) | (residual == float("inf")))
    if any_of(is_open):
        space_ptr += tl.program_id(0).to(tl.int64) * _SPACES * units
        for turn in range(TURNS):
            row = row_of(turn)
            if has_turn(is_open, turn):
                first = row * units
                coupling, slope = tl.load(coupling_ptr + row % num_couplings), tl.load(slope_ptr + row % num_slopes)
                known, largest = _extent(a_ptr + first, units)
                if known & _is_finite(coupling) & _is_finite(slope):
                    rank_ptr = space_ptr + 7 * units
                    tl.debug_barrier()
                    sort(a_ptr + first, rank_ptr, space_ptr + units, units)
                    tl.debug_barrier()
                    _copy(space_ptr, space_ptr + units, units)
                    found, steps = _newton(space_ptr, coupling, slope, largest, tolerance, max_steps, units)
                    _put_back(z_ptr + first, copy_ptr + first, space_ptr, rank_ptr, units)
                    tl.store(residual_ptr + row, found)
                    tl.store(steps_ptr + row, steps)
                    tl.debug_barrier()
                    tl.store(converged_ptr + row, found <= tolerance)
                else:
                    _fill(z_ptr + first, copy_ptr + first, float("nan"), units)
                    tl.store(residual_ptr + row, float("nan"))


@triton.jit(do_not_specialize=["rows", "num_couplings", "num_slopes"])
def backward(
    g_ptr, z_ptr, coupling_ptr, slope_ptr, v_ptr, d_coupling_ptr, d_slope_ptr, space_ptr,
    rows, num_couplings, num_slopes, units, WITH_SLOPE: tl.constexpr,
):  # fmt: skip
    """v with A v = g, and the gradients for coupling and slope, of the rows whose gradient for the coupling is NaN."""
    r = looked_at()
    there = tl.load(d_coupling_ptr + r, mask=r < rows, other=0.0)
    is_open = there != there
    if any_of(is_open):
        space_ptr += tl.program_id(0).to(tl.int64) * _SPACES * units
        x_ptr, H_ptr, b_ptr, S_ptr = space_ptr, space_ptr + units, space_ptr + 2 * units, space_ptr + 3 * units
        d_ptr, e_ptr, own_ptr = space_ptr + 4 * units, space_ptr + 5 * units, space_ptr + 6 * units
        rank_ptr = space_ptr + 7 * units
        for turn in range(TURNS):
            row = row_of(turn)
            if has_turn(is_open, turn):
                first = row * units
                coupling, slope = tl.load(coupling_ptr + row % num_couplings), tl.load(slope_ptr + row % num_slopes)
                known, _ = _extent(z_ptr + first, units)
                given, _ = _extent(g_ptr + first, units)
                if known & given & _is_finite(coupling) & _is_finite(slope):
                    tl.debug_barrier()
                    sort(z_ptr + first, rank_ptr, x_ptr, units)
                    tl.debug_barrier()
                    # With coupling 1, what the row itself misses is the mean tanh.
                    _, _, least, most = equation(x_ptr, x_ptr, H_ptr, S_ptr, 1.0, slope, units)
                    start = 0
                    while start < units:
                        n = start + tl.arange(0, MOVED)
                        rank = tl.load(rank_ptr + n, mask=n < units, other=0.0).to(tl.int32)
                        g = tl.load(g_ptr + first + n, mask=n < units, other=0.0)
                        tl.store(b_ptr + rank, g, mask=n < units)
                        start += MOVED
                    tl.debug_barrier()
                    linear(
                        x_ptr, S_ptr, b_ptr, d_ptr, e_ptr, own_ptr, coupling * slope, slope, least, most, 1e-5, units
                    )
                    d_coupling = -_dot(own_ptr, H_ptr, units)
                    d_slope = 0.0
                    if WITH_SLOPE:
                        d_slope = -coupling / slope * stretch(x_ptr, own_ptr, slope, units)
                    tl.debug_barrier()
                    _put_back(v_ptr + first, H_ptr, own_ptr, rank_ptr, units)
                    tl.store(d_coupling_ptr + row, d_coupling)
                    tl.store(d_slope_ptr + row, d_slope)
                    tl.debug_barrier()
                else:
                    _fill(v_ptr + first, H_ptr, float("nan"), units)
