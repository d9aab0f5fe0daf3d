r"""Functions on the nodes of 16 rows at once: sums over them by products with tables, and the linear system on them.

What belongs to nodes is ``(64, 64)``: lines of 64 nodes, the first chunk of all 16 rows, then the second, and so on. So a
line's neighbours are 16 lines away, and a sum over the nodes of all rows is three products of 64 by 64 matrices.
"""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.halves import apart, pair, reciprocal
from neuronal.ops.kernels.interval import interval, steps_for
from neuronal.ops.kernels.tables import CHUNK, CHUNKS, MARGIN, NODES, PART

ROWS = tl.constexpr(16)
LINES = tl.constexpr(64)
# Masses are so many times as large as they are said to be, and so are sums over them: half precision has its digits there.
SIZE = tl.constexpr(64.0)


@triton.jit
def on_lines(of_rows):
    """A number per row, at all its lines."""
    return tl.reshape(tl.broadcast_to(of_rows[None, :], (CHUNKS, ROWS)), (LINES,))[:, None]


@triton.jit
def row_max(nodes):
    return tl.max(tl.reshape(tl.max(nodes, 1), (CHUNKS, ROWS)), 0)


@triton.jit
def row_min(nodes):
    return tl.min(tl.reshape(tl.min(nodes, 1), (CHUNKS, ROWS)), 0)


@triton.jit
def to_lines(nodes):
    """From rows of 256 nodes to lines of 64."""
    return tl.reshape(tl.permute(tl.reshape(nodes, (ROWS, CHUNKS, CHUNK)), (1, 0, 2)), (LINES, CHUNK))


@triton.jit
def to_rows(nodes):
    """From lines of 64 nodes to rows of 256."""
    return tl.reshape(tl.permute(tl.reshape(nodes, (CHUNKS, ROWS, CHUNK)), (1, 0, 2)), (ROWS, NODES))


@triton.jit
def positions(low, c):
    """Where the nodes are, given where the lowest unit of every row is."""
    line = tl.arange(0, LINES)[:, None]
    node = line // ROWS * CHUNK + tl.arange(0, CHUNK)[None, :] - MARGIN
    return on_lines(low) + c * node.to(tl.float32)


@triton.jit
def _chunks(a, b, c, d):
    """Lines, given the four chunks of all rows, as pairs of nodes."""
    both = tl.join(tl.join(a, c), tl.join(b, d))
    first, second = apart(tl.reshape(tl.permute(both, (2, 3, 0, 1)), (LINES, CHUNK // 2)))
    return tl.reshape(tl.join(first, second), (LINES, CHUNK))


@triton.jit
def _beside(nodes):
    """In half precision, the chunk before every line and the one after it, nothing where there is none."""
    # Two nodes are moved as one number.
    first, second = tl.split(tl.reshape(nodes, (LINES, CHUNK // 2, 2)))
    pairs = tl.reshape(pair(first, second), (2, 2, ROWS, CHUNK // 2))
    even, odd = tl.split(tl.permute(pairs, (2, 3, 0, 1)))
    a, c = tl.split(even)
    b, d = tl.split(odd)
    none = tl.zeros_like(a)
    return _chunks(none, a, b, c), _chunks(b, c, d, none)


@triton.jit
def _part(table_ptr, which: tl.constexpr):
    k, n = tl.arange(0, CHUNK)[:, None], tl.arange(0, CHUNK)[None, :]
    return tl.load(table_ptr + (which * CHUNK * CHUNK) + k * CHUNK + n)


@triton.jit
def _times_table(nodes, first, own, last, onto):
    before, after = _beside(nodes)
    found = tl.dot(before, first, onto)
    found = tl.dot(nodes.to(tl.float16), own, found)
    return tl.dot(after, last, found)


@triton.jit
def product(nodes, table_ptr, EXACT: tl.constexpr):
    """Sums over all nodes of the rows times a table; the numbers should be of about the size 1."""
    first, own, last = _part(table_ptr, 0), _part(table_ptr, 1), _part(table_ptr, 2)
    found = _times_table(nodes, first, own, last, tl.zeros((LINES, CHUNK), tl.float32))
    if EXACT:
        found = _times_table(nodes - nodes.to(tl.float16).to(tl.float32), first, own, last, found)
        table_ptr += PART
        found = _times_table(nodes, _part(table_ptr, 0), _part(table_ptr, 1), _part(table_ptr, 2), found)
    return found


@triton.jit
def product_of_tanh(masses, table_ptr, EXACT: tl.constexpr):
    """The same with a table of tanh, which is 1 beyond the next chunk, and -1 before the last."""
    chunks = tl.reshape(tl.sum(masses, 1), (CHUNKS, ROWS))
    chunk = tl.arange(0, CHUNKS)
    distance = chunk[None, :, None] - chunk[:, None, None]
    sign = tl.where(distance > 1, 1.0, tl.where(distance < -1, -1.0, 0.0))
    far = tl.reshape(tl.sum(sign * chunks[None, :, :], 1), (LINES,))
    return product(masses, table_ptr, EXACT) + far[:, None]


@triton.jit
def smooth_part(B, M, S, kappa, active, table_ptr, relative):
    """Y = K v on the nodes, v solving D v + kappa K v = b, given ``b`` spread; see :meth:`neuronal.ops.field.Field`."""
    strength = on_lines(kappa) * S
    middle, half = interval(row_min(strength), row_max(strength))
    count = tl.max(tl.where(active, steps_for(middle, half, relative), 1), 0)
    middle, half = on_lines(middle), on_lines(half)
    weight = reciprocal(1 - strength)
    left = product(B * weight, table_ptr, False)
    weight *= M * on_lines(-kappa)
    d = left / middle
    Y = d
    rate = half / middle
    # The table stays where products find it.
    first, own, last = _part(table_ptr, 0), _part(table_ptr, 1), _part(table_ptr, 2)
    while count > 1:
        left = _times_table(weight * d, first, own, last, left - d)
        new = 1 / (2 * middle / half - rate)
        d = new * rate * d + (2 * new / half) * left
        rate = new
        Y += d
        count -= 1
    return Y
