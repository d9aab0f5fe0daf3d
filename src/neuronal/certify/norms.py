r"""Upper bounds of the 2-norm of matrices and convolutions, in float64, rounding included.

A convolution with zero padding is a part of the convolution on the infinite grid, whose norm is the largest singular value
of its symbol :math:`P(\omega) = \sum_k W_k e^{i k \omega}` over all frequencies. On a grid of N frequencies per dimension
little is missed: for unit vectors u, v the function :math:`q = |u^* P v|^2` is a real trigonometric polynomial of degree
:math:`n = (\text{taps} - 1)` in each dimension, and by a lemma of M. Riesz such a function with largest value M at
:math:`\omega_0` is at least :math:`M \cos(n (\omega - \omega_0))` around it. The nearest grid point is at most
:math:`\pi / N` away, so :math:`M \le \max_{\text{grid}} q \,/ \prod \cos(n \pi / N)`.
"""

from __future__ import annotations

from math import ceil, cos, gcd, inf, pi, prod, sqrt

import torch
from torch import Tensor

# Computed singular values are off by less than this share of the largest, for any size that fits in memory.
SPARE = 1 + 1e-9
# Numbers in all symbols together, and in a matrix, up to which singular values are computed.
MOST = 1 << 24


def matrix_norm(weight: Tensor) -> float:
    """An upper bound of the largest singular value of a matrix; next to exact unless it is huge."""
    weight = weight.detach().double()
    norm = weight.norm() if weight.numel() > MOST else torch.linalg.matrix_norm(weight, 2)
    return float(norm) * SPARE


def convolution_norm(
    weight: Tensor, stride: tuple[int, ...], groups: int = 1, dilation: tuple[int, ...] | None = None
) -> float:
    """An upper bound of the 2-norm of a convolution on inputs of any size, zero padding included."""
    parts = weight.detach().double().chunk(groups)
    # Taps that reach the same input are so many apart: with dilation, strides skip fewer of them.
    apart = [s // gcd(s, d) for s, d in zip(stride, dilation or (1,) * len(stride), strict=True)]
    return max(_one_group(part, apart) for part in parts)


def _one_group(weight: Tensor, apart: list[int]) -> float:
    # An input is seen by so many patches at most.
    seen = prod(ceil(k / s) for k, s in zip(weight.shape[2:], apart, strict=True))
    patches = sqrt(seen) * matrix_norm(weight.flatten(1))
    return min(patches, _by_frequencies(weight))


def _by_frequencies(weight: Tensor) -> float:
    taps = weight.shape[2:]
    points = [1 if k == 1 else 8 * k for k in taps]
    if weight.shape[0] * weight.shape[1] * prod(points) > MOST:
        points = [1 if k == 1 else 2 * k for k in taps]
        if weight.shape[0] * weight.shape[1] * prod(points) > MOST:
            return inf
    symbols = torch.fft.fftn(weight, s=points, dim=list(range(2, weight.dim())))
    matrices = symbols.flatten(2).permute(2, 0, 1)
    missed = prod(cos((k - 1) * pi / n) for k, n in zip(taps, points, strict=True))
    return float(torch.linalg.matrix_norm(matrices, 2).max()) / sqrt(missed) * SPARE
