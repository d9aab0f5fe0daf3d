r"""Sums over the nodes of one row, which stay on chip, with tables that are made where they are needed."""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.device_functions import interval, steps_for

# Sums are taken for blocks of nodes; beyond half so many blocks to a side, tanh is 1.
_BLOCK = tl.constexpr(16)
_REACH = tl.constexpr(8)
# Differences of nodes that kernels are given at: -128 to 127.
_SEEN = tl.constexpr(256)
# Half precision has its digits for numbers of about this size.
_SIZE = tl.constexpr(64.0)
# Those of :data:`neuronal.ops.kernels.tables.TAPS`.
_TAP0 = tl.constexpr(1.646604938)
_TAP1 = tl.constexpr(-0.390432099)
_TAP2 = tl.constexpr(0.0771604938)
_TAP3 = tl.constexpr(-0.0108024691)
_TAP4 = tl.constexpr(7.71604938e-4)


@triton.jit
def sums(nodes, table, rest):
    """Sums of a kernel over the nodes, with a table and what is left of it in half precision."""
    NODES: tl.constexpr = nodes.shape[0]
    BLOCKS: tl.constexpr = NODES // _BLOCK
    # Three products of blocks and tables before anything is moved.
    nodes = _SIZE * nodes
    rounded = nodes.to(tl.float16)
    blocks = tl.reshape(rounded, (BLOCKS, _BLOCK))
    parts = tl.dot(blocks, rest, tl.dot(blocks, table))
    left = (nodes - rounded.to(tl.float32)).to(tl.float16)
    parts = tl.dot(tl.reshape(left, (BLOCKS, _BLOCK)), table, parts)
    flat = tl.arange(0, _REACH * NODES)
    which, node = flat // NODES, flat % NODES
    source = node // _BLOCK + which - _REACH // 2
    inside = (source >= 0) & (source < BLOCKS)
    index = tl.where(inside, source, 0) * (_REACH * _BLOCK) + which * _BLOCK + node % _BLOCK
    values = tl.gather(tl.reshape(parts, (BLOCKS * _REACH * _BLOCK,)), index, 0)
    return tl.sum(tl.reshape(tl.where(inside, values, 0.0), (_REACH, NODES)), 0) * (1 / _SIZE)


@triton.jit
def _table(kernel):
    """A kernel between the nodes of a block and those around it."""
    flat = tl.arange(0, _BLOCK * _REACH * _BLOCK)
    seen = flat % (_REACH * _BLOCK)
    difference = _BLOCK * (seen // _BLOCK - _REACH // 2) + flat // (_REACH * _BLOCK) - seen % _BLOCK
    return tl.reshape(tl.gather(kernel, difference + _SEEN // 2, 0), (_BLOCK, _REACH * _BLOCK))


@triton.jit
def halves(kernel):
    """A table in half precision, and what is left of it."""
    rounded = kernel.to(tl.float16)
    return _table(rounded), _table((kernel - rounded.to(tl.float32)).to(tl.float16))


@triton.jit
def distances(c):
    return c * (tl.arange(0, _SEEN) - _SEEN // 2).to(tl.float32)


@triton.jit
def _tanh(c):
    return 1 - 2 / (1 + tl.exp(2 * tl.minimum(distances(c), 40.0)))


@triton.jit
def sech2(c):
    tanh = _tanh(c)
    return 1 - tanh * tanh


@triton.jit
def mean_tanh(masses, c):
    """Mean tanh at the nodes: near by from the table, further off all or nothing."""
    NODES: tl.constexpr = masses.shape[0]
    table, rest = halves(_tanh(c))
    near = sums(masses, table, rest)
    before = tl.cumsum(masses, 0)
    block = tl.arange(0, NODES) // _BLOCK * _BLOCK
    left, right = block - _BLOCK * (_REACH // 2) - 1, block + _BLOCK * (_REACH // 2) - 1
    lefts = tl.where(left >= 0, tl.gather(before, tl.maximum(left, 0), 0), 0.0)
    rights = tl.gather(before, tl.minimum(right, NODES - 1), 0)
    return near + (tl.sum(masses, 0) - rights) - lefts


@triton.jit
def spline(nodes):
    """Coefficients of the cubic spline through the nodes: the inverse of its values there, as a series in differences."""
    NODES: tl.constexpr = nodes.shape[0]
    k = tl.arange(0, 8)[:, None]
    offset = tl.where(k < 4, k - 4, k - 3)
    node = tl.arange(0, NODES)[None, :] + offset
    inside = (node >= 0) & (node < NODES)
    values = tl.gather(nodes, tl.reshape(tl.where(inside, node, 0), (8 * NODES,)), 0)
    taps = tl.where(inside, _taps(tl.abs(offset)) * tl.reshape(values, (8, NODES)), 0.0)
    return _TAP0 * nodes + tl.sum(taps, 0)


@triton.jit
def _taps(far):
    tap = tl.where(far == 0, _TAP0, tl.where(far == 1, _TAP1, tl.where(far == 2, _TAP2, 0.0)))
    return tl.where(far == 3, _TAP3, tl.where(far == 4, _TAP4, tap))


@triton.jit
def smooth_part(B, M, S, kappa, table, rest, relative):
    """Y = K v on the nodes, v solving D v + kappa K v = b, given ``b`` spread; see :meth:`neuronal.ops.field.Field`."""
    strength = kappa * S
    middle, half = interval(tl.min(strength, 0), tl.max(strength, 0))
    count = steps_for(middle, half, relative)
    weight = 1 / (1 - strength)
    left = sums(B * weight, table, rest)
    weight = weight * M * kappa
    d = left / middle
    Y = d
    rate = half / middle
    while count > 1:
        left -= d + sums(weight * d, table, rest)
        new = 1 / (2 * middle / half - rate)
        d = new * rate * d + (2 * new / half) * left
        rate = new
        Y += d
        count -= 1
    return Y
