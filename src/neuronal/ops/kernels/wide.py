r"""Rows that are too wide for a grid of nodes, or too hard, on a GPU: all pairs of units, tile by tile.

A launch goes over all rows and leaves those alone that are done; nobody has to ask on the host whether there are others.
A row is put in order first, by counting for each unit those below it, and stays so, since solutions keep the order. Then
units further apart than :data:`_FAR` are all or nothing, and whole tiles of them need no look. The rest costs O(N^2) per
pass, O(N) of it in memory; of a wide row it is a small part.

Values are kept as they are, not in the unit of length of the slope nor around their mean: the difference of two floats is
exact where it matters, however far from zero they are.
"""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.interval import UNIT, interval, remainder, steps_for

# In the unit of length of the slope: tanh is 1, and its derivative 0, but for 6e-8.
_FAR = tl.constexpr(9.0)
# A tile of units that are so close to each other shares the exponentials of the others.
_CLOSE = tl.constexpr(20.0)
_LARGEST = tl.constexpr(40.0)
# What rounding does to a mean of pairs, summation apart.
_ROUNDING = tl.constexpr(1e-6)
# Of a step that is longer than this, in the unit of length of the slope, little is known.
_LONG = tl.constexpr(0.5)
# Units of a tile that are summed for, and units that are summed over; those that are moved at a time.
_OWN = tl.constexpr(32)
_OTHER = tl.constexpr(64)
_MOVED = tl.constexpr(256)
# Rows of floats a program needs to work in.
SPACES = 8
_SPACES = tl.constexpr(SPACES)
# Rows a program looks at.
ROWS = 16
_ROWS = tl.constexpr(ROWS)


@triton.jit
def _is_finite(x):
    return tl.abs(x) < float("inf")


@triton.jit
def _sort(a_ptr, rank_ptr, sorted_ptr, units):
    """Ranks of the units, and the units in order."""
    start = 0
    while start < units:
        n = start + tl.arange(0, _OWN)
        own = tl.load(a_ptr + n, mask=n < units, other=0.0)
        below = tl.zeros((_OWN, _OTHER), tl.int32)
        other = 0
        while other < units:
            m = other + tl.arange(0, _OTHER)
            a = tl.load(a_ptr + m, mask=m < units, other=float("inf"))
            equal = (a[None, :] == own[:, None]) & (m[None, :] < n[:, None])
            below += ((a[None, :] < own[:, None]) | equal).to(tl.int32)
            other += _OTHER
        rank = tl.sum(below, 1)
        tl.store(rank_ptr + n, rank.to(tl.float32), mask=n < units)
        tl.store(sorted_ptr + rank, own, mask=n < units)
        start += _OWN


@triton.jit
def _near(x_ptr, start, slope, units):
    """First of the units that those of a tile feel, the end of them; the tile's middle, and whether it is close together."""
    first, last = tl.load(x_ptr + start), tl.load(x_ptr + tl.minimum(start + _OWN, units) - 1)
    begin = start // _OTHER * _OTHER
    end = tl.minimum(begin + _OTHER, units)
    before = slope * (first - tl.load(x_ptr + tl.maximum(begin - 1, 0))) < _FAR
    while (begin > 0) & before:
        begin -= _OTHER
        before = slope * (first - tl.load(x_ptr + tl.maximum(begin - 1, 0))) < _FAR
    after = slope * (tl.load(x_ptr + tl.minimum(end, units - 1)) - last) < _FAR
    while (end < units) & after:
        end = tl.minimum(end + _OTHER, units)
        after = slope * (tl.load(x_ptr + tl.minimum(end, units - 1)) - last) < _FAR
    return begin, end, first + (last - first) / 2, slope * (last - first) < _CLOSE


@triton.jit
def _exponential(x, middle, slope):
    return tl.exp(2 * tl.minimum(tl.maximum(slope * (x - middle), -_LARGEST), _LARGEST))


