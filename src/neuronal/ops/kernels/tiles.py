r"""Sums over all pairs of units of a row in order, tile by tile, inside a kernel.

Units further apart than :data:`_FAR` are all or nothing, and whole tiles of them need no look. The rest costs O(N^2) per
pass; of a wide row it is a small part.
"""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.device_functions import UNIT, interval, steps_for

# In the unit of length of the slope: tanh is 1, and its derivative 0, but for 6e-8.
_FAR = tl.constexpr(9.0)
# A tile of units that are so close to each other shares the exponentials of the others.
_CLOSE = tl.constexpr(20.0)
_LARGEST = tl.constexpr(40.0)
# What rounding does to a mean of pairs, summation apart.
_ROUNDING = tl.constexpr(3e-6)
# Units of a tile that are summed for, and units that are summed over; those that are moved at a time.
_OWN = tl.constexpr(32)
_OTHER = tl.constexpr(64)
MOVED = tl.constexpr(256)


@triton.jit
def rounding(units):
    """What rounding does to a mean of pairs: of each, of the sums over tiles one by one, and then over a tile."""
    return _ROUNDING + UNIT * (8 + units / _OTHER)


@triton.jit
def sort(a_ptr, rank_ptr, sorted_ptr, units):
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
def equation(x_ptr, a_ptr, F_ptr, S_ptr, coupling, slope, units):
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
def linear(x_ptr, S_ptr, left_ptr, d_ptr, e_ptr, v_ptr, kappa, slope, least, most, relative, units):
    """v with (1 - kappa S) v + kappa K v = b by Chebyshev's iteration; b is where what is left of it will be."""
    middle, half = interval(tl.minimum(kappa * least, kappa * most), tl.maximum(kappa * least, kappa * most))
    count = steps_for(middle, half, relative)
    start = 0
    while start < units:
        n = start + tl.arange(0, MOVED)
        S = tl.load(S_ptr + n, mask=n < units, other=0.0)
        left = tl.load(left_ptr + n, mask=n < units, other=0.0) / (1 - kappa * S)
        tl.store(left_ptr + n, left, mask=n < units)
        tl.store(d_ptr + n, left / middle, mask=n < units)
        tl.store(v_ptr + n, left / middle, mask=n < units)
        start += MOVED
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
def stretch(x_ptr, v_ptr, slope, units):
    """Sum over the units of v times the mean of t sech^2 t, t being the distances to all units."""
    sums = tl.zeros((_OWN, _OTHER), tl.float32)
    start = 0
    while start < units:
        n = start + tl.arange(0, _OWN)
        x = tl.load(x_ptr + n, mask=n < units, other=0.0)
        v = tl.load(v_ptr + n, mask=n < units, other=0.0)
        begin, end, middle, close = _near(x_ptr, start, slope, units)
        other = begin
        while other < end:
            m = other + tl.arange(0, _OTHER)
            others = tl.load(x_ptr + m, mask=m < units, other=float("inf"))
            q, rest = _pairs(x, others, slope, middle, close)
            t = slope * (others[None, :] - x[:, None])
            sums += v[:, None] * (tl.where(tl.abs(t) < _LARGEST, t, 0.0) * (q * rest))
            other += _OTHER
        start += _OWN
    return 4 * tl.sum(tl.sum(sums, 0), 0) / units
