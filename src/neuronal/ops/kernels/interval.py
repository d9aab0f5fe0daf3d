r"""Chebyshev's iteration inside a kernel: where the eigenvalues lie, and how many steps that asks for."""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.settled import settle

# float32 rounds by at most so much, relatively.
UNIT = tl.constexpr(5.9604645e-08)


@triton.jit
def interval(pulls, pushes):
    """Middle and half width of where the eigenvalues of D^-1 A lie, given the extremes of kappa S."""
    # A little wider than what the theory says: interpolation makes some masses negative.
    low = 0.98 / (1 - tl.minimum(pulls, 0.0))
    high = 1.02 / tl.maximum(1 - tl.maximum(pushes, 0.0), 1e-3)
    return (high + low) / 2, (high - low) / 2


@triton.jit
def steps_for(middle, half, relative):
    """Steps after which the error is ``relative``."""
    root = tl.sqrt((middle + half) / (middle - half))
    count = tl.log(relative / 2) / tl.log((root - 1) / (root + 1))
    return tl.minimum(tl.maximum(count, 0.0), 200.0).to(tl.int32) + 1


@triton.jit
def remainder(kappa, slope, change):
    """By how much a Newton step of up to ``change`` can miss the equation at most, ``slope`` being the mean slopes.

    Differences of units move by e <= 2 change. Since |tanh''| <= 2 sech^2, which grows by exp(2 e) at most on the way, the
    second order is at most e^2 exp(2 e) times the mean slope.
    """
    e = 2 * tl.minimum(change, 4.0)
    return tl.abs(kappa) * slope * e * e * tl.exp(2 * e)


@triton.jit
def shrinkage(kappa, variance):
    """s such that s times the target has about the spread of the solution, from what it is for a normal distribution."""
    s = 1 / (1 - kappa * tl.rsqrt(1 + 3.1415927 * variance))
    for _ in tl.static_range(6):
        s = 0.5 * (s + 1 / (1 - kappa * tl.rsqrt(1 + 3.1415927 * variance * s * s)))
    return s


settle(globals())