@triton.jit
def _pairs(own, others, slope, middle, close):
    """q = 1 / (1 + exp 2t) and 1 - q of all pairs at distance t: tanh t = 1 - 2q, and sech^2 t = 4 q (1 - q)."""
    if close:
        mine, theirs = _exponential(own, middle, slope)[:, None], _exponential(others, middle, slope)[None, :]
        # 1/s as the square of 1/sqrt(s) is one special function and no check for small s.
        root = tl.rsqrt(mine + theirs)
        share = root * root
        q, rest = mine * share, theirs * share
    else:
        e = _exponential(others[None, :], own[:, None], slope)
        q = 1 / (1 + e)
        rest = e * q
    return q, rest


@triton.jit
def _equation(x_ptr, a_ptr, F_ptr, S_ptr, coupling, slope, units):
    """Violation and mean slope at every unit; the largest violation, the sum of squares, extremes of the slopes."""
    misses = tl.zeros((_OWN,), tl.float32)
    sizes = tl.zeros((_OWN,), tl.float32)
    least = tl.full((_OWN,), 1.0, tl.float32)
    most = tl.zeros((_OWN,), tl.float32)
    start = 0
    while start < units:
        n = start + tl.arange(0, _OWN)
        x = tl.load(x_ptr + n, mask=n < units, other=0.0)
        begin, end, middle, close = _near(x_ptr, start, slope, units)
        q = tl.zeros((_OWN, _OTHER), tl.float32)
        s = tl.zeros((_OWN, _OTHER), tl.float32)
        other = begin
        while other < end:
            m = other + tl.arange(0, _OTHER)
            part, rest = _pairs(x, tl.load(x_ptr + m, mask=m < units, other=float("inf")), slope, middle, close)
            q += part
            s += part * rest
            other += _OTHER
        # Each unit before those that are near counts as 1, each behind them as 0.
        H = 1 - 2 * (begin + tl.sum(q, 1)) / units
        S = 4 * tl.sum(s, 1) / units
        F = tl.where(n < units, x - tl.load(a_ptr + n, mask=n < units, other=0.0) + coupling * H, 0.0)
        tl.store(F_ptr + n, F, mask=n < units)
        tl.store(S_ptr + n, S, mask=n < units)
        misses = tl.maximum(misses, tl.abs(F))
        sizes += F * F
        least = tl.minimum(least, tl.where(n < units, S, 1.0))
        most = tl.maximum(most, tl.where(n < units, S, 0.0))
        start += _OWN
    return tl.max(misses, 0), tl.sum(sizes, 0), tl.min(least, 0), tl.max(most, 0)


@triton.jit
def _linear(x_ptr, S_ptr, left_ptr, d_ptr, e_ptr, v_ptr, kappa, slope, least, most, relative, units):
    """v with (1 - kappa S) v + kappa K v = b by Chebyshev's iteration; b is where what is left of it will be."""
    middle, half = interval(tl.minimum(kappa * least, kappa * most), tl.maximum(kappa * least, kappa * most))
    count = steps_for(middle, half, relative)
    start = 0
    while start < units:
        n = start + tl.arange(0, _MOVED)
        S = tl.load(S_ptr + n, mask=n < units, other=0.0)
        left = tl.load(left_ptr + n, mask=n < units, other=0.0) / (1 - kappa * S)
        tl.store(left_ptr + n, left, mask=n < units)
        tl.store(d_ptr + n, left / middle, mask=n < units)
        tl.store(v_ptr + n, left / middle, mask=n < units)
        start += _MOVED
    rate = half / middle
    while count > 1:
        tl.debug_barrier()
        new = 1 / (2 * middle / half - rate)
        start = 0
        while start < units:
            n = start + tl.arange(0, _OWN)
            x = tl.load(x_ptr + n, mask=n < units, other=0.0)
            begin, end, center, close = _near(x_ptr, start, slope, units)
            sums = tl.zeros((_OWN, _OTHER), tl.float32)
            other = begin
            while other < end:
                m = other + tl.arange(0, _OTHER)
                q, rest = _pairs(x, tl.load(x_ptr + m, mask=m < units, other=float("inf")), slope, center, close)
                sums += (q * rest) * tl.load(d_ptr + m, mask=m < units, other=0.0)[None, :]
                other += _OTHER
            weight = 4 * kappa / units / (1 - kappa * tl.load(S_ptr + n, mask=n < units, other=0.0))
            d = tl.load(d_ptr + n, mask=n < units, other=0.0)
            left = tl.load(left_ptr + n, mask=n < units, other=0.0) - d - weight * tl.sum(sums, 1)
            tl.store(left_ptr + n, left, mask=n < units)
            d = new * rate * d + (2 * new / half) * left
            tl.store(e_ptr + n, d, mask=n < units)
            tl.store(v_ptr + n, tl.load(v_ptr + n, mask=n < units, other=0.0) + d, mask=n < units)
            start += _OWN
        rate = new
        # Tiles still to come have read the old direction, so the new one has a place of its own.
        d_ptr, e_ptr = e_ptr, d_ptr
        count -= 1
    tl.debug_barrier()


