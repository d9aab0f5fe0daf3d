r"""The mean coupling of a unit to all units of its row on a GPU, and its gradient: pair by pair, on chip.

With :math:`u_{ik} = e^{p(z_k - z_i)}` and :math:`q = 1 / (1 + u^2)` the tanh of a difference is :math:`1 - 2q` and its
derivative :math:`4 q (1 - q)`. In a narrow row :math:`u` is a product of what the two units have by themselves, so that N^2
pairs take N exponentials; in another every pair has its own. Nothing of size N^2 is ever in memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from neuronal.ops.kernels.device import on_its_device
from neuronal.ops.kernels.halves import reciprocal
from neuronal.ops.kernels.settled import settle

# Slope times distance from the middle up to which e^(p (z - middle)) and its inverse are numbers with all their digits.
_NARROW = tl.constexpr(80.0)
# Beyond it q is as good as 0, and up to it the product of two 1 / q is a number.
_MOST = tl.constexpr(1e9)
# A derivative below it is none.
_LEAST = tl.constexpr(1e-34)
# Other units that are looked at together; a thread sums over these by itself.
_K = tl.constexpr(16)


@triton.jit
def _shape(z_ptr, slope, units, W: tl.constexpr):
    """Whether a row is narrow, its middle, and 0; in the place of 0 NaN, and not narrow, if it has anything but numbers."""
    low, high = tl.full((W,), float("inf"), tl.float32), tl.full((W,), -float("inf"), tl.float32)
    nothing = tl.zeros((W,), tl.float32)
    for start in range(0, units, W):
        z = tl.load(z_ptr + tl.minimum(start + tl.arange(0, W), units - 1))
        low, high, nothing = tl.minimum(low, z), tl.maximum(high, z), nothing + 0 * z
    least, most, none = tl.min(low, 0), tl.max(high, 0), tl.sum(nothing, 0) + 0 * slope
    # Of huge numbers the middle is rounded, and not in the middle.
    middle = least / 2 + most / 2
    return tl.abs(slope) * tl.maximum(most - middle, middle - least) + none <= _NARROW, middle, none


@triton.jit
def _inverses(z_ptr, e_ptr, slope, middle, i, units, length, W: tl.constexpr):
    """e^(-p (z - middle)) of own units of a narrow row; writes its inverse of all units, and infinity behind the last.

    All programs of a row write the same numbers to the same place, and none reads before it has written.
    """
    rate = 1.4426950408889634 * slope.to(tl.float64)
    for start in range(0, length, W):
        n = start + tl.arange(0, W)
        # An exponent of 80 is good to 4e-6 in float32, and so would the mean be.
        y = (tl.load(z_ptr + n, n < units, other=0.0).to(tl.float64) - middle) * rate
        head = y.to(tl.float32)
        e = tl.exp2(head)
        e += e * (0.6931471805599453 * (y - head).to(tl.float32))
        tl.store(e_ptr + n, tl.where(n < units, e, float("inf")), n < length)
    tl.debug_barrier()
    return 1 / tl.load(e_ptr + i, i < units, other=1.0)


@triton.jit
def _product(e_ptr, k, inverse):
    """u of other units, down, with own ones, across, in a narrow row; infinite behind the last unit."""
    return tl.load(e_ptr + k)[:, None] * inverse[None, :]


@triton.jit
def _exponential(z_ptr, k, own, slope, units):
    """The same in any row."""
    return tl.where((k < units)[:, None], tl.exp(slope * _apart(z_ptr, k, own, units)), float("inf"))


@triton.jit
def _apart(ptr, k, own, units):
    return tl.load(ptr + k, k < units, other=0.0)[:, None] - own[None, :]


@triton.jit
def _both(u, v):
    """q of one pair plus q of another, by one division."""
    u, v = tl.minimum(u, _MOST), tl.minimum(v, _MOST)
    s, t = 1 + u * u, 1 + v * v
    return (s + t) * reciprocal(s * t)


@triton.jit
def _quarter(u):
    """A quarter of the derivative."""
    q = reciprocal(1 + u * u)
    return q - q * q


@triton.jit
def _forward(z_ptr, slope_ptr, e_ptr, mean_ptr, units, length, B: tl.constexpr, W: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    z_ptr, e_ptr, slope = z_ptr + row * units, e_ptr + row * length, tl.load(slope_ptr + row)
    i = tl.program_id(1) * B + tl.arange(0, B)
    total = tl.zeros((B,), tl.float32)
    narrow, middle, nothing = _shape(z_ptr, slope, units, W)
    if narrow:
        inverse = _inverses(z_ptr, e_ptr, slope, middle, i, units, length, W)
        for start in range(0, length, 2 * _K):
            k = start + tl.arange(0, _K)
            total += tl.sum(_both(_product(e_ptr, k, inverse), _product(e_ptr, k + _K, inverse)), 0)
    else:
        own = tl.load(z_ptr + i, i < units, other=0.0)
        for start in range(0, units, 2 * _K):
            k = start + tl.arange(0, _K)
            u, v = _exponential(z_ptr, k, own, slope, units), _exponential(z_ptr, k + _K, own, slope, units)
            total += tl.sum(_both(u, v), 0)
    tl.store(mean_ptr + row * units + i, 1 - 2 * total / units + nothing, i < units)


@triton.jit
def _backward(
    g_ptr, z_ptr, slope_ptr, e_ptr, d_z_ptr, d_slope_ptr,
    units, length, blocks, WITH_SLOPE: tl.constexpr, B: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    g_ptr, z_ptr, e_ptr, slope = (
        g_ptr + row * units,
        z_ptr + row * units,
        e_ptr + row * length,
        tl.load(slope_ptr + row),
    )
    i = tl.program_id(1) * B + tl.arange(0, B)
    own, own_g = tl.load(z_ptr + i, i < units, other=0.0), tl.load(g_ptr + i, i < units, other=0.0)
    of_z, stretch = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.float32)
    narrow, middle, nothing = _shape(z_ptr, slope, units, W)
    if narrow:
        inverse = _inverses(z_ptr, e_ptr, slope, middle, i, units, length, W)
        for start in range(0, length, _K):
            k = start + tl.arange(0, _K)
            s = _quarter(_product(e_ptr, k, inverse))
            of_z += tl.sum(s * _apart(g_ptr, k, own_g, units), 0)
            if WITH_SLOPE:
                stretch += tl.sum(s * _apart(z_ptr, k, own, units), 0)
    else:
        for start in range(0, units, _K):
            k = start + tl.arange(0, _K)
            s = _quarter(_exponential(z_ptr, k, own, slope, units))
            of_z += tl.sum(s * _apart(g_ptr, k, own_g, units), 0)
            if WITH_SLOPE:
                # Far away, where a difference may be huge or infinite, there is no derivative to stretch.
                stretch += tl.sum(tl.where(s < _LEAST, 0.0, s * _apart(z_ptr, k, own, units)), 0)
    tl.store(d_z_ptr + row * units + i, 4 * slope / units * of_z + nothing, i < units)
    if WITH_SLOPE:
        tl.store(d_slope_ptr + row * blocks + tl.program_id(1), 4 * tl.sum(own_g * stretch, 0) / units + nothing)


@on_its_device
def mean(z: Tensor, slope: Tensor) -> Tensor:
    """Of rows ``(rows, N)`` in float32, with a slope for each."""
    z, slope = z.contiguous(), slope.contiguous()
    out, (blocks, options) = torch.empty_like(z), _programs(z.shape[1])
    e = z.new_empty(len(z), blocks * options["B"])
    _forward[(len(z), blocks)](z, slope, e, out, z.shape[1], e.shape[1], **options)
    return out


@on_its_device
def vjp(g: Tensor, z: Tensor, slope: Tensor, with_slope: bool) -> tuple[Tensor, Tensor]:
    """Gradients for z and the slopes; 0 for these if they are not asked for."""
    g, z, slope = g.contiguous(), z.contiguous(), slope.contiguous()
    d_z, (blocks, options) = torch.empty_like(z), _programs(z.shape[1])
    e, d_slope = z.new_empty(len(z), blocks * options["B"]), z.new_empty(len(z), blocks if with_slope else 0)
    given = (g, z, slope, e, d_z, d_slope, z.shape[1], e.shape[1], blocks, with_slope)
    _backward[(len(z), blocks)](*given, **options)
    return d_z, d_slope.sum(1)


def _programs(units: int) -> tuple[int, dict[str, int]]:
    """Programs of a row; own units of each, two to a thread, and units of a block where it goes through the row alone."""
    least: int = max(triton.next_power_of_2(units), 32)
    own = min(least, 256)
    return -(-units // own), {"B": own, "W": min(least, 1024), "num_warps": max(own // 64, 1)}


settle(globals())
