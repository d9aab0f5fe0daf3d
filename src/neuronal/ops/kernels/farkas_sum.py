"""relu(close(x + h)), the end of a Farkas block with fixed multipliers, in one kernel per direction.

Forward, x and h are read once and y is written once; backward, the gradient of y and y itself are read once, and the one
gradient that belongs to x and to h alike is written once. A program has all channels of some positions in its registers,
so that what their sum decides needs no second look at them. Arithmetic is in float32, whatever is read and written.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from neuronal.ops.kernels.device import on_its_device
from neuronal.ops.kernels.farkas import order_of
from neuronal.ops.kernels.settled import settle

TILE, POSITIONS = 6144, 1024
"""Numbers a program of eight warps works on at a time, 24 a thread, and positions at most."""
PROGRAMS, TILES = 264, 4
"""Programs that share the gradient, at least: two for each of an H200's multiprocessors. And tiles each of them takes then,
so that its own sum for the biases is little beside them.
"""

# Note [Two tiles]: the channels are a power of two, HEAD, and what is left, in a tile of TAIL, where the closing one is the
# last. One tile of the next power of two would leave almost half of its threads idle for the 260, 520, 1,040 and 2,080
# channels of a FarkasNet50, and every access to it would have to ask where the channels end.
#
# Note [Order of memory]: channels last, all positions of all images are one image's. Otherwise a tile is within an image.


@triton.jit
def start_of(tile, blocks, positions, WIDTH, LAST: tl.constexpr, R: tl.constexpr):
    """Where a tile's first channel and position are; see Note [Order of memory]."""
    image, first = (tile // blocks).to(tl.int64), (tile % blocks).to(tl.int64) * R
    return first * WIDTH if LAST else image * WIDTH * positions + first


@triton.jit
def places(row, channel, positions, WIDTH, LAST: tl.constexpr):
    """Of channels at positions, from the start of a tile."""
    if LAST:
        return row * WIDTH + channel
    else:  # noqa: RET505 - decided when the kernel is compiled
        return channel.to(tl.int64) * positions + row


@triton.jit
def among(there, tail, COUNT: tl.constexpr, REACH: tl.constexpr):
    """Which of a tail's channels are among the first so many; nothing to ask if all that it reaches are."""
    if REACH <= COUNT:
        return there
    else:  # noqa: RET505 - decided when the kernel is compiled
        return there & (tail < COUNT)[None, :]


@triton.jit
def relu(y):
    """Not a maximum, which would make a number of what is none."""
    return tl.where(y <= 0.0, 0.0, y)


@triton.jit
def summed(skip, branch, place, inside):
    x, h = tl.load(skip + place, inside, other=0.0), tl.load(branch + place, inside, other=0.0)
    return x.to(tl.float32) + h.to(tl.float32)


@triton.jit
def _forward(
    skip, branch, offsets, last, result, positions, blocks, base, margin, cutoff,
    M: tl.constexpr, READ: tl.constexpr, LAST: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr, R: tl.constexpr,
    MAX: tl.constexpr,
):  # fmt: skip
    # M counts the free channels, READ those of skip and branch; a last one that is not free is read and left out.
    tile = tl.program_id(0)
    row, head, tail = tl.arange(0, R)[:, None], tl.arange(0, HEAD), HEAD + tl.arange(0, TAIL)
    there = row < positions - (tile % blocks).to(tl.int64) * R
    free = (tail < M)[None, :]
    start = start_of(tile, blocks, positions, READ, LAST, R)
    skip, branch = skip + start, branch + start
    z = summed(skip, branch, places(row, head[None, :], positions, READ, LAST), there)
    given = among(there, tail, READ, HEAD + TAIL)
    z_tail = tl.where(free, summed(skip, branch, places(row, tail[None, :], positions, READ, LAST), given), 0.0)
    b = tl.load(offsets + head).to(tl.float32)
    b_tail = tl.load(offsets + tail, tail < M, other=0.0).to(tl.float32)
    beta = tl.load(last).to(tl.float32)
    if MAX:
        reach = cutoff * (1.0 + base * M)
        slack = reach + relu(beta - reach + base * (tl.sum(b, 0) + tl.sum(b_tail, 0)))
    else:
        slack = tl.maximum(beta, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(beta))) + margin + cutoff * (1.0 + base * M)
    closing = slack - base * (tl.sum(b, 0) + tl.sum(b_tail, 0)) - base * (tl.sum(z, 1) + tl.sum(z_tail, 1))
    y = relu(z + b[None, :])
    y_tail = relu(tl.where(free, z_tail + b_tail[None, :], closing[:, None]))
    result += start_of(tile, blocks, positions, M + 1, LAST, R)
    tl.store(result + places(row, head[None, :], positions, M + 1, LAST), y, there)
    made = among(there, tail, M + 1, HEAD + TAIL)
    tl.store(result + places(row, tail[None, :], positions, M + 1, LAST), y_tail, made)


@triton.jit
def passed(g, result, place, inside):
    """The gradient where the ReLU lets it through."""
    given = tl.load(g + place, inside, other=0.0).to(tl.float32)
    return tl.where(tl.load(result + place, inside, other=0.0).to(tl.float32) <= 0.0, 0.0, given)