@triton.jit
def _step(x_ptr, v_ptr, units):
    """x - v in the place of v, and the largest of the changes."""
    changes = tl.zeros((_MOVED,), tl.float32)
    start = 0
    while start < units:
        n = start + tl.arange(0, _MOVED)
        v = tl.load(v_ptr + n, mask=n < units, other=0.0)
        changes = tl.maximum(changes, tl.abs(v))
        tl.store(v_ptr + n, tl.load(x_ptr + n, mask=n < units, other=0.0) - v, mask=n < units)
        start += _MOVED
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
        n = start + tl.arange(0, _MOVED)
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
        start += _MOVED
    tl.debug_barrier()
    start = 0
    while start < units:
        n = start + tl.arange(0, _MOVED)
        x = tl.load(x_ptr + n, mask=n < units, other=0.0)
        tl.store(x_ptr + n, x + total / units, mask=n < units)
        start += _MOVED


@triton.jit
def _copy(to_ptr, from_ptr, units):
    start = 0
    while start < units:
        n = start + tl.arange(0, _MOVED)
        tl.store(to_ptr + n, tl.load(from_ptr + n, mask=n < units, other=0.0), mask=n < units)
        start += _MOVED


@triton.jit
def _put_back(to_ptr, copy_ptr, sorted_ptr, rank_ptr, units):
    """Units in the order in which they came, in two places."""
    start = 0
    while start < units:
        n = start + tl.arange(0, _MOVED)
        rank = tl.load(rank_ptr + n, mask=n < units, other=0.0).to(tl.int32)
        x = tl.load(sorted_ptr + rank, mask=n < units, other=0.0)
        tl.store(to_ptr + n, x, mask=n < units)
        tl.store(copy_ptr + n, x, mask=n < units)
        start += _MOVED


@triton.jit
def _fill(to_ptr, copy_ptr, value, units):
    start = 0
    while start < units:
        n = start + tl.arange(0, _MOVED)
        tl.store(to_ptr + n, tl.zeros((_MOVED,), tl.float32) + value, mask=n < units)
        tl.store(copy_ptr + n, tl.zeros((_MOVED,), tl.float32) + value, mask=n < units)
        start += _MOVED


@triton.jit
def _extent(a_ptr, units):
    """Whether all are numbers, and the largest of them."""
    good = tl.full((_MOVED,), 1, tl.int32)
    largest = tl.zeros((_MOVED,), tl.float32)
    start = 0
    while start < units:
        n = start + tl.arange(0, _MOVED)
        a = tl.load(a_ptr + n, mask=n < units, other=0.0)
        good &= _is_finite(a).to(tl.int32)
        largest = tl.maximum(largest, tl.abs(a))
        start += _MOVED
    return tl.min(good, 0) > 0, tl.max(largest, 0)


