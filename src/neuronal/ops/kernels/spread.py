r"""From units to nodes and back, for several rows at once.

Nothing is scattered: with a cell number written in two digits, the moments of all cells are a product of two matrices of
zeros and ones, which is what a GPU does best. Reading is looking up the four coefficients of a cubic spline.
"""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.halves import apart, equal, pair, pinned_pair, times
from neuronal.ops.kernels.nodes import ALL, SIZE, to_lines
from neuronal.ops.kernels.tables import MARGIN

# A cell number is 8 times its first digit plus its second.
_LOW = tl.constexpr(8)


@triton.jit
def _turned(rows):
    """Of 16 rows, 4 i + j in the place of i + 4 j: where the units of a row are loaded and multiplied by the same warp."""
    ROWS: tl.constexpr = rows.shape[0]
    LENGTH: tl.constexpr = rows.numel // ROWS
    return tl.reshape(tl.permute(tl.reshape(rows, (4, ROWS // 4, LENGTH)), (1, 0, 2)), (ROWS, LENGTH))


@triton.jit
def _on_lines(pairs, LINES: tl.constexpr):
    """Pairs of units, on so many lines."""
    return tl.broadcast_to(_turned(pairs)[:, None, :], (pairs.shape[0], LINES, pairs.shape[1]))


@triton.jit
def _ones(digits, LINES: tl.constexpr):
    """1 on the line that the digit of a unit says."""
    line = tl.arange(0, LINES).to(tl.float32)
    lines = tl.broadcast_to(pair(line, line)[None, :, None], (digits.shape[0], LINES, digits.shape[1]))
    return equal(_on_lines(digits, LINES), lines)


@triton.jit
def _operand(left, right):
    """Two groups of pairs as units side by side; in whichever order, but always the same."""
    # Joined last, the parts are made where the product wants them.
    a, b = apart(left)
    c, d = apart(right)
    both = tl.join(tl.join(a, c), tl.join(b, d))
    return tl.reshape(both, (both.shape[0], both.shape[1], 4 * both.shape[2]))


@triton.jit
def _add(m, H, left, right, a, b, c, d):
    """Adds a value of every unit to its cell."""
    left, right = times(left, _on_lines(pinned_pair(a, b), _LOW)), times(right, _on_lines(pinned_pair(c, d), _LOW))
    return tl.dot(H, tl.permute(_operand(left, right), (0, 2, 1)), m)


@triton.jit
def units_of(ptr, at, n, there, units):
    return tl.load(ptr + at[:, None] + n[None, :], mask=there[:, None] & (n < units)[None, :], other=0.0)


@triton.jit
def look_up(nodes, node):
    """Of rows of nodes, those that are asked for in each."""
    ROWS: tl.constexpr = nodes.shape[0]
    row = nodes.shape[1] * tl.arange(0, ROWS)[:, None]
    row = tl.reshape(row, (ROWS,) + (1,) * (len(node.shape) - 1))
    # Of a vector, a GPU keeps the whole where all its threads see it.
    found = tl.gather(tl.reshape(nodes, (nodes.numel,)), tl.reshape(row + node, (node.numel,)), 0)
    return tl.reshape(found, node.shape)


@triton.jit
def _shifted(nodes, by: tl.constexpr):
    NODES: tl.constexpr = nodes.shape[1]
    node = tl.arange(0, NODES)[None, :] + by
    inside = (node >= 0) & (node < NODES)
    return tl.where(inside, look_up(nodes, tl.broadcast_to(tl.where(inside, node, 0), nodes.shape)), 0.0)


@triton.jit
def _weighed(m0, m1, m2, m3):
    """From moments of the cells to what B-splines weigh."""
    outer_even, outer_odd = m0 * (1 / 48) + m2 * 0.25, m1 * 0.125 + m3 * (1 / 6)
    inner_even, inner_odd = m0 * (23 / 48) - m2 * 0.25, m1 * 0.625 - m3 * 0.5
    found = _shifted(_turned(outer_even - outer_odd), 1)
    found += _turned(inner_even - inner_odd)
    found += _shifted(_turned(inner_even + inner_odd), -1)
    found += _shifted(_turned(outer_even + outer_odd), -2)
    return to_lines(found)


@triton.jit
def _cells(ptr, at, n, there, shift, slope, low, c, units):
    """First and second digit of the cells of units, none where there is no unit, and the offset from their middle."""
    x = slope[:, None] * (units_of(ptr, at, n, there, units) - shift[:, None])
    position = tl.where((n < units)[None, :], (x - low[:, None]) * (1 / c) + MARGIN, 2.0 * (ALL // low.shape[0]))
    cell = position.to(tl.int32)
    return (cell >> 3).to(tl.float32), (cell & 7).to(tl.float32), position - cell.to(tl.float32) - 0.5


@triton.jit
def shared(ptr, b_ptr, at, there, shift, slope, low, c, factor, units, WITH: tl.constexpr, W: tl.constexpr):
    """Masses of units at slope (x - shift), shared by the two nodes around each: 1/N, or that times factor b."""
    ROWS: tl.constexpr = at.shape[0]
    HIGH: tl.constexpr = ALL // ROWS // _LOW
    m0 = tl.zeros((ROWS, HIGH, _LOW), tl.float32)
    m1 = tl.zeros((ROWS, HIGH, _LOW), tl.float32)
    start = 0
    while start < units:
        n0 = start + tl.arange(0, W)
        n1, n2, n3 = n0 + W, n0 + 2 * W, n0 + 3 * W
        h0, d0, f0 = _cells(ptr, at, n0, there, shift, slope, low, c, units)
        h1, d1, f1 = _cells(ptr, at, n1, there, shift, slope, low, c, units)
        h2, d2, f2 = _cells(ptr, at, n2, there, shift, slope, low, c, units)
        h3, d3, f3 = _cells(ptr, at, n3, there, shift, slope, low, c, units)
        H = _operand(_ones(pinned_pair(h0, h1), HIGH), _ones(pinned_pair(h2, h3), HIGH))
        left, right = _ones(pinned_pair(d0, d1), _LOW), _ones(pinned_pair(d2, d3), _LOW)
        if WITH:
            b0 = factor[:, None] * units_of(b_ptr, at, n0, there, units)
            b1 = factor[:, None] * units_of(b_ptr, at, n1, there, units)
            b2 = factor[:, None] * units_of(b_ptr, at, n2, there, units)
            b3 = factor[:, None] * units_of(b_ptr, at, n3, there, units)
            m0 = _add(m0, H, left, right, b0, b1, b2, b3)
            m1 = _add(m1, H, left, right, b0 * f0, b1 * f1, b2 * f2, b3 * f3)
        else:
            m0 = tl.dot(H, tl.permute(_operand(left, right), (0, 2, 1)), m0)
            m1 = _add(m1, H, left, right, f0, f1, f2, f3)
        start += 4 * W
    found = _turned(0.5 * m0 - m1)
    return to_lines(found + _shifted(_turned(0.5 * m0 + m1), -1)) * (SIZE / units)


@triton.jit
def weighed(ptr, at, there, shift, slope, low, c, units, W: tl.constexpr):
    """What the units weigh in the sense of B-splines, each 1/N.

    The moments 1, f, f^2, f^3 of a cell make it; the first is the one that rounding matters to.
    """
    ROWS: tl.constexpr = at.shape[0]
    HIGH: tl.constexpr = ALL // ROWS // _LOW
    m0 = tl.zeros((ROWS, HIGH, _LOW), tl.float32)
    m1 = tl.zeros((ROWS, HIGH, _LOW), tl.float32)
    m2 = tl.zeros((ROWS, HIGH, _LOW), tl.float32)
    m3 = tl.zeros((ROWS, HIGH, _LOW), tl.float32)
    start = 0
    while start < units:
        n = start + tl.arange(0, W)
        h0, d0, f0 = _cells(ptr, at, n, there, shift, slope, low, c, units)
        h1, d1, f1 = _cells(ptr, at, n + W, there, shift, slope, low, c, units)
        h2, d2, f2 = _cells(ptr, at, n + 2 * W, there, shift, slope, low, c, units)
        h3, d3, f3 = _cells(ptr, at, n + 3 * W, there, shift, slope, low, c, units)
        H = _operand(_ones(pinned_pair(h0, h1), HIGH), _ones(pinned_pair(h2, h3), HIGH))
        left, right = _ones(pinned_pair(d0, d1), _LOW), _ones(pinned_pair(d2, d3), _LOW)
        m0 = tl.dot(H, tl.permute(_operand(left, right), (0, 2, 1)), m0)
        m1 = _add(m1, H, left, right, f0, f1, f2, f3)
        m2 = _add(m2, H, left, right, f0 * f0, f1 * f1, f2 * f2, f3 * f3)
        m3 = _add(m3, H, left, right, f0 * f0 * f0, f1 * f1 * f1, f2 * f2 * f2, f3 * f3 * f3)
        start += 4 * W
    return _weighed(m0, m1, m2, m3) * (SIZE / units)


@triton.jit
def cell_of(x, low, c):
    """The first of the four nodes around a unit, and its offset from the middle of its cell."""
    position = tl.minimum(tl.maximum((x - low[:, None]) * (1 / c) + MARGIN, 1.0), ALL // low.shape[0] - 3.0)
    cell = position.to(tl.int32)
    return cell - 1, position - cell.to(tl.float32) - 0.5


@triton.jit
def read(spline, first, f):
    """A spline at units."""
    square = f * f
    outer_even, outer_odd = 1 / 48 + square * 0.25, f * (0.125 + square * (1 / 6))
    inner_even, inner_odd = 23 / 48 - square * 0.25, f * (0.625 - square * 0.5)
    # All four at a time: the nodes are moved to where they can be looked up once for each question.
    ends, middle = tl.split(look_up(spline, tl.join(tl.join(first, first + 3), tl.join(first + 1, first + 2))))
    a, d = tl.split(ends)
    b, c = tl.split(middle)
    found = (outer_even - outer_odd) * a + (inner_even - inner_odd) * b
    return found + (inner_even + inner_odd) * c + (outer_even + outer_odd) * d


@triton.jit
def between(pairs, first, f):
    """Two functions, as pairs on the nodes, linearly between them."""
    left, right = tl.split(look_up(pairs, tl.join(first + 1, first + 2)))
    a, b = apart(left)
    c, d = apart(right)
    found = (0.5 - f) * a.to(tl.float32) + (0.5 + f) * c.to(tl.float32)
    return found, (0.5 - f) * b.to(tl.float32) + (0.5 + f) * d.to(tl.float32)
