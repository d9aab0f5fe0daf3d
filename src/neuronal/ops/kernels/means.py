r"""The mean coupling of a unit to all units of its row on a GPU, and its gradient: pair by pair, on chip.

With :math:`q_{ik} = 1 / (1 + e^{2p(z_k - z_i)})` the tanh of a difference is :math:`1 - 2q` and its derivative
:math:`4 q (1 - q)`. A row of N units takes N^2 exponentials; nothing of that size is ever in memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = {"B": 64, "K": 16, "num_warps": 1}
"""Units of a program, which is one warp, and units it looks at together; a thread sums over these by itself."""
# Beyond it q is as good as 0; its derivative there is below the least.
_FURTHEST = tl.constexpr(40.0)
_LEAST = tl.constexpr(1e-34)


@triton.jit
def _pairs(own, others, slope):
    """q of every other unit, down, with every own one, across; and the differences."""
    apart = others[:, None] - own[None, :]
    return 1 / (1 + tl.exp(2 * tl.minimum(slope * apart, _FURTHEST))), apart


@triton.jit
def _forward(z_ptr, slope_ptr, mean_ptr, units, B: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    slope = tl.load(slope_ptr + row)
    i = tl.program_id(1) * B + tl.arange(0, B)
    own = tl.load(z_ptr + row * units + i, i < units, other=0.0)
    total = tl.zeros((B,), tl.float32)
    for start in range(0, units, K):
        k = start + tl.arange(0, K)
        others = tl.load(z_ptr + row * units + k, k < units, other=0.0)
        q, _ = _pairs(own, others, slope)
        # 0 for numbers; a row with anything else has no means.
        nothing = others * 0.0
        total += tl.sum(tl.where((k < units)[:, None], q, 0.0) + nothing[:, None], 0)
    tl.store(mean_ptr + row * units + i, 1 - 2 * total / units, i < units)


@triton.jit
def _backward(g_ptr, z_ptr, slope_ptr, d_z_ptr, d_slope_ptr, units, blocks, B: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    slope = tl.load(slope_ptr + row)
    i = tl.program_id(1) * B + tl.arange(0, B)
    own = tl.load(z_ptr + row * units + i, i < units, other=0.0)
    own_g = tl.load(g_ptr + row * units + i, i < units, other=0.0)
    of_z, stretch = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.float32)
    for start in range(0, units, K):
        k = start + tl.arange(0, K)
        others = tl.load(z_ptr + row * units + k, k < units, other=0.0)
        g = tl.load(g_ptr + row * units + k, k < units, other=0.0)
        q, apart = _pairs(own, others, slope)
        derivative = tl.where((k < units)[:, None], 4 * (q - q * q), 0.0)
        nothing = others * 0.0
        of_z += tl.sum(derivative * (g[:, None] - own_g[None, :]) + nothing[:, None], 0)
        # Far away, where a difference may be huge or infinite, there is no derivative to stretch.
        stretch += tl.sum(tl.where(derivative < _LEAST, 0.0, derivative * apart) + nothing[:, None], 0)
    tl.store(d_z_ptr + row * units + i, slope / units * of_z, i < units)
    tl.store(d_slope_ptr + row * blocks + tl.program_id(1), tl.sum(own_g * stretch, 0) / units)


def mean(z: Tensor, slope: Tensor) -> Tensor:
    """Of rows ``(rows, N)`` in float32, with a slope for each."""
    z, slope = z.contiguous(), slope.contiguous()
    out = torch.empty_like(z)
    _forward[(len(z), _blocks(z))](z, slope, out, z.shape[1], **_BLOCK)
    return out


def vjp(g: Tensor, z: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients for z and the slopes."""
    g, z, slope = g.contiguous(), z.contiguous(), slope.contiguous()
    d_z, blocks = torch.empty_like(z), _blocks(z)
    d_slope = z.new_empty(len(z), blocks)
    _backward[(len(z), blocks)](g, z, slope, d_z, d_slope, z.shape[1], blocks, **_BLOCK)
    return d_z, d_slope.sum(1)


def _blocks(z: Tensor) -> int:
    return -(-z.shape[1] // _BLOCK["B"])
