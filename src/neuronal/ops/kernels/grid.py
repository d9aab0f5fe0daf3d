r"""Rows of coupled units on a GPU, one row to a program: sums over all units by way of 256 nodes that stay on chip.

Units give their masses to the nodes of a uniform grid as in :mod:`neuronal.ops.grid`, here with cubic splines, whose
error is an eighth of that of polynomials through four nodes (:data:`_ERROR`). Nothing is scattered: with a cell number
written in two digits, the moments of all cells are a product of two matrices of zeros and ones, which is what a GPU does
best. Sums over the nodes are products with tables too; units look up their four nodes.
"""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.interval import UNIT, interval, remainder, shrinkage, steps_for

# Inline assembly is for the GPU alone.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
# Nodes in all; those at either end that units stay away from, since a spline's inverse reaches so far.
_NODES = tl.constexpr(256)
_MARGIN = tl.constexpr(8)
_CELLS = tl.constexpr(238.0)
# A cell number is 8 times its first digit plus its second.
_HIGH = tl.constexpr(32)
_LOW = tl.constexpr(8)
# Sums over nodes are taken for blocks of nodes with windows around them; beyond so many nodes to a side, tanh is 1.
_BLOCK = tl.constexpr(16)
_BLOCKS = tl.constexpr(16)
_SIDE = tl.constexpr(56)
_WINDOW = tl.constexpr(128)
_REACH = tl.constexpr(8)
# A spline's coefficients are sums over the nodes near by.
_NEARBY = tl.constexpr(8)
_NEAR = tl.constexpr(32)
# Half precision has its digits for numbers of about this size.
_SIZE = tl.constexpr(64.0)
# The inverse of (1, 4, 1) / 6 up to the fourth power of the second difference: 1 - d/6 + d^2/36 - ...
_TAP0 = tl.constexpr(1.646604938)
_TAP1 = tl.constexpr(-0.390432099)
_TAP2 = tl.constexpr(0.0771604938)
_TAP3 = tl.constexpr(-0.0108024691)
_TAP4 = tl.constexpr(7.71604938e-4)
_COARSEST = tl.constexpr(0.5)
_FINEST = tl.constexpr(0.14)
_TRIES = tl.constexpr(8)


@triton.jit
def _error(c):
    """Bound on the error of a mean tanh: that of splines of spacing c, of moments in half precision, of the tables' end."""
    fourth = c * c * c * c
    return 0.025 * fourth * (1 + 32 * fourth) + 1.3e-4 * c + 4e-6


@triton.jit
def _spacing(width):
    """The grid that holds a row of that width; of a narrow row the table holds all pairs."""
    return tl.maximum(tl.maximum(width / _CELLS, tl.minimum(_FINEST, width / 48)), 1e-30)


@triton.jit
def _lower(pair):
    return pair.to(tl.int16).to(tl.float16, bitcast=True)


@triton.jit
def _upper(pair):
    return (pair >> 16).to(tl.int16).to(tl.float16, bitcast=True)


