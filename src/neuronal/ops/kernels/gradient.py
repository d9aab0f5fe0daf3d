r"""The gradient of long rows of coupled units on a GPU, one row to a program.

Units give their masses to nodes as in :mod:`neuronal.ops.kernels.grid`. What is done there for several rows would take
more registers here than there are: sums over nodes are three times as exact, and there are twice as many of units.
"""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.device_functions import TURNS, any_of, has_turn, looked_at, row_of
from neuronal.ops.kernels.row_nodes import distances, halves, mean_tanh, sech2, smooth_part, spline, sums
from neuronal.ops.kernels.tables import MARGIN, holds, needed

# Inline assembly is for the GPU alone.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
# A cell number is 8 times its first digit plus its second.
_LOW = tl.constexpr(8)


@triton.jit
def _cells(x_ptr, n, shift, slope, low, c, units: tl.constexpr):
    """First and second digit of the cells of units, none where there is no unit, and the offset from their middle."""
    x = slope * (tl.load(x_ptr + n, mask=n < units, other=0.0) - shift)
    # Where there is no unit, a number that half precision has: times 0 it is to be 0.
    position = tl.where(n < units, (x - low) * (1 / c) + MARGIN, 0.0)
    cell = position.to(tl.int32)
    return tl.where(n < units, cell // _LOW, -1), cell % _LOW, position - cell.to(tl.float32) - 0.5


@triton.jit
def _four(a, b, c, d):
    """Four groups of units side by side; in whichever order, but always the same."""
    both = tl.join(tl.join(a, b), tl.join(c, d))
    return tl.reshape(both, (both.shape[0], 4 * both.shape[1]))


@triton.jit
def _equal(a, b):
    """1 where equal, else 0, in half precision."""
    if _INTERPRETED:
        found = (a == b).to(tl.float16)
    else:
        # Two at a time.
        found = tl.inline_asm_elementwise(
            "set.eq.f16x2.f16x2 $0, $1, $2;", "=r,r,r", [a, b], dtype=tl.float16, is_pure=True, pack=2
        )
    return found


@triton.jit
def _times(a, b):
    if _INTERPRETED:
        found = a * b
    else:
        found = tl.inline_asm_elementwise(
            "mul.f16x2 $0, $1, $2;", "=r,r,r", [a, b], dtype=tl.float16, is_pure=True, pack=2
        )
    return found


@triton.jit
def _rows(a, b, c, d, ROWS: tl.constexpr):
    """Numbers of four groups of units, side by side, in every one of so many rows."""
    shape: tl.constexpr = (ROWS, a.shape[0])
    a, b = tl.broadcast_to(a.to(tl.float16)[None, :], shape), tl.broadcast_to(b.to(tl.float16)[None, :], shape)
    c, d = tl.broadcast_to(c.to(tl.float16)[None, :], shape), tl.broadcast_to(d.to(tl.float16)[None, :], shape)
    return _four(a, b, c, d)


@triton.jit
def _ones(a, b, c, d, ROWS: tl.constexpr):
    """1 in the row that the digit of a unit says."""
    # Made like the other side, so that both are in the same place.
    row = tl.broadcast_to(tl.arange(0, ROWS).to(tl.float16)[:, None], (ROWS, a.shape[0]))
    return _equal(_rows(a, b, c, d, ROWS), _four(row, row, row, row))


@triton.jit
def _add(m, H, own, a, b, c, d):
    """Adds the values of four groups of units to their cells."""
    return tl.dot(H, tl.trans(_times(own, _rows(a, b, c, d, _LOW))), m)


@triton.jit
def _rest(b):
    """What half precision leaves of it."""
    return b - b.to(tl.float16).to(tl.float32)


@triton.jit
def _shifted(nodes, by: tl.constexpr):
    node = tl.arange(0, nodes.numel) + by
    inside = (node >= 0) & (node < nodes.numel)
    return tl.where(inside, tl.gather(nodes, tl.where(inside, node, 0), 0), 0.0)


@triton.jit
def _masses(m0, m1, m2, m3):
    """From moments of the cells to masses of the nodes."""
    a0, a1 = tl.reshape(m0, (m0.numel,)), tl.reshape(m1, (m1.numel,))
    a2, a3 = tl.reshape(m2, (m2.numel,)), tl.reshape(m3, (m3.numel,))
    outer_even, outer_odd = a0 * (1 / 48) + a2 * 0.25, a1 * 0.125 + a3 * (1 / 6)
    inner_even, inner_odd = a0 * (23 / 48) - a2 * 0.25, a1 * 0.625 - a3 * 0.5
    weights = _shifted(outer_even - outer_odd, 1) + inner_even - inner_odd
    weights += _shifted(inner_even + inner_odd, -1) + _shifted(outer_even + outer_odd, -2)
    return spline(weights)


@triton.jit
def _spread(
    x_ptr, b_ptr, shift, slope, low, c, factor, units: tl.constexpr, NODES: tl.constexpr, MASS: tl.constexpr,
    C: tl.constexpr,
):  # fmt: skip
    """Masses on the nodes of units at slope (x - shift): each 1, if asked for, and each factor times what is at ``b_ptr``.

    The moments 1, f, f^2, f^3 of a cell make the masses of its nodes; the first is the one that rounding matters to.
    """
    HIGH: tl.constexpr = NODES // _LOW
    m0 = tl.zeros((HIGH, _LOW), tl.float32)
    m1 = tl.zeros((HIGH, _LOW), tl.float32)
    m2 = tl.zeros((HIGH, _LOW), tl.float32)
    m3 = tl.zeros((HIGH, _LOW), tl.float32)
    w0 = tl.zeros((HIGH, _LOW), tl.float32)
    w1 = tl.zeros((HIGH, _LOW), tl.float32)
    w2 = tl.zeros((HIGH, _LOW), tl.float32)
    w3 = tl.zeros((HIGH, _LOW), tl.float32)
    for start in range(0, units, 4 * C):
        n = start + tl.arange(0, C)
        h0, d0, f0 = _cells(x_ptr, n, shift, slope, low, c, units)
        h1, d1, f1 = _cells(x_ptr, n + C, shift, slope, low, c, units)
        h2, d2, f2 = _cells(x_ptr, n + 2 * C, shift, slope, low, c, units)
        h3, d3, f3 = _cells(x_ptr, n + 3 * C, shift, slope, low, c, units)
        H = _ones(h0, h1, h2, h3, HIGH)
        own = _ones(d0, d1, d2, d3, _LOW)
        if MASS:
            m0 = tl.dot(H, tl.trans(own), m0)
            m1 = _add(m1, H, own, f0, f1, f2, f3)
            m2 = _add(m2, H, own, f0 * f0, f1 * f1, f2 * f2, f3 * f3)
            m3 = _add(m3, H, own, f0 * f0 * f0, f1 * f1 * f1, f2 * f2 * f2, f3 * f3 * f3)
        b0 = factor * tl.load(b_ptr + n, mask=n < units, other=0.0)
        b1 = factor * tl.load(b_ptr + n + C, mask=n + C < units, other=0.0)
        b2 = factor * tl.load(b_ptr + n + 2 * C, mask=n + 2 * C < units, other=0.0)
        b3 = factor * tl.load(b_ptr + n + 3 * C, mask=n + 3 * C < units, other=0.0)
        w0 = _add(w0, H, own, b0, b1, b2, b3)
        w0 = _add(w0, H, own, _rest(b0), _rest(b1), _rest(b2), _rest(b3))
        b0, b1, b2, b3 = b0 * f0, b1 * f1, b2 * f2, b3 * f3
        w1 = _add(w1, H, own, b0, b1, b2, b3)
        b0, b1, b2, b3 = b0 * f0, b1 * f1, b2 * f2, b3 * f3
        w2 = _add(w2, H, own, b0, b1, b2, b3)
        b0, b1, b2, b3 = b0 * f0, b1 * f1, b2 * f2, b3 * f3
        w3 = _add(w3, H, own, b0, b1, b2, b3)
    B = _masses(w0, w1, w2, w3) * (1 / units)
    M = B
    if MASS:
        M = _masses(m0, m1, m2, m3) * (1 / units)
    return M, B


@triton.jit
def _cell(x, low, c, NODES: tl.constexpr):
    position = tl.minimum(tl.maximum((x - low) * (1 / c) + MARGIN, 1.0), NODES - 3.0)
    cell = position.to(tl.int32)
    return cell - 1, position - cell.to(tl.float32) - 0.5


@triton.jit
def _read(coefficients, first, f):
    """A spline at units, given the first of their four nodes and their offset in the cell."""
    square = f * f
    outer_even, outer_odd = 1 / 48 + square * 0.25, f * (0.125 + square * (1 / 6))
    inner_even, inner_odd = 23 / 48 - square * 0.25, f * (0.625 - square * 0.5)
    found = (outer_even - outer_odd) * tl.gather(coefficients, first, 0)
    found += (inner_even - inner_odd) * tl.gather(coefficients, first + 1, 0)
    found += (inner_even + inner_odd) * tl.gather(coefficients, first + 2, 0)
    return found + (outer_even + outer_odd) * tl.gather(coefficients, first + 3, 0)


@triton.jit
def _row(
    row, g_ptr, z_ptr, coupling_ptr, slope_ptr, v_ptr, work_ptr, d_coupling_ptr, d_slope_ptr, num_couplings, num_slopes,
    units: tl.constexpr, WITH_COUPLING: tl.constexpr, WITH_SLOPE: tl.constexpr, NODES: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """v with A v = g, and the gradients for coupling and slope, of one row; NaN if it is too wide for the nodes."""
    W: tl.constexpr = 4 * C
    g_ptr += row * units
    z_ptr += row * units
    v_ptr += row * units
    work_ptr += row * units
    coupling, slope = tl.load(coupling_ptr + row % num_couplings), tl.load(slope_ptr + row % num_slopes)
    kappa = coupling * slope
    origin = tl.load(z_ptr)
    totals = tl.zeros((W,), tl.float32)
    given = tl.zeros((W,), tl.float32)
    sizes = tl.zeros((W,), tl.float32)
    lows = tl.full((W,), float("inf"), tl.float32)
    highs = tl.full((W,), -float("inf"), tl.float32)
    for start in range(0, units, W):
        n = start + tl.arange(0, W)
        z = tl.load(z_ptr + n, mask=n < units, other=0.0)
        g = tl.load(g_ptr + n, mask=n < units, other=0.0)
        totals += tl.where(n < units, z - origin, 0.0)
        given += g
        sizes = tl.maximum(sizes, tl.abs(g))
        lows = tl.minimum(lows, tl.where(n < units, z, float("inf")))
        highs = tl.maximum(highs, tl.where(n < units, z, -float("inf")))
    total, low, high, largest = tl.sum(totals, 0), tl.min(lows, 0), tl.max(highs, 0), tl.max(sizes, 0)
    finite = (tl.abs(total) < float("inf")) & (tl.abs(tl.sum(given, 0)) < float("inf")) & (tl.abs(kappa) < float("inf"))
    middle = origin + total / units
    low = slope * (low - middle)
    high = slope * (high - middle)
    covered = holds(high - low, NODES)
    d_coupling, d_slope = 0.0, 0.0
    if finite & covered:
        c = tl.maximum(needed(high - low, NODES), 1e-30)
        largest = tl.maximum(largest, 1e-37)
        given_size = largest
        M, B = _spread(z_ptr, g_ptr, middle, slope, low, c, 1 / largest, units, NODES, True, C)
        slope_table, rest = halves(sech2(c))
        S = tl.maximum(sums(M, slope_table, rest), 0.0)
        slopes = spline(S)
        # Where the coupling is strong, 1/D varies faster than the grid can follow, and what is left is solved for again.
        strongest = kappa * tl.max(S, 0)
        rounds = tl.where(strongest > 0.5, 4, tl.where(strongest < -4, 2, 1))
        b_ptr = g_ptr
        V = tl.zeros((NODES,), tl.float32)
        turn = 0
        while turn < rounds:
            Y = smooth_part(B, M, S, kappa, slope_table, rest, 1e-5)
            V += largest * (B - kappa * M * Y) / (1 - kappa * S)
            pulls = spline(Y)
            for start in range(0, units, W):
                n = start + tl.arange(0, W)
                x = slope * (tl.load(z_ptr + n, mask=n < units, other=0.0) - middle)
                first, f = _cell(x, low, c, NODES)
                v = tl.load(b_ptr + n, mask=n < units, other=0.0) - largest * kappa * _read(pulls, first, f)
                v = v / (1 - kappa * _read(slopes, first, f))
                if turn > 0:
                    v += tl.load(v_ptr + n, mask=n < units, other=0.0)
                tl.store(v_ptr + n, v, mask=n < units)
            turn += 1
            if turn < rounds:
                tl.debug_barrier()
                # v is of the size of what was given, however little of that is left: in half precision it has to be about 1.
                size = given_size * rounds
                _, own = _spread(z_ptr, v_ptr, middle, slope, low, c, 1 / size, units, NODES, False, C)
                pulls = spline(sums(own, slope_table, rest))
                sizes = tl.zeros((W,), tl.float32)
                for start in range(0, units, W):
                    n = start + tl.arange(0, W)
                    x = slope * (tl.load(z_ptr + n, mask=n < units, other=0.0) - middle)
                    first, f = _cell(x, low, c, NODES)
                    v = tl.load(v_ptr + n, mask=n < units, other=0.0)
                    left = tl.load(g_ptr + n, mask=n < units, other=0.0) - size * kappa * _read(pulls, first, f)
                    left = left - v * (1 - kappa * _read(slopes, first, f))
                    tl.store(work_ptr + n, left, mask=n < units)
                    sizes = tl.maximum(sizes, tl.where(n < units, tl.abs(left), 0.0))
                tl.debug_barrier()
                b_ptr = work_ptr
                largest = tl.maximum(tl.max(sizes, 0), 1e-37)
                _, B = _spread(z_ptr, b_ptr, middle, slope, low, c, 1 / largest, units, NODES, False, C)
        # What overflowed on the way is seen here, and done again, also where nobody asks for this gradient.
        d_coupling = tl.sum(0 * V, 0)
        if WITH_COUPLING:
            d_coupling -= units * tl.sum(V * mean_tanh(M, c), 0)
        if WITH_SLOPE:
            table, left_over = halves(distances(c) * sech2(c))
            stretch = sums(M, table, left_over)
            d_slope = -units * coupling / slope * tl.sum(V * stretch, 0)
    else:
        for start in range(0, units, W):
            n = start + tl.arange(0, W)
            tl.store(v_ptr + n, tl.full((W,), float("nan"), tl.float32), mask=n < units)
        d_coupling = float("nan")
        d_slope = float("nan")
    tl.store(d_coupling_ptr + row, d_coupling)
    tl.store(d_slope_ptr + row, d_slope)


@triton.jit(do_not_specialize=["rows", "num_couplings", "num_slopes"])
def backward(
    g_ptr, z_ptr, coupling_ptr, slope_ptr, v_ptr, work_ptr, d_coupling_ptr, d_slope_ptr, rows, num_couplings, num_slopes,
    units: tl.constexpr, WITH_COUPLING: tl.constexpr, WITH_SLOPE: tl.constexpr,
    NODES: tl.constexpr, AGAIN: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """A row to a program; or again, those rows alone that an earlier launch, with fewer nodes, left NaN."""
    if AGAIN:
        r = looked_at()
        before = tl.load(d_coupling_ptr + r, mask=r < rows, other=0.0)
        is_open = before != before
        if any_of(is_open):
            for turn in range(TURNS):
                if has_turn(is_open, turn):
                    _row(
                        row_of(turn), g_ptr, z_ptr, coupling_ptr, slope_ptr, v_ptr, work_ptr, d_coupling_ptr,
                        d_slope_ptr, num_couplings, num_slopes, units, WITH_COUPLING, WITH_SLOPE, NODES, C,
                    )  # fmt: skip
    else:
        _row(
            tl.program_id(0).to(tl.int64), g_ptr, z_ptr, coupling_ptr, slope_ptr, v_ptr, work_ptr, d_coupling_ptr,
            d_slope_ptr, num_couplings, num_slopes, units, WITH_COUPLING, WITH_SLOPE, NODES, C,
        )  # fmt: skip