@triton.jit
def _newton(space_ptr, coupling, slope, largest, tolerance, max_steps, units):
    """Residual and steps, given the row in order in the first two spaces, of which the first will be the solution."""
    x_ptr, a_ptr, F_ptr, S_ptr = space_ptr, space_ptr + units, space_ptr + 2 * units, space_ptr + 3 * units
    d_ptr, e_ptr, v_ptr = space_ptr + 4 * units, space_ptr + 5 * units, space_ptr + 6 * units
    kappa, scale = coupling * slope, tl.maximum(largest, 1.0)
    goal = tolerance * (1 - 8 * UNIT)
    # Of pairs, of the sums over tiles one after the other and then over one of them.
    error = tl.abs(coupling) * (_ROUNDING + UNIT * (8 + units / _OTHER))
    # What rounding the answer can do to the equation, where it is not looked at again.
    rounding = UNIT * (4 + 4 * tl.abs(kappa)) * largest
    residual, before, changed, steps = float("inf"), float("inf"), float("inf"), 0
    going = True
    while going:
        tl.debug_barrier()
        miss, size, least, most = _equation(x_ptr, a_ptr, F_ptr, S_ptr, coupling, slope, units)
        residual = (miss + error) / scale
        # Where a short step did not help, rounding is all that is left.
        going = (residual > goal) & (steps < max_steps) & ((slope * changed > _LONG) | (size < before))
        if going:
            tl.debug_barrier()
            before = size
            _linear(x_ptr, S_ptr, F_ptr, d_ptr, e_ptr, v_ptr, kappa, slope, least, most, 1e-3, units)
            changed = _step(x_ptr, v_ptr, units)
            if slope * changed > _LONG:
                _between(x_ptr, v_ptr, a_ptr, kappa, units)
            else:
                _copy(x_ptr, v_ptr, units)
                # After a small step there is nothing left to look at.
                missed = 2e-3 * miss + remainder(kappa, most + 1e-6, slope * changed) / slope
                promised = (missed + error + rounding) / scale
                if promised <= goal:
                    residual = promised
                    going = False
            steps += 1
    tl.debug_barrier()
    return residual * (1 + 4 * UNIT), steps


@triton.jit(do_not_specialize=["rows", "couplings", "slopes", "max_steps"])
def forward(
    a_ptr, coupling_ptr, slope_ptr, z_ptr, copy_ptr, residual_ptr, steps_ptr, converged_ptr, space_ptr,
    rows, couplings, slopes, tolerance, max_steps, units,
):  # fmt: skip
    """Solves the rows that are not within the tolerance and have steps left, and says of all whether they are."""
    programs = tl.num_programs(0)
    r = tl.program_id(0) + programs * tl.arange(0, _ROWS)
    residual = tl.load(residual_ptr + r, mask=r < rows, other=0.0)
    is_done = residual <= tolerance
    tl.store(converged_ptr + r, is_done, mask=r < rows)
    taken = tl.load(steps_ptr + r, mask=r < rows, other=0)
    # A row whose sum overflows looks as if it had no numbers, and is looked at again.
    is_open = (is_done == 0) & ((taken < max_steps) | (residual == float("inf")))
    if tl.max(is_open.to(tl.int32), 0) > 0:
        space_ptr += tl.program_id(0).to(tl.int64) * _SPACES * units
        for turn in range(_ROWS):
            row = (tl.program_id(0) + programs * turn).to(tl.int64)
            if tl.max((is_open & (tl.arange(0, _ROWS) == turn)).to(tl.int32), 0) > 0:
                first = row * units
                coupling, slope = tl.load(coupling_ptr + row % couplings), tl.load(slope_ptr + row % slopes)
                known, largest = _extent(a_ptr + first, units)
                if known & _is_finite(coupling) & _is_finite(slope):
                    rank_ptr = space_ptr + 7 * units
                    tl.debug_barrier()
                    _sort(a_ptr + first, rank_ptr, space_ptr + units, units)
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


