r"""Tables of tanh and its derivatives between the nodes of uniform grids, for a few spacings, made once per device.

The nodes of a row are cut into chunks of 64. A table holds a function of the difference between the nodes of a chunk and
those of the chunk before it, itself and the next, in half precision, and what that leaves. Spacings are powers of
:math:`2^{1/8}`, so a row's grid is at most that much coarser than it had to be.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from neuronal.ops.kernels.device_functions import UNIT

# Nodes before the first unit of a row, as a spline's inverse reaches so far; and all that are more than the cells of units.
MARGIN = tl.constexpr(8)
_SPARE = tl.constexpr(18.0)
CHUNK = tl.constexpr(64)
# Spacings: the finest of wide rows, and of rows that a chunk holds; and beyond which one the error is too large.
FINEST = tl.constexpr(0.14)
LEAST = tl.constexpr(0.035)
COARSEST = tl.constexpr(0.5)
PER_OCTAVE = tl.constexpr(8)
SPACINGS = tl.constexpr(32)
# Cells of a row that one chunk holds, with all the pairs of its units in one table.
_FEW_CELLS = tl.constexpr(48.0)

# The tables of a spacing. Applied to what units weigh on the nodes:
TANH = tl.constexpr(0)
SECH2 = tl.constexpr(1)
# From values at the nodes to the coefficients of the cubic spline through them, and the same for masses:
INVERSE = tl.constexpr(2)
# From what B-splines weigh to the coefficients of the spline of mean tanh:
TANH_SPLINE = tl.constexpr(3)
KINDS = tl.constexpr(4)
# Numbers in a table, and in its half of rounded ones.
PART = tl.constexpr(3 * 64 * 64)
TABLE = tl.constexpr(2 * 3 * 64 * 64)

# The inverse of (1, 4, 1) / 6 up to the fourth power of the second difference: 1 - d/6 + d^2/36 - ...
TAPS = (1.646604938, -0.390432099, 0.0771604938, -0.0108024691, 7.71604938e-4)


@triton.jit
def error(c, NODES: tl.constexpr):
    """Bound on the error of a mean tanh.

    That of splines of spacing c, of moments in half precision, of places among so many nodes, and of the tables' end.
    """
    fourth = c * c * c * c
    return 0.025 * fourth * (1 + 32 * fourth) + (1e-4 + 2 * UNIT * NODES) * c + 4e-6


@triton.jit
def holds(width, NODES: tl.constexpr):
    """Whether so many nodes are enough for a row of that width."""
    return width / (NODES - _SPARE) <= COARSEST


@triton.jit
def needed(width, NODES: tl.constexpr):
    """The spacing that holds a row of that width; of a narrow row one chunk holds all units."""
    return tl.maximum(width / (NODES - _SPARE), tl.minimum(FINEST, width / _FEW_CELLS))


@triton.jit
def spacing_index(least):
    """Which spacing is at least that."""
    place = PER_OCTAVE * tl.log2(tl.maximum(least, LEAST) * (1 / LEAST)) - 1e-4
    # Rounded up by hand: the interpreter of Triton 3.9 does not know tl.ceil.
    below = place.to(tl.int32)
    return tl.minimum(below + (place > below).to(tl.int32), SPACINGS - 1)


@lru_cache(maxsize=16)
def tables(device: torch.device) -> tuple[Tensor, Tensor]:
    """The spacings, and all tables: ``(spacing, kind, rounded or rest, chunk before to after, from, to)``."""
    # Made in a thread of its own, whose memory lasts: while torch.compile warms up a CUDA graph, what the calling thread
    # allocates belongs to that graph. Inference mode stays behind, too.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_tables, device).result()


def _tables(device: torch.device) -> tuple[Tensor, Tensor]:
    spacings = (LEAST.value * 2.0 ** (torch.arange(SPACINGS.value, dtype=torch.float64) / PER_OCTAVE.value)).float()
    found = torch.stack([_of_spacing(c) for c in spacings.double()])
    rounded = found.half()
    both = torch.stack([rounded, (found - rounded.double()).half()], 2)
    return spacings.to(device), both.to(device)


def _of_spacing(c: Tensor) -> Tensor:
    steps = torch.arange(-192, 193, dtype=torch.float64)
    tanh = (c * steps).tanh()
    inverse = torch.zeros_like(steps)
    for far, tap in enumerate(TAPS):
        inverse[192 + far] = inverse[192 - far] = tap
    kinds = (tanh, 1 - tanh.square(), inverse, _twice(tanh))
    source = torch.arange(3 * CHUNK.value).view(3, CHUNK.value, 1) - CHUNK.value
    return torch.stack([kind[192 + source - torch.arange(CHUNK.value)] for kind in kinds])


def _twice(kernel: Tensor) -> Tensor:
    """With the inverse of splines on both sides; at the ends, which no table has, it stays as it is."""
    taps = torch.tensor([*TAPS[:0:-1], *TAPS], dtype=torch.float64).view(1, 1, -1)
    once = torch.nn.functional.conv1d(kernel.view(1, 1, -1), taps, padding=len(TAPS) - 1)
    twice = torch.nn.functional.conv1d(once, taps, padding=len(TAPS) - 1).flatten()
    ends = 2 * len(TAPS)
    return torch.cat([kernel[:ends], twice[ends:-ends], kernel[-ends:]])
