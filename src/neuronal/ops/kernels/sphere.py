"""Weights from angles and scales in one kernel per direction; a row is read once.

Forward, per unit with n - 1 angles: 4 n bytes read, 4 n bytes and n entries written. Backward: 8 n bytes and n entries
read, 4 n bytes written. Weights come in the precision and order of memory in which the layer reads them, which saves the
copies a plain layer makes there. See ops/sphere.py for the formulas and Note [Gradient without division].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from neuronal.ops.kernels.device_functions import place, sine_and_cosine
from neuronal.ops.kernels.launch import on_its_device

_LONGEST = 1024
"""Entries of a row that a block of threads holds at once, the fastest on an H200; longer rows are taken piece by piece."""
_SHORT = 2**20
"""Below so many entries, where they lie is found with floats; see :func:`.device_functions.place`."""


@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def _after(a1, c1, a2, c2):
    # From the end: (a1, c1) is what was gathered so far, (a2, c2) comes before it: R = a2 + c2 * (a1 + c1 * rest).
    return a2 + c2 * a1, c1 * c2


# Note [Four to a thread]: entries come from memory in the order of threads, one each, which memory likes; and are handed
# over so that a thread has four neighbours. It takes these by itself, and the scans over all threads, which are most of
# the work otherwise, are of a quarter of the entries.


@triton.jit
def _quarters(x, T: tl.constexpr):
    """Entries 4 t, 4 t + 1, 4 t + 2 and 4 t + 3 for every thread t."""
    even, odd = tl.split(tl.reshape(x, (T, 2, 2)))
    x0, x2 = tl.split(even)
    x1, x3 = tl.split(odd)
    return x0, x1, x2, x3


@triton.jit
def _together(x0, x1, x2, x3, T: tl.constexpr):
    """The entries again, from what :func:`_quarters` makes of them."""
    return tl.reshape(tl.join(tl.join(x0, x2), tl.join(x1, x3)), (4 * T,))


@triton.jit
def _angles(delta, row, n, k):
    """cos(theta) = -sin(delta) and sin(theta) = cos(delta); the last entry has no angle, and a cosine of 1."""
    sine, cosine = sine_and_cosine(tl.load(delta + row * (n - 1) + k, k < n - 1, other=0.0))
    return tl.where(k < n - 1, -sine, 1.0), tl.where(k < n - 1, cosine, 0.0)


@triton.jit
def _neighbour(values, lane, step: tl.constexpr, T: tl.constexpr):
    """The value of the thread before or after; of the first or the last, its own."""
    return tl.gather(values, tl.minimum(tl.maximum(lane + step, 0), T - 1), 0)


@triton.jit
def _forward(
    delta, scale, offset, weight, bias, products, inner, outer_stride, inner_stride,
    n: tl.constexpr, BIAS: tl.constexpr, BLOCK: tl.constexpr, SHORT: tl.constexpr,
):  # fmt: skip
    """Weight, bias and products of a unit. See Note [Four to a thread]."""
    row = tl.program_id(0).to(tl.int64)
    r = tl.load(scale + row)
    T: tl.constexpr = BLOCK // 4
    lane = tl.arange(0, T)
    so_far = 1.0
    for start in range(0, n, BLOCK):
        k = start + tl.arange(0, BLOCK)
        cosines, sines = _angles(delta, row, n, k)
        sin0, sin1, sin2, sin3 = _quarters(sines, T)
        up_to = tl.associative_scan((sin0 * sin1) * (sin2 * sin3), 0, _times)
        # The product of an entry is that of the sines of all before it.
        p0 = so_far * tl.where(lane == 0, 1.0, _neighbour(up_to, lane, -1, T))
        p1 = p0 * sin0
        p2 = p1 * sin1
        p = _together(p0, p1, p2, p2 * sin2, T)
        tl.store(weight + row * n + place(k, inner, outer_stride, inner_stride, SHORT), r * cosines * p, k < n)
        tl.store(products + row * n + k, p, k < n)
        so_far *= tl.sum(tl.where(lane == T - 1, up_to, 0.0), 0)
    if BIAS:
        tl.store(bias + row, r * tl.load(offset + row))


@triton.jit
def _backward(
    delta, scale, offset, products, g, g_bias, d_delta, d_scale, d_offset, inner, outer_stride, inner_stride,
    n: tl.constexpr, BIAS: tl.constexpr, BLOCK: tl.constexpr, SHORT: tl.constexpr,
):  # fmt: skip
    """Gradients for the angles, scale and offset of a unit. See Note [Four to a thread]."""
    row = tl.program_id(0).to(tl.int64)
    r = tl.load(scale + row)
    T: tl.constexpr = BLOCK // 4
    lane = tl.arange(0, T)
    steps = (n + BLOCK - 1) // BLOCK
    of_scale = 0.0
    coming = 0.0
    for step in range(steps):
        # From the end: R_k = cos(theta_k) g_k + sin(theta_k) R_{k+1}, and R_n = g_n.
        k = (steps - 1 - step) * BLOCK + tl.arange(0, BLOCK)
        cosines, sines = _angles(delta, row, n, k)
        p = tl.load(products + row * n + k, k < n, other=0.0)
        there = row * n + place(k, inner, outer_stride, inner_stride, SHORT)
        own_g = tl.load(g + there, k < n, other=0.0).to(tl.float32)
        straight = cosines * own_g
        a0, a1, a2, a3 = _quarters(straight, T)
        sin0, sin1, sin2, sin3 = _quarters(sines, T)
        own = a0 + sin0 * (a1 + sin1 * (a2 + sin2 * a3))
        tails, factors = tl.associative_scan((own, (sin0 * sin1) * (sin2 * sin3)), 0, _after, reverse=True)
        tails += factors * coming
        after3 = tl.where(lane == T - 1, coming, _neighbour(tails, lane, 1, T))
        after2 = a3 + sin3 * after3
        after1 = a2 + sin2 * after2
        after = _together(a1 + sin1 * after1, after1, after2, after3, T)
        tl.store(d_delta + row * (n - 1) + k, r * p * (cosines * after - sines * own_g), k < n - 1)
        of_scale += tl.sum(straight * p, 0)
        coming = tl.sum(tl.where(lane == 0, tails, 0.0), 0)
    if BIAS:
        of_bias = tl.load(g_bias + row).to(tl.float32)
        of_scale += of_bias * tl.load(offset + row)
        tl.store(d_offset + row, of_bias * r)
    tl.store(d_scale + row, of_scale)


@on_its_device
def weight_and_bias(
    delta: Tensor,
    scale: Tensor,
    offset: Tensor | None,
    shape: Sequence[int],
    channels_last: bool,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """``scale * direction(delta)`` as a weight of ``shape``, and ``scale * offset``; computed in float32.

    The third answer, the running products of sines, is what the gradients need.
    """
    order = torch.channels_last if channels_last else torch.contiguous_format
    weight = torch.empty(shape, device=delta.device, dtype=dtype, memory_format=order)
    bias = None if offset is None else torch.empty(shape[:1], device=delta.device, dtype=dtype)
    n = delta.shape[1] + 1
    products = delta.new_empty(len(delta), n)
    if len(delta):
        # What a layer without biases has none of is not looked at.
        offset, bias_or_other = (scale, scale) if offset is None else (offset, bias)
        given = (delta.contiguous(), scale, offset, weight, bias_or_other, products)
        _forward[(len(delta),)](*given, *_order(weight), n=n, BIAS=bias is not None, **_block(n))
    return weight, bias, products


@on_its_device
def gradients(
    delta: Tensor, scale: Tensor, offset: Tensor | None, products: Tensor, g: Tensor, g_bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gradients for ``delta``, ``scale`` and ``offset`` from those of weight and bias."""
    delta = delta.contiguous()
    d_delta, d_scale = torch.empty_like(delta), torch.empty_like(scale)
    d_offset = None if offset is None else torch.empty_like(offset)
    n = delta.shape[1] + 1
    if len(delta):
        g = g if g.is_contiguous() or _is_channels_last(g) else g.contiguous()
        has_bias = g_bias is not None
        g_bias = scale if g_bias is None else g_bias.contiguous()
        offset, d_offset_or_other = (offset, d_offset) if has_bias else (scale, scale)
        given = (delta, scale, offset, products, g, g_bias, d_delta, d_scale, d_offset_or_other)
        _backward[(len(delta),)](*given, *_order(g), n=n, BIAS=has_bias, **_block(n))
    return d_delta, d_scale, d_offset


def _is_channels_last(weight: Tensor) -> bool:
    return weight.dim() == 4 and weight.is_contiguous(memory_format=torch.channels_last)


def _order(weight: Tensor) -> tuple[int, int, int]:
    """How a row of ``weight`` (channels, then places in the filter) lies in memory: places, and the two strides."""
    places = weight.shape[2:].numel()
    if not weight.is_contiguous() and _is_channels_last(weight):
        return places, 1, weight.shape[1]
    return places, places, 1


def _block(n: int) -> dict[str, Any]:
    """Entries of a row of ``n`` that are worked on at once, four to a thread."""
    size = 8
    while size < min(n, _LONGEST):
        size *= 2
    return {"BLOCK": size, "SHORT": n < _SHORT, "num_warps": max(1, size // 128)}