@triton.jit
def _gradients(space_ptr, coupling, slope, units, WITH_SLOPE: tl.constexpr):
    """Gradients for coupling and slope, given the row in order in the first space, and v in the seventh."""
    x_ptr, v_ptr = space_ptr, space_ptr + 6 * units
    d_coupling = tl.zeros((_OWN,), tl.float32)
    d_slope = tl.zeros((_OWN,), tl.float32)
    start = 0
    while start < units:
        n = start + tl.arange(0, _OWN)
        x = tl.load(x_ptr + n, mask=n < units, other=0.0)
        v = tl.load(v_ptr + n, mask=n < units, other=0.0)
        begin, end, middle, close = _near(x_ptr, start, slope, units)
        q = tl.zeros((_OWN, _OTHER), tl.float32)
        s = tl.zeros((_OWN, _OTHER), tl.float32)
        other = begin
        while other < end:
            m = other + tl.arange(0, _OTHER)
            others = tl.load(x_ptr + m, mask=m < units, other=float("inf"))
            part, rest = _pairs(x, others, slope, middle, close)
            q += part
            if WITH_SLOPE:
                t = slope * (others[None, :] - x[:, None])
                s += tl.where(tl.abs(t) < _LARGEST, t, 0.0) * (part * rest)
            other += _OTHER
        d_coupling += v * (1 - 2 * (begin + tl.sum(q, 1)) / units)
        d_slope += v * (4 * tl.sum(s, 1) / units)
        start += _OWN
    return -tl.sum(d_coupling, 0), -coupling / slope * tl.sum(d_slope, 0)


@triton.jit(do_not_specialize=["rows", "couplings", "slopes"])
def backward(
    g_ptr, z_ptr, coupling_ptr, slope_ptr, v_ptr, d_coupling_ptr, d_slope_ptr, space_ptr,
    rows, couplings, slopes, units, WITH_SLOPE: tl.constexpr,
):  # fmt: skip
    """v with A v = g, and the gradients for coupling and slope, of the rows whose gradient for the coupling is NaN."""
    programs = tl.num_programs(0)
    r = tl.program_id(0) + programs * tl.arange(0, _ROWS)
    there = tl.load(d_coupling_ptr + r, mask=r < rows, other=0.0)
    is_open = there != there
    if tl.max(is_open.to(tl.int32), 0) > 0:
        space_ptr += tl.program_id(0).to(tl.int64) * _SPACES * units
        x_ptr, spare_ptr, b_ptr, S_ptr = space_ptr, space_ptr + units, space_ptr + 2 * units, space_ptr + 3 * units
        d_ptr, e_ptr, own_ptr = space_ptr + 4 * units, space_ptr + 5 * units, space_ptr + 6 * units
        rank_ptr = space_ptr + 7 * units
        for turn in range(_ROWS):
            row = (tl.program_id(0) + programs * turn).to(tl.int64)
            if tl.max((is_open & (tl.arange(0, _ROWS) == turn)).to(tl.int32), 0) > 0:
                first = row * units
                coupling, slope = tl.load(coupling_ptr + row % couplings), tl.load(slope_ptr + row % slopes)
                known, _ = _extent(z_ptr + first, units)
                given, _ = _extent(g_ptr + first, units)
                if known & given & _is_finite(coupling) & _is_finite(slope):
                    tl.debug_barrier()
                    _sort(z_ptr + first, rank_ptr, x_ptr, units)
                    tl.debug_barrier()
                    _, _, least, most = _equation(x_ptr, x_ptr, spare_ptr, S_ptr, coupling, slope, units)
                    start = 0
                    while start < units:
                        n = start + tl.arange(0, _MOVED)
                        rank = tl.load(rank_ptr + n, mask=n < units, other=0.0).to(tl.int32)
                        g = tl.load(g_ptr + first + n, mask=n < units, other=0.0)
                        tl.store(b_ptr + rank, g, mask=n < units)
                        start += _MOVED
                    tl.debug_barrier()
                    _linear(x_ptr, S_ptr, b_ptr, d_ptr, e_ptr, own_ptr, coupling * slope, slope, least, most, 1e-5, units)
                    d_coupling, d_slope = _gradients(space_ptr, coupling, slope, units, WITH_SLOPE)
                    _put_back(v_ptr + first, spare_ptr, own_ptr, rank_ptr, units)
                    tl.store(d_coupling_ptr + row, d_coupling)
                    tl.store(d_slope_ptr + row, d_slope)
                    tl.debug_barrier()
                else:
                    _fill(v_ptr + first, spare_ptr, float("nan"), units)
