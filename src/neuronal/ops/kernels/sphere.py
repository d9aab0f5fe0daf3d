"""Weights from angles and scales in one kernel per direction: a row is read once, its products stay on the chip.

Forward, per unit with n - 1 angles: 4 n bytes read, 4 n written. Backward: 8 n read, 4 n written.
See ops/sphere.py for the formulas and Note [Gradient without division].
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

LONGEST = 32768
"""Entries of the longest direction a block of threads can hold."""


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def _after(a1, c1, a2, c2):
    # From the end: (a1, c1) is what was gathered so far, (a2, c2) comes before it: R = a2 + c2 * (a1 + c1 * rest).
    return a2 + c2 * a1, c1 * c2


@triton.jit
def _forward(delta, scale, weight, n, inner, outer_stride, inner_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK)
    # P_{k-1} is the product of the sines before k; cos(theta) = -sin(delta), sin(theta) = cos(delta).
    before = tl.load(delta + row * (n - 1) + k - 1, (k > 0) & (k < n), other=0.0)
    own = tl.load(delta + row * (n - 1) + k, k < n - 1, other=0.0)
    products = tl.associative_scan(tl.cos(before), 0, _times)
    cosines = tl.where(k < n - 1, -tl.sin(own), 1.0)
    r = tl.load(scale + row)
    place = (k // inner) * outer_stride + (k % inner) * inner_stride
    tl.store(weight + row * n + place, r * cosines * products, k < n)


@triton.jit
def _backward(delta, scale, g, d_delta, d_scale, n, inner, outer_stride, inner_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, BLOCK)
    next_k = k + 1
    before = tl.load(delta + row * (n - 1) + k - 1, (k > 0) & (k < n), other=0.0)
    own = tl.load(delta + row * (n - 1) + k, k < n - 1, other=0.0)
    after = tl.load(delta + row * (n - 1) + next_k, k < n - 2, other=0.0)
    place = (k // inner) * outer_stride + (k % inner) * inner_stride
    next_place = (next_k // inner) * outer_stride + (next_k % inner) * inner_stride
    own_g = tl.load(g + row * n + place, k < n, other=0.0).to(tl.float32)
    after_g = tl.load(g + row * n + next_place, k < n - 1, other=0.0).to(tl.float32)
    r = tl.load(scale + row)
    products = tl.associative_scan(tl.cos(before), 0, _times)
    cosines = tl.where(k < n - 1, -tl.sin(own), 1.0)
    tl.store(d_scale + row, tl.sum(cosines * products * own_g, 0))
    # R_{k+1} = cos(theta_{k+1}) g_{k+1} + sin(theta_{k+1}) R_{k+2}, and R_n = g_n.
    a = tl.where(k < n - 2, -tl.sin(after), 1.0) * after_g
    c = tl.where(k < n - 2, tl.cos(after), 0.0)
    tails, _ = tl.associative_scan((a, c), 0, _after, reverse=True)
    tl.store(d_delta + row * (n - 1) + k, r * products * (cosines * tails - tl.cos(own) * own_g), k < n - 1)


@torch.library.custom_op("neuronal::scaled_direction", mutates_args=())
def scaled_direction(
    delta: Tensor, scale: Tensor, shape: Sequence[int], channels_last: bool, dtype: torch.dtype
) -> Tensor:
    """``scale * direction(delta)``, row by row: ``(units, n - 1)`` and ``(units,)`` to a weight of ``shape``.

    Computed in float32, written in ``dtype`` in the order of memory that the layer wants to read.
    """
    weight = _empty(delta, shape, channels_last, dtype)
    if len(delta):
        n = delta.shape[1] + 1
        _forward[(len(delta),)](delta.contiguous(), scale.contiguous(), weight, n, *_order(weight), **_block(n))
    return weight


@scaled_direction.register_fake
def _(delta: Tensor, scale: Tensor, shape: Sequence[int], channels_last: bool, dtype: torch.dtype) -> Tensor:
    return _empty(delta, shape, channels_last, dtype)


@torch.library.custom_op("neuronal::scaled_direction_backward", mutates_args=())
def scaled_direction_backward(delta: Tensor, scale: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients for ``delta`` and ``scale`` from that of the weight."""
    delta, scale = delta.contiguous(), scale.contiguous()
    d_delta, d_scale = torch.empty_like(delta), torch.empty_like(scale)
    if len(delta):
        n = delta.shape[1] + 1
        g = g if g.is_contiguous() or _is_channels_last(g) else g.contiguous()
        _backward[(len(delta),)](delta, scale, g, d_delta, d_scale, n, *_order(g), **_block(n))
    return d_delta, d_scale


@scaled_direction_backward.register_fake
def _(delta: Tensor, scale: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    # Not empty_like: the kernel's answer is contiguous whatever it is given.
    return delta.new_empty(delta.shape), scale.new_empty(scale.shape)


def _empty(like: Tensor, shape: Sequence[int], channels_last: bool, dtype: torch.dtype) -> Tensor:
    order = torch.channels_last if channels_last else torch.contiguous_format
    return torch.empty(shape, device=like.device, dtype=dtype, memory_format=order)


def _is_channels_last(weight: Tensor) -> bool:
    return weight.dim() == 4 and weight.is_contiguous(memory_format=torch.channels_last)


def _order(weight: Tensor) -> tuple[int, int, int]:
    """How a row of ``weight`` (channels, then places in the filter) lies in memory: places, and the two strides."""
    places = weight.shape[2:].numel()
    if not weight.is_contiguous() and _is_channels_last(weight):
        return places, 1, weight.shape[1]
    return places, places, 1


def _block(n: int) -> dict[str, int]:
    size = triton.next_power_of_2(n)
    return {"BLOCK": size, "num_warps": min(16, max(1, size // 256))}