@triton.jit
def _backward(
    g, result, last, d_sum, sums, positions, blocks, tiles, base,
    M: tl.constexpr, READ: tl.constexpr, LAST: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr, R: tl.constexpr,
    MAX: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    row, head, tail, end = tl.arange(0, R), tl.arange(0, HEAD), HEAD + tl.arange(0, TAIL), tl.full((R,), M, tl.int32)
    free = (tail < M)[None, :]
    at_end = places(row, end, positions, M + 1, LAST)
    at_head = places(row[:, None], head[None, :], positions, M + 1, LAST)
    at_tail = places(row[:, None], tail[None, :], positions, M + 1, LAST)
    to_head = places(row[:, None], head[None, :], positions, READ, LAST)
    to_tail = places(row[:, None], tail[None, :], positions, READ, LAST)
    of_head, of_tail = tl.zeros((R, HEAD), tl.float32), tl.zeros((R, TAIL), tl.float32)
    for tile in range(program, tiles, programs):
        here = row < positions - (tile % blocks).to(tl.int64) * R
        there = here[:, None]
        start = start_of(tile, blocks, positions, M + 1, LAST, R)
        closing = base * passed(g + start, result + start, at_end, here)[:, None]
        d_head = passed(g + start, result + start, at_head, there) - closing
        made = among(there, tail, M + 1, HEAD + TAIL)
        d_tail = passed(g + start, result + start, at_tail, made)
        # A channel's bias has the same gradient as the channel, at all positions together.
        of_head += d_head
        of_tail += tl.where(free, d_tail - closing, d_tail)
        to = d_sum + start_of(tile, blocks, positions, READ, LAST, R)
        tl.store(to + to_head, d_head, there)
        tl.store(to + to_tail, tl.where(free, d_tail - closing, 0.0), among(there, tail, READ, HEAD + TAIL))
    sums += program.to(tl.int64) * (M + 1)
    slope = 1.0 if MAX else tl.sigmoid(tl.load(last).to(tl.float32))
    tl.store(sums + head, tl.sum(of_head, 0))
    tl.store(sums + tail, tl.sum(of_tail, 0) * tl.where(tail < M, 1.0, slope), tail <= M)


@on_its_device
def relu_of_closed_sum(
    x: Tensor, h: Tensor, offsets: Tensor, last: Tensor, base: float, margin: float, cutoff: float, is_max: bool = False
) -> Tensor:
    """Of channels that have an offset, and the one that closes them; another one, the last, is left out.

    ``is_max`` if ``last`` is the last bias where it is larger than what is needed, and not what it exceeds that by.
    """
    order, num_free, channels = order_of(x), len(offsets), x.shape[1]
    shape = (len(x), num_free + 1, *x.shape[2:])
    dtype = torch.promote_types(x.dtype, h.dtype)
    y = torch.empty(shape, device=x.device, dtype=dtype, memory_format=order)
    x, h = x.contiguous(memory_format=order), h.contiguous(memory_format=order)
    positions, blocks, tiles, cut = _cut(y)
    given = (x, h, offsets.contiguous(), last, y, positions, blocks, base, margin, cutoff)
    _forward[(tiles,)](*given, READ=channels, MAX=is_max, **cut)
    return y


@on_its_device
def gradients(
    y: Tensor, last: Tensor, g: Tensor, base: float, channels: int, is_larger: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """That of a sum of so many channels, of ``offsets`` and of ``last`` from that of the result ``y``.

    With ``is_max``, ``is_larger`` says whether ``last`` is larger than what is needed.
    """
    order, num_free = order_of(y), y.shape[1] - 1
    d = torch.empty((len(y), channels, *y.shape[2:]), device=y.device, dtype=y.dtype, memory_format=order)
    positions, blocks, tiles, cut = _cut(y)
    programs = min(tiles, max(PROGRAMS, tiles // TILES))
    sums = torch.empty((programs, num_free + 1), device=y.device, dtype=torch.float32)
    # What was kept for the gradient comes back in the order of those who kept it.
    g, y = g.contiguous(memory_format=order), y.contiguous(memory_format=order)
    given = (g, y, last, d, sums, positions, blocks, tiles, base)
    _backward[(programs,)](*given, READ=channels, MAX=is_larger is not None, **cut)
    # Added up by no chance order: the same every time.
    d_offsets, d_last = sums.sum(0).split([num_free, 1])
    if is_larger is None:
        return d, d_offsets, d_last.view(())
    # Then the offsets have no part in the last bias; else it has no part in anything.
    of_last = d_last * is_larger
    return d, d_offsets + base * of_last, of_last.view(())


def _cut(y: Tensor) -> tuple[int, int, int, dict[str, Any]]:
    """Positions of an image, tiles of one and of all, and what the kernels are compiled for."""
    images, channels, *sizes = y.shape
    positions = torch.Size(sizes).numel()
    # With one position, channels are last in any order.
    is_last = positions == 1 or order_of(y) == torch.channels_last
    if is_last:
        images, positions = 1, images * positions
    head = _below(channels)
    tail = triton.next_power_of_2(channels - head)
    # Where positions lie side by side, twice as many: memory gives no fewer than 32 bytes at once.
    warps = 8 if is_last else 16
    room = max(1, warps * TILE // 8 // (head + tail))
    rows = min(_below(room + 1), POSITIONS, triton.next_power_of_2(positions))
    blocks = triton.cdiv(positions, rows)
    cut = {"M": channels - 1, "LAST": is_last, "HEAD": head, "TAIL": tail, "R": rows, "num_warps": warps}
    return positions, blocks, images * blocks, cut


def _below(count: int) -> int:
    """The largest power of two below."""
    return 1 << ((count - 1).bit_length() - 1)


settle(globals())