@triton.jit
def _windows(nodes, SIDE: tl.constexpr, WINDOW: tl.constexpr):
    """Blocks of nodes in half precision with what is to their sides; four nodes are one number to look up."""
    even, odd = tl.split(tl.reshape(nodes.to(tl.int16, bitcast=True).to(tl.int64) & 0xFFFF, (_NODES // 4, 2, 2)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    words = first | (second << 16) | (third << 32) | (fourth << 48)
    flat = tl.arange(0, _BLOCKS * WINDOW // 4)
    word = (flat // (WINDOW // 4)) * (_BLOCK // 4) + flat % (WINDOW // 4) - SIDE // 4
    inside = (word >= 0) & (word < _NODES // 4)
    found = tl.where(inside, tl.gather(words, tl.where(inside, word, 0), 0), 0)
    found = tl.reshape(found, (_BLOCKS, WINDOW // 4))
    left, right = found.to(tl.int32), (found >> 32).to(tl.int32)
    return _four(_lower(left), _lower(right), _upper(left), _upper(right))


@triton.jit
def _product(nodes, table, rest, EXACT: tl.constexpr, SIDE: tl.constexpr, WINDOW: tl.constexpr):
    """Sums over nodes, with a table and what is left of it in half precision."""
    nodes = _SIZE * nodes
    rounded = nodes.to(tl.float16)
    windows = _windows(rounded, SIDE, WINDOW)
    found = tl.dot(windows, table)
    if EXACT:
        found = tl.dot(windows, rest, found)
        found = tl.dot(_windows((nodes - rounded.to(tl.float32)).to(tl.float16), SIDE, WINDOW), table, found)
    return tl.reshape(found, (_NODES,)) * (1 / _SIZE)


@triton.jit
def _sums(nodes, table, rest, EXACT: tl.constexpr):
    """Sums of a kernel over the nodes, the tables being those of :func:`_table`."""
    if EXACT:
        # Three products of blocks and tables before anything is moved.
        nodes = _SIZE * nodes
        rounded = nodes.to(tl.float16)
        blocks = tl.reshape(rounded, (_BLOCKS, _BLOCK))
        parts = tl.dot(blocks, rest, tl.dot(blocks, table))
        left = (nodes - rounded.to(tl.float32)).to(tl.float16)
        parts = tl.dot(tl.reshape(left, (_BLOCKS, _BLOCK)), table, parts)
        flat = tl.arange(0, _REACH * _NODES)
        which, node = flat // _NODES, flat % _NODES
        source = node // _BLOCK + which - _REACH // 2
        inside = (source >= 0) & (source < _BLOCKS)
        index = tl.where(inside, source, 0) * (_REACH * _BLOCK) + which * _BLOCK + node % _BLOCK
        values = tl.gather(tl.reshape(parts, (_BLOCKS * _REACH * _BLOCK,)), index, 0)
        found = tl.sum(tl.reshape(tl.where(inside, values, 0.0), (_REACH, _NODES)), 0) * (1 / _SIZE)
    else:
        found = _product(nodes, table, rest, False, _SIDE, _WINDOW)
    return found


@triton.jit
def _table(kernel, EXACT: tl.constexpr):
    """A kernel, given at differences of -128 to 127 nodes, between the nodes of a block and those around it."""
    if EXACT:
        flat = tl.arange(0, _BLOCK * _REACH * _BLOCK)
        seen = flat % (_REACH * _BLOCK)
        difference = _BLOCK * (seen // _BLOCK - _REACH // 2) + flat // (_REACH * _BLOCK) - seen % _BLOCK
        table = tl.reshape(tl.gather(kernel, difference + _NODES // 2, 0), (_BLOCK, _REACH * _BLOCK))
    else:
        flat = tl.arange(0, _WINDOW * _BLOCK)
        difference = flat // _BLOCK - _SIDE - flat % _BLOCK
        table = tl.reshape(tl.gather(kernel, difference + _NODES // 2, 0), (_WINDOW, _BLOCK))
    return table


@triton.jit
def _halves(kernel, EXACT: tl.constexpr):
    """A table in half precision, and what is left of it."""
    rounded = kernel.to(tl.float16)
    return _table(rounded, EXACT), _table((kernel - rounded.to(tl.float32)).to(tl.float16), EXACT)


@triton.jit
def _distances(c):
    return c * (tl.arange(0, _NODES) - _NODES // 2).to(tl.float32)


@triton.jit
def _tanh(c):
    return 1 - 2 / (1 + tl.exp(2 * tl.minimum(_distances(c), 40.0)))


@triton.jit
def _sech2(c):
    tanh = _tanh(c)
    return 1 - tanh * tanh


@triton.jit
def _mean_tanh(masses, c, EXACT: tl.constexpr):
    """Mean tanh at the nodes: near by from the table, further off all or nothing."""
    table, rest = _halves(_tanh(c), EXACT)
    near = _sums(masses, table, rest, EXACT)
    before = tl.cumsum(masses, 0)
    block = tl.arange(0, _NODES) // _BLOCK * _BLOCK
    if EXACT:
        left, right = block - _BLOCK * (_REACH // 2) - 1, block + _BLOCK * (_REACH // 2) - 1
    else:
        left, right = block - _SIDE - 1, block - _SIDE + _WINDOW - 1
    lefts = tl.where(left >= 0, tl.gather(before, tl.maximum(left, 0), 0), 0.0)
    rights = tl.gather(before, tl.minimum(right, _NODES - 1), 0)
    return near + (tl.sum(masses, 0) - rights) - lefts


@triton.jit
def _spline(nodes, EXACT: tl.constexpr):
    """Coefficients of the cubic spline through the nodes: the inverse of its values there, as a series in differences."""
    if EXACT:
        k = tl.arange(0, 8)[:, None]
        offset = tl.where(k < 4, k - 4, k - 3)
        node = tl.arange(0, _NODES)[None, :] + offset
        inside = (node >= 0) & (node < _NODES)
        values = tl.gather(nodes, tl.reshape(tl.where(inside, node, 0), (8 * _NODES,)), 0)
        taps = tl.where(inside, _taps(tl.abs(offset)) * tl.reshape(values, (8, _NODES)), 0.0)
        found = _TAP0 * nodes + tl.sum(taps, 0)
    else:
        found = _spline_product(nodes)
    return found


@triton.jit
def _taps(far):
    tap = tl.where(far == 0, _TAP0, tl.where(far == 1, _TAP1, tl.where(far == 2, _TAP2, 0.0)))
    return tl.where(far == 3, _TAP3, tl.where(far == 4, _TAP4, tap))


@triton.jit
def _spline_product(nodes):
    """The same by a product of matrices, which needs more registers and less time."""
    far = tl.abs(tl.arange(0, _NEAR)[:, None] - _NEARBY - tl.arange(0, _BLOCK)[None, :])
    tap = _taps(far)
    table = tap.to(tl.float16)
    return _product(nodes, table, (tap - table.to(tl.float32)).to(tl.float16), True, _NEARBY, _NEAR)


@triton.jit
def _cells(x_ptr, n, shift, slope, low, c, units: tl.constexpr):
    """First and second digit of the cells of units, none where there is no unit, and the offset from their middle."""
    position = (slope * (tl.load(x_ptr + n, mask=n < units, other=0.0) - shift) - low) * (1 / c) + _MARGIN
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
    node = tl.arange(0, _NODES) + by
    inside = (node >= 0) & (node < _NODES)
    return tl.where(inside, tl.gather(nodes, tl.where(inside, node, 0), 0), 0.0)


@triton.jit
def _masses(m0, m1, m2, m3, EXACT: tl.constexpr):
    """From moments of the cells to masses of the nodes."""
    a0, a1 = tl.reshape(m0, (_NODES,)), tl.reshape(m1, (_NODES,))
    a2, a3 = tl.reshape(m2, (_NODES,)), tl.reshape(m3, (_NODES,))
    outer_even, outer_odd = a0 * (1 / 48) + a2 * 0.25, a1 * 0.125 + a3 * (1 / 6)
    inner_even, inner_odd = a0 * (23 / 48) - a2 * 0.25, a1 * 0.625 - a3 * 0.5
    spline = _shifted(outer_even - outer_odd, 1) + inner_even - inner_odd
    spline += _shifted(inner_even + inner_odd, -1) + _shifted(outer_even + outer_odd, -2)
    return _spline(spline, EXACT)


@triton.jit
def _spread(
    x_ptr, b_ptr, shift, slope, low, c, factor,
    units: tl.constexpr, MASS: tl.constexpr, WITH: tl.constexpr, EXACT: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Masses on the nodes of units at slope (x - shift): each 1, and each factor times what is at ``b_ptr``.

    The moments 1, f, f^2, f^3 of a cell make the masses of its nodes; the first is the one that rounding matters to.
    """
    m0 = tl.zeros((_HIGH, _LOW), tl.float32)
    m1 = tl.zeros((_HIGH, _LOW), tl.float32)
    m2 = tl.zeros((_HIGH, _LOW), tl.float32)
    m3 = tl.zeros((_HIGH, _LOW), tl.float32)
    w0 = tl.zeros((_HIGH, _LOW), tl.float32)
    w1 = tl.zeros((_HIGH, _LOW), tl.float32)
    w2 = tl.zeros((_HIGH, _LOW), tl.float32)
    w3 = tl.zeros((_HIGH, _LOW), tl.float32)
    for start in range(0, units, 4 * C):
        n = start + tl.arange(0, C)
        h0, d0, f0 = _cells(x_ptr, n, shift, slope, low, c, units)
        h1, d1, f1 = _cells(x_ptr, n + C, shift, slope, low, c, units)
        h2, d2, f2 = _cells(x_ptr, n + 2 * C, shift, slope, low, c, units)
        h3, d3, f3 = _cells(x_ptr, n + 3 * C, shift, slope, low, c, units)
        H = _ones(h0, h1, h2, h3, _HIGH)
        own = _ones(d0, d1, d2, d3, _LOW)
        if MASS:
            m0 = tl.dot(H, tl.trans(own), m0)
            m1 = _add(m1, H, own, f0, f1, f2, f3)
            m2 = _add(m2, H, own, f0 * f0, f1 * f1, f2 * f2, f3 * f3)
            m3 = _add(m3, H, own, f0 * f0 * f0, f1 * f1 * f1, f2 * f2 * f2, f3 * f3 * f3)
        if WITH:
            b0 = factor * tl.load(b_ptr + n, mask=n < units, other=0.0)
            b1 = factor * tl.load(b_ptr + n + C, mask=n + C < units, other=0.0)
            b2 = factor * tl.load(b_ptr + n + 2 * C, mask=n + 2 * C < units, other=0.0)
            b3 = factor * tl.load(b_ptr + n + 3 * C, mask=n + 3 * C < units, other=0.0)
            w0 = _add(w0, H, own, b0, b1, b2, b3)
            if EXACT:
                w0 = _add(w0, H, own, _rest(b0), _rest(b1), _rest(b2), _rest(b3))
            b0, b1, b2, b3 = b0 * f0, b1 * f1, b2 * f2, b3 * f3
            w1 = _add(w1, H, own, b0, b1, b2, b3)
            b0, b1, b2, b3 = b0 * f0, b1 * f1, b2 * f2, b3 * f3
            w2 = _add(w2, H, own, b0, b1, b2, b3)
            b0, b1, b2, b3 = b0 * f0, b1 * f1, b2 * f2, b3 * f3
            w3 = _add(w3, H, own, b0, b1, b2, b3)
    M, B = w0, w0
    if MASS:
        M = _masses(m0, m1, m2, m3, EXACT) * (1 / units)
    if WITH:
        B = _masses(w0, w1, w2, w3, EXACT) * (1 / units)
    return M, B


@triton.jit
def _cell(x, low, c):
    position = tl.minimum(tl.maximum((x - low) * (1 / c) + _MARGIN, 1.0), _NODES - 3.0)
    cell = position.to(tl.int32)
    return cell - 1, position - cell.to(tl.float32) - 0.5


@triton.jit
def _read(spline, first, f):
    """A spline at units, given the first of their four nodes and their offset in the cell."""
    square = f * f
    outer_even, outer_odd = 1 / 48 + square * 0.25, f * (0.125 + square * (1 / 6))
    inner_even, inner_odd = 23 / 48 - square * 0.25, f * (0.625 - square * 0.5)
    found = (outer_even - outer_odd) * tl.gather(spline, first, 0)
    found += (inner_even - inner_odd) * tl.gather(spline, first + 1, 0)
    found += (inner_even + inner_odd) * tl.gather(spline, first + 2, 0)
    return found + (outer_even + outer_odd) * tl.gather(spline, first + 3, 0)


@triton.jit
def _smooth_part(B, M, S, kappa, table, rest, relative, EXACT: tl.constexpr):
    """Y = K v on the nodes, v solving D v + kappa K v = b, given ``b`` spread; see :meth:`neuronal.ops.field.Field`."""
    strength = kappa * S
    middle, half = interval(tl.min(strength, 0), tl.max(strength, 0))
    count = steps_for(middle, half, relative)
    weight = 1 / (1 - strength)
    left = _sums(B * weight, table, rest, EXACT)
    weight = weight * M * kappa
    d = left / middle
    Y = d
    rate = half / middle
    while count > 1:
        left -= d + _sums(weight * d, table, rest, EXACT)
        new = 1 / (2 * middle / half - rate)
        d = new * rate * d + (2 * new / half) * left
        rate = new
        Y += d
        count -= 1
    return Y


@triton.jit
def _first_step(
    a_ptr, z_ptr, middle, slope, kappa, s, low, high, lowest, highest, units: tl.constexpr, C: tl.constexpr
):  # fmt: skip
    """A Newton step from s times the target, with units counted at their nearest nodes; extremes of where it leads."""
    W: tl.constexpr = 4 * C
    c = _spacing(high - low)
    counts = tl.zeros((_NODES,), tl.int32)
    for start in range(0, units, W):
        n = start + tl.arange(0, W)
        x = s * slope * (tl.load(a_ptr + n, mask=n < units, other=0.0) - middle)
        counts += tl.histogram(((x - low) * (1 / c) + (_MARGIN + 0.5)).to(tl.int32), _NODES, mask=n < units)
    M = counts.to(tl.float32) * (1 / units)
    sech2 = _table(_sech2(c).to(tl.float16), False)
    H = _mean_tanh(M, c, False)
    S = tl.maximum(_sums(M, sech2, sech2, False), 0.0)
    nodes = low + c * (tl.arange(0, _NODES) - _MARGIN).to(tl.float32)
    F = nodes * (1 - 1 / s) + kappa * H
    Y = _smooth_part(M * F, M, S, kappa, sech2, sech2, 1e-2, False)
    change = _spline((F - kappa * Y) / (1 - kappa * S), False)
    lows = tl.zeros((W,), tl.float32) + highest
    highs = tl.zeros((W,), tl.float32) + lowest
    for start in range(0, units, W):
        n = start + tl.arange(0, W)
        x = s * slope * (tl.load(a_ptr + n, mask=n < units, other=0.0) - middle)
        first, f = _cell(x, low, c)
        x = tl.minimum(tl.maximum(x - _read(change, first, f), lowest), highest)
        tl.store(z_ptr + n, x, mask=n < units)
        lows = tl.minimum(lows, tl.where(n < units, x, highest))
        highs = tl.maximum(highs, tl.where(n < units, x, lowest))
    return tl.min(lows, 0), tl.max(highs, 0)


@triton.jit(do_not_specialize=["num_couplings", "num_slopes"])
def forward(
    a_ptr, coupling_ptr, slope_ptr, z_ptr, work_ptr, residual_ptr, steps_ptr,
    num_couplings, num_slopes, tolerance, max_steps, units: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Solves one row by Newton's method; the residual of one that is too wide for the nodes is infinite.

    Row r has coupling r % num_couplings and slope r % num_slopes. The solution is left in ``work_ptr`` too.
    """
    W: tl.constexpr = 4 * C
    row = tl.program_id(0).to(tl.int64)
    a_ptr += row * units
    z_ptr += row * units
    work_ptr += row * units
    coupling, slope = tl.load(coupling_ptr + row % num_couplings), tl.load(slope_ptr + row % num_slopes)
    kappa = coupling * slope
    origin = tl.load(a_ptr)
    totals = tl.zeros((W,), tl.float32)
    squares = tl.zeros((W,), tl.float32)
    lows = tl.full((W,), float("inf"), tl.float32)
    highs = tl.full((W,), -float("inf"), tl.float32)
    for start in range(0, units, W):
        n = start + tl.arange(0, W)
        a = tl.load(a_ptr + n, mask=n < units, other=0.0)
        off = tl.where(n < units, a - origin, 0.0)
        totals += off
        squares += off * off
        lows = tl.minimum(lows, tl.where(n < units, a, float("inf")))
        highs = tl.maximum(highs, tl.where(n < units, a, -float("inf")))
    total, low, high = tl.sum(totals, 0), tl.min(lows, 0), tl.max(highs, 0)
    # What has no numbers, or would overflow on the way, is NaN; there is another kernel to look at it.
    finite = (tl.abs(total) < float("inf")) & (tl.abs(kappa) < float("inf")) & (slope * (high - low) < 1e15)
    mean = total / units
    middle = origin + mean
    scale = slope * tl.maximum(tl.maximum(tl.abs(low), tl.abs(high)), 1.0)
    lowest, highest = slope * (low - middle), slope * (high - middle)
    s = shrinkage(kappa, slope * slope * tl.maximum(tl.sum(squares, 0) / units - mean * mean, 0.0))
    goal = tolerance * (1 - 8 * UNIT)
    # What rounding the answer to float32 can do to the equation.
    rounding = UNIT * (4 + 4 * tl.abs(kappa)) * (tl.maximum(-lowest, highest) + slope * tl.abs(middle)) / scale
    residual, steps = 0.0, 0
    trivial = (kappa == 0) | (low == high)
    if finite & (trivial == 0):
        reach = tl.maximum(kappa, 0.0)
        lowest -= reach
        highest += reach
        ends = (s * slope * (low - middle), s * slope * (high - middle))
        least, most = _first_step(a_ptr, z_ptr, middle, slope, kappa, s, ends[0], ends[1], lowest, highest, units, C)
        steps = 1
        residual = float("inf")
        before = float("inf")
        going = tl.maximum(most - least, s * (highest - lowest)) / _CELLS <= _COARSEST
        while going:
            tl.debug_barrier()
            c = _spacing(most - least)
            error = tl.abs(kappa) * _error(c)
            M, _ = _spread(z_ptr, z_ptr, 0.0, 1.0, least, c, 1.0, units, True, False, False, C)
            means = _spline(_mean_tanh(M, c, True), False)
            misses = tl.zeros((W,), tl.float32)
            sizes = tl.zeros((W,), tl.float32)
            for start in range(0, units, W):
                n = start + tl.arange(0, W)
                x = tl.load(z_ptr + n, mask=n < units, other=0.0)
                t = slope * (tl.load(a_ptr + n, mask=n < units, other=0.0) - middle)
                first, f = _cell(x, least, c)
                F = tl.where(n < units, x - t + kappa * _read(means, first, f), 0.0)
                tl.store(work_ptr + n, F, mask=n < units)
                misses = tl.maximum(misses, tl.abs(F))
                sizes += F * F
            miss, size = tl.max(misses, 0), tl.sum(sizes, 0)
            residual = (miss + error) / scale + rounding
            going = (residual > goal) & (steps < max_steps) & (steps < _TRIES) & (size < before)
            if going:
                tl.debug_barrier()
                before = size
                sech2 = _table(_sech2(c).to(tl.float16), False)
                S = tl.maximum(_sums(M, sech2, sech2, False), 0.0)
                steepest = tl.max(S, 0)
                slopes = _spline(S, False)
                _, B = _spread(z_ptr, work_ptr, 0.0, 1.0, least, c, 1 / miss, units, False, True, False, C)
                Y = _smooth_part(B, M, S, kappa, sech2, sech2, 1e-3, False)
                pulls = _spline(Y, False)
                changes = tl.zeros((W,), tl.float32)
                lows = tl.zeros((W,), tl.float32) + highest
                highs = tl.zeros((W,), tl.float32) + lowest
                for start in range(0, units, W):
                    n = start + tl.arange(0, W)
                    x = tl.load(z_ptr + n, mask=n < units, other=0.0)
                    F = tl.load(work_ptr + n, mask=n < units, other=0.0)
                    first, f = _cell(x, least, c)
                    change = (F - miss * kappa * _read(pulls, first, f)) / (1 - kappa * _read(slopes, first, f))
                    changes = tl.maximum(changes, tl.where(n < units, tl.abs(change), 0.0))
                    x = tl.minimum(tl.maximum(x - change, lowest), highest)
                    tl.store(z_ptr + n, x, mask=n < units)
                    lows = tl.minimum(lows, tl.where(n < units, x, highest))
                    highs = tl.maximum(highs, tl.where(n < units, x, lowest))
                least, most, changed = tl.min(lows, 0), tl.max(highs, 0), tl.max(changes, 0)
                steps += 1
                # After a small step there is nothing left to look at.
                promised = (
                    2e-3 * miss + remainder(kappa, 1.05 * steepest + 1e-3, changed) + error * (1 + 4 * changed / c)
                )
                promised = promised / scale + rounding
                if promised <= goal:
                    residual = promised
                    going = False
        tl.debug_barrier()
    for start in range(0, units, W):
        n = start + tl.arange(0, W)
        a = tl.load(a_ptr + n, mask=n < units, other=0.0)
        if steps > 0:
            a = tl.load(z_ptr + n, mask=n < units, other=0.0) * (1 / slope) + middle
        z = tl.where(finite, a, float("nan"))
        tl.store(z_ptr + n, z, mask=n < units)
        tl.store(work_ptr + n, z, mask=n < units)
    # What overflowed on the way is no number.
    residual = tl.where(residual < 1e30, residual * (1 + 4 * UNIT), float("inf"))
    tl.store(residual_ptr + row, tl.where(finite, residual, float("nan")))
    tl.store(steps_ptr + row, steps)


@triton.jit(do_not_specialize=["num_couplings", "num_slopes"])
def backward(
    g_ptr, z_ptr, coupling_ptr, slope_ptr, v_ptr, work_ptr, d_coupling_ptr, d_slope_ptr, num_couplings, num_slopes,
    units: tl.constexpr, WITH_COUPLING: tl.constexpr, WITH_SLOPE: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """v with A v = g, and the gradients for coupling and slope, of one row; NaN if it is too wide for the nodes."""
    W: tl.constexpr = 4 * C
    row = tl.program_id(0).to(tl.int64)
    g_ptr += row * units
    z_ptr += row * units
    v_ptr += row * units
    work_ptr += row * units
    coupling, slope = tl.load(coupling_ptr + row % num_couplings), tl.load(slope_ptr + row % num_slopes)
    kappa = coupling * slope
    origin = tl.load(z_ptr)
    totals = tl.zeros((W,), tl.float32)
    sums = tl.zeros((W,), tl.float32)
    sizes = tl.zeros((W,), tl.float32)
    lows = tl.full((W,), float("inf"), tl.float32)
    highs = tl.full((W,), -float("inf"), tl.float32)
    for start in range(0, units, W):
        n = start + tl.arange(0, W)
        z = tl.load(z_ptr + n, mask=n < units, other=0.0)
        g = tl.load(g_ptr + n, mask=n < units, other=0.0)
        totals += tl.where(n < units, z - origin, 0.0)
        sums += g
        sizes = tl.maximum(sizes, tl.abs(g))
        lows = tl.minimum(lows, tl.where(n < units, z, float("inf")))
        highs = tl.maximum(highs, tl.where(n < units, z, -float("inf")))
    total, low, high, largest = tl.sum(totals, 0), tl.min(lows, 0), tl.max(highs, 0), tl.max(sizes, 0)
    finite = (tl.abs(total) < float("inf")) & (tl.abs(tl.sum(sums, 0)) < float("inf")) & (tl.abs(kappa) < float("inf"))
    middle = origin + total / units
    low = slope * (low - middle)
    high = slope * (high - middle)
    covered = (high - low) / _CELLS <= _COARSEST
    d_coupling, d_slope = 0.0, 0.0
    if finite & covered:
        c = _spacing(high - low)
        largest = tl.maximum(largest, 1e-37)
        M, B = _spread(z_ptr, g_ptr, middle, slope, low, c, 1 / largest, units, True, True, True, C)
        sech2, rest = _halves(_sech2(c), True)
        S = tl.maximum(_sums(M, sech2, rest, True), 0.0)
        slopes = _spline(S, True)
        # Where the coupling is strong, 1/D varies faster than the grid can follow, and what is left is solved for again.
        strongest = kappa * tl.max(S, 0)
        rounds = tl.where(strongest > 0.5, 4, tl.where(strongest < -4, 2, 1))
        b_ptr = g_ptr
        V = tl.zeros((_NODES,), tl.float32)
        turn = 0
        while turn < rounds:
            Y = _smooth_part(B, M, S, kappa, sech2, rest, 1e-5, True)
            V += largest * (B - kappa * M * Y) / (1 - kappa * S)
            pulls = _spline(Y, True)
            for start in range(0, units, W):
                n = start + tl.arange(0, W)
                x = slope * (tl.load(z_ptr + n, mask=n < units, other=0.0) - middle)
                first, f = _cell(x, low, c)
                v = tl.load(b_ptr + n, mask=n < units, other=0.0) - largest * kappa * _read(pulls, first, f)
                v = v / (1 - kappa * _read(slopes, first, f))
                if turn > 0:
                    v += tl.load(v_ptr + n, mask=n < units, other=0.0)
                tl.store(v_ptr + n, v, mask=n < units)
            turn += 1
            if turn < rounds:
                tl.debug_barrier()
                size = largest * rounds
                _, own = _spread(z_ptr, v_ptr, middle, slope, low, c, 1 / size, units, False, True, True, C)
                pulls = _spline(_sums(own, sech2, rest, True), True)
                sizes = tl.zeros((W,), tl.float32)
                for start in range(0, units, W):
                    n = start + tl.arange(0, W)
                    x = slope * (tl.load(z_ptr + n, mask=n < units, other=0.0) - middle)
                    first, f = _cell(x, low, c)
                    v = tl.load(v_ptr + n, mask=n < units, other=0.0)
                    left = tl.load(g_ptr + n, mask=n < units, other=0.0) - size * kappa * _read(pulls, first, f)
                    left = left - v * (1 - kappa * _read(slopes, first, f))
                    tl.store(work_ptr + n, left, mask=n < units)
                    sizes = tl.maximum(sizes, tl.where(n < units, tl.abs(left), 0.0))
                tl.debug_barrier()
                b_ptr = work_ptr
                largest = tl.maximum(tl.max(sizes, 0), 1e-37)
                _, B = _spread(z_ptr, b_ptr, middle, slope, low, c, 1 / largest, units, False, True, True, C)
        if WITH_COUPLING:
            d_coupling = -units * tl.sum(V * _mean_tanh(M, c, True), 0)
        if WITH_SLOPE:
            table, left_over = _halves(_distances(c) * _sech2(c), True)
            stretch = _sums(M, table, left_over, True)
            d_slope = -units * coupling / slope * tl.sum(V * stretch, 0)
    else:
        for start in range(0, units, W):
            n = start + tl.arange(0, W)
            tl.store(v_ptr + n, tl.full((W,), float("nan"), tl.float32), mask=n < units)
        d_coupling = float("nan")
        d_slope = float("nan")
    tl.store(d_coupling_ptr + row, d_coupling)
    tl.store(d_slope_ptr + row, d_slope)
