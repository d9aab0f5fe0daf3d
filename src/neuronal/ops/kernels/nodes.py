r"""Functions on the nodes of several rows at once: sums over them by products with tables, and the linear system on them.

What belongs to nodes is ``(64, 64)``: lines of 64 nodes, the first chunk of all rows, then the second, and so on; 4 chunks
of 16 rows, or 16 chunks of 4. So a line's neighbours are as many lines away as there are rows, and a sum over the nodes of
all rows is three products of 64 by 64 matrices.
"""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.device_functions import interval, steps_for
from neuronal.ops.kernels.halves import apart, pair, reciprocal
from neuronal.ops.kernels.tables import CHUNK, MARGIN, PART

LINES = tl.constexpr(64)
# Nodes of all rows of a program.
ALL = tl.constexpr(64 * 64)
# What is for the compiler alone is not done by the interpreter.
_INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)
# Masses are so many times as large as they are said to be, and so are sums over them: half precision has its digits there.
SIZE = tl.constexpr(64.0)


@triton.jit
def on_lines(of_rows):
    """A number per row, at all its lines."""
    ROWS: tl.constexpr = of_rows.shape[0]
    return tl.reshape(tl.broadcast_to(of_rows[None, :], (LINES // ROWS, ROWS)), (LINES,))[:, None]


@triton.jit
def row_max(nodes, ROWS: tl.constexpr):
    return tl.max(tl.reshape(tl.max(nodes, 1), (LINES // ROWS, ROWS)), 0)


@triton.jit
def row_min(nodes, ROWS: tl.constexpr):
    return tl.min(tl.reshape(tl.min(nodes, 1), (LINES // ROWS, ROWS)), 0)


@triton.jit
def to_lines(nodes):
    """From rows of nodes to lines of 64."""
    ROWS: tl.constexpr = nodes.shape[0]
    CHUNKS: tl.constexpr = LINES // ROWS
    return tl.reshape(tl.permute(tl.reshape(nodes, (ROWS, CHUNKS, CHUNK)), (1, 0, 2)), (LINES, CHUNK))


@triton.jit
def to_rows(nodes, ROWS: tl.constexpr):
    """From lines of 64 nodes to rows."""
    CHUNKS: tl.constexpr = LINES // ROWS
    return tl.reshape(tl.permute(tl.reshape(nodes, (CHUNKS, ROWS, CHUNK)), (1, 0, 2)), (ROWS, ALL // ROWS))


@triton.jit
def positions(low, c):
    """Where the nodes are, given where the lowest unit of every row is."""
    line = tl.arange(0, LINES)[:, None]
    node = line // low.shape[0] * CHUNK + tl.arange(0, CHUNK)[None, :] - MARGIN
    return on_lines(low) + c * node.to(tl.float32)


@triton.jit
def _halved(chunks):
    """Every other along the last axis, and those between them."""
    return tl.split(tl.reshape(chunks, (chunks.shape[0], chunks.shape[1] // 2, 2)))


@triton.jit
def _rebuilt(chunks):
    """The same, put together from its parts: where they come from does not bind the compiler."""
    if _INTERPRETED:
        return chunks
    even, odd = _halved(chunks)
    if chunks.shape[1] > 2:
        even, odd = _rebuilt(even), _rebuilt(odd)
    return tl.reshape(tl.join(even, odd), chunks.shape)


@triton.jit
def _before(chunks):
    """Along the last axis what is before each, nothing before the first: what is even moves to odd places."""
    even, odd = _halved(chunks)
    if chunks.shape[1] > 2:
        even, odd = _rebuilt(even), _before(odd)
    else:
        odd = tl.zeros_like(odd)
    return tl.reshape(tl.join(odd, even), chunks.shape)


@triton.jit
def _after(chunks):
    """What is after each, nothing after the last."""
    even, odd = _halved(chunks)
    if chunks.shape[1] > 2:
        even, odd = _after(even), _rebuilt(odd)
    else:
        even = tl.zeros_like(even)
    return tl.reshape(tl.join(odd, even), chunks.shape)


@triton.jit
def _whole(chunks):
    """Lines, given the chunks of all rows, as pairs of nodes."""
    first, second = apart(tl.reshape(tl.trans(chunks), (LINES, CHUNK // 2)))
    return tl.reshape(tl.join(first, second), (LINES, CHUNK))


@triton.jit
def _beside(nodes, ROWS: tl.constexpr):
    """In half precision, the chunk before every line and the one after it, nothing where there is none."""
    # Two nodes are moved as one number.
    first, second = tl.split(tl.reshape(nodes, (LINES, CHUNK // 2, 2)))
    chunks = tl.trans(tl.reshape(pair(first, second), (LINES // ROWS, ROWS * (CHUNK // 2))))
    return _whole(_before(chunks)), _whole(_after(chunks))


@triton.jit
def _part(table_ptr, which: tl.constexpr):
    k, n = tl.arange(0, CHUNK)[:, None], tl.arange(0, CHUNK)[None, :]
    return tl.load(table_ptr + (which * CHUNK * CHUNK) + k * CHUNK + n)


@triton.jit
def _times_table(nodes, first, own, last, onto, ROWS: tl.constexpr):
    before, after = _beside(nodes, ROWS)
    found = tl.dot(before, first, onto)
    found = tl.dot(nodes.to(tl.float16), own, found)
    return tl.dot(after, last, found)


@triton.jit
def product(nodes, table_ptr, ROWS: tl.constexpr, EXACT: tl.constexpr = False):
    """Sums over all nodes of the rows times a table; the numbers should be of about the size 1."""
    first, own, last = _part(table_ptr, 0), _part(table_ptr, 1), _part(table_ptr, 2)
    found = _times_table(nodes, first, own, last, tl.zeros((LINES, CHUNK), tl.float32), ROWS)
    if EXACT:
        found = _times_table(nodes - nodes.to(tl.float16).to(tl.float32), first, own, last, found, ROWS)
        table_ptr += PART
        found = _times_table(nodes, _part(table_ptr, 0), _part(table_ptr, 1), _part(table_ptr, 2), found, ROWS)
    return found


@triton.jit
def product_of_tanh(masses, table_ptr, ROWS: tl.constexpr, EXACT: tl.constexpr = False):
    """The same with a table of tanh, which is 1 beyond the next chunk, and -1 before the last."""
    CHUNKS: tl.constexpr = LINES // ROWS
    chunks = tl.reshape(tl.sum(masses, 1), (CHUNKS, ROWS))
    chunk = tl.arange(0, CHUNKS)
    distance = chunk[None, :, None] - chunk[:, None, None]
    sign = tl.where(distance > 1, 1.0, tl.where(distance < -1, -1.0, 0.0))
    far = tl.reshape(tl.sum(sign * chunks[None, :, :], 1), (LINES,))
    return product(masses, table_ptr, ROWS, EXACT) + far[:, None]


@triton.jit
def smooth_part(B, M, S, kappa, active, table_ptr, relative):
    """Y = K v on the nodes, v solving D v + kappa K v = b, given ``b`` spread; see :meth:`neuronal.ops.field.Field`."""
    ROWS: tl.constexpr = kappa.shape[0]
    strength = on_lines(kappa) * S
    middle, half = interval(row_min(strength, ROWS), row_max(strength, ROWS))
    count = tl.max(tl.where(active, steps_for(middle, half, relative), 1), 0)
    middle, half = on_lines(middle), on_lines(half)
    weight = reciprocal(1 - strength)
    left = product(B * weight, table_ptr, ROWS)
    weight *= M * on_lines(-kappa)
    d = left / middle
    Y = d
    rate = half / middle
    # The table stays where products find it.
    first, own, last = _part(table_ptr, 0), _part(table_ptr, 1), _part(table_ptr, 2)
    while count > 1:
        left = _times_table(weight * d, first, own, last, left - d, ROWS)
        new = 1 / (2 * middle / half - rate)
        d = new * rate * d + (2 * new / half) * left
        rate = new
        Y += d
        count -= 1
    return Y
