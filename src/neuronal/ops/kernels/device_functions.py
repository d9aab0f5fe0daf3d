r"""Functions that several kernels call: angles and places, Chebyshev's iteration, and rows to look at again."""

from __future__ import annotations

import triton
import triton.language as tl

# Errors of sine and cosine are below 2e-7 for angles up to 10,000, in fewer instructions than the library's two calls.
# Note [Quarter turns]: x = q pi/2 + r with |r| <= pi/4. pi/2 is in three parts, of which the first two have so few digits
# that their products with q are exact. Polynomials have the smallest largest error on that interval (Remez exchange).


@triton.jit
def sine_and_cosine(x):
    """See Note [Quarter turns]."""
    q = tl.floor(x * 0.6366197723675814 + 0.5)
    r = x - q * 1.5703125
    r = r - q * 4.837512969970703125e-4
    r = r - q * 7.549789954891882e-8
    # Of angles too large for float32, sine and cosine are arbitrary; but not larger than they can be.
    r = tl.clamp(r, -0.8, 0.8, propagate_nan=tl.PropagateNan.ALL)
    z = r * r
    s = r + r * z * (-0.166666548734772 + z * (0.008332173543162876 - z * 0.00019516655808383986))
    c = 1.0 - 0.5 * z + z * z * (0.04166664674777589 + z * (-0.0013887361450183602 + z * 2.4437730096986404e-05))
    quarter = q.to(tl.int32)
    is_odd = (quarter & 1) != 0
    sine = tl.where(is_odd, c, s)
    cosine = tl.where(is_odd, s, c)
    return tl.where((quarter & 2) != 0, -sine, sine), tl.where(((quarter + 1) & 2) != 0, -cosine, cosine)


@triton.jit
def place(k, inner, outer_stride, inner_stride, SHORT: tl.constexpr):
    """Where entry k of a row lies: k counts channels of ``inner`` places each.

    Dividing whole numbers takes as long as a sine. With ``SHORT``, for rows up to 2**20 entries, a float does it: half a
    place is more than its rounding, also where a division is only nearly right.
    """
    if SHORT:  # noqa: SIM108 - decided when the kernel is compiled
        outer = ((k.to(tl.float32) + 0.5) * (1.0 / inner)).to(tl.int32)
    else:
        outer = k // inner
    return outer * outer_stride + (k - outer * inner) * inner_stride


# Note [Chebyshev]: the iteration inside a kernel needs to know where the eigenvalues lie, and how many steps that asks for.

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


# Note [Rows again]: a launch goes over all rows and leaves those alone that are done, so that nobody has to ask on the host
# whether there are others. A program looks at several rows at once and takes those that are open one by one. Where rows are
# solved in groups, what is said of rows is meant of groups.

# Rows, or groups of them, that a program looks at.
GROUPS = 64
TURNS = tl.constexpr(GROUPS)


@triton.jit
def looked_at():
    """The rows of this program, so far apart that neighbours are worked on at the same time."""
    return tl.program_id(0) + tl.num_programs(0) * tl.arange(0, TURNS)


@triton.jit
def any_of(is_open):
    return tl.max(is_open.to(tl.int32), 0) > 0


@triton.jit
def row_of(turn):
    return (tl.program_id(0) + tl.num_programs(0) * turn).to(tl.int64)


@triton.jit
def has_turn(is_open, turn):
    return any_of(is_open & (tl.arange(0, TURNS) == turn))
