r"""Short rows of coupled units on a GPU: all pairs of a row stay on chip, several rows to a program.

Units are in the unit of length of the slope, :math:`x = p (z - \bar a)`. With :math:`E = e^{2x}` a pair is
:math:`q_{ik} = E_i / (E_i + E_k)`, tanh of the difference is :math:`1 - 2q` and its derivative :math:`4 q (1 - q)`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.device_functions import UNIT, interval, remainder, shrinkage, steps_for

# exp(2 x) of a centred row, and the sum of two, are numbers in float32 up to here.
_FURTHEST = tl.constexpr(40.0)
# What rounding does to a mean of pairs.
_ROUNDING = tl.constexpr(1e-6)


@triton.jit
def _sums(x, value, slope, real, units):
    """Mean tanh and mean slope at every unit, and the matrix of slopes; x is around 0, and far off slope * value counts."""
    # The sums run over the axis in the middle, which a thread has to itself.
    if tl.max(tl.abs(x)) < _FURTHEST:
        e = tl.exp(2 * x)
        # 1/s as the square of 1/sqrt(s) is one special function and no check for small s.
        root = tl.rsqrt(e[:, :, None] + e[:, None, :])
        q = (e[:, None, :] * root) * root
    else:
        far = slope[:, None, None] * (value[:, :, None] - value[:, None, :])
        q = 1 / (1 + tl.exp(2 * tl.minimum(far, 40.0)))
    q = tl.where(real[None, :, None], q, 0.0)
    K = (4.0 / units) * (q - q * q)
    return 1 - (2.0 / units) * tl.sum(q, 1), tl.sum(K, 1), K


@triton.jit
def _linear(K, b, S, kappa, relative):
    """v with (1 - kappa S) v + kappa K v = b."""
    strength = kappa[:, None] * S
    middle, half = interval(tl.min(strength), tl.max(strength))
    count = steps_for(middle, half, relative)
    weight = 1 / (1 - strength)
    left = b * weight
    weight *= kappa[:, None]
    d = left / middle
    v = d
    rate = half / middle
    while count > 1:
        left -= d + weight * tl.sum(K * d[:, :, None], 1)
        new = 1 / (2 * middle / half - rate)
        d = new * rate * d + (2 * new / half) * left
        rate = new
        v += d
        count -= 1
    return v


@triton.jit
def _is_finite(x):
    return tl.abs(x) < float("inf")


@triton.jit
def _are_finite(rows):
    return tl.min(_is_finite(rows).to(tl.int32), 1) > 0


@triton.jit(do_not_specialize=["rows", "num_couplings", "num_slopes", "max_steps"])
def forward(
    a_ptr, coupling_ptr, slope_ptr, z_ptr, copy_ptr, residual_ptr, steps_ptr, converged_ptr,
    rows, num_couplings, num_slopes, units, tolerance, max_steps, R: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Solves R rows of up to N units by Newton's method; row r has coupling r % num_couplings and slope r % num_slopes."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    n = tl.arange(0, N)
    real = n < units
    there = (r < rows)[:, None] & real[None, :]
    where = r.to(tl.int64)[:, None] * units + n[None, :]
    a = tl.load(a_ptr + where, mask=there, other=0.0)
    coupling = tl.load(coupling_ptr + r % num_couplings, mask=r < rows, other=0.0)
    slope = tl.load(slope_ptr + r % num_slopes, mask=r < rows, other=1.0)
    finite = _are_finite(a) & _is_finite(coupling) & _is_finite(slope)
    coupling, slope = tl.where(finite, coupling, 0.0), tl.where(finite, slope, 1.0)
    kappa = coupling * slope
    most = tl.where(finite, tl.max(tl.abs(a), 1), 0.0)
    # At the end of the range sums overflow, but no coupling matters.
    huge = most > 1e30
    a_little = tl.where(there & finite[:, None] & (huge == 0)[:, None], a, 0.0)
    middle = tl.sum(a_little, 1) / units
    target = tl.where(there, slope[:, None] * (a_little - middle[:, None]), 0.0)
    furthest = tl.max(tl.abs(target), 1)
    scale = slope * tl.maximum(most, 1.0)
    # What rounding the answer to float32 can do to the equation.
    rounding = UNIT * (4 + 4 * tl.abs(kappa)) * (furthest + slope * tl.abs(middle)) / scale
    goal = tolerance * (1 - 8 * UNIT)
    settled = (kappa == 0) | (furthest == 0) | (finite == 0)
    residual = tl.where(settled, tl.where(huge, tl.abs(coupling) / tl.maximum(most, 1.0), 0.0), float("inf"))
    steps = tl.zeros((R,), tl.int32)
    one = tl.full((R,), 1.0, tl.float32)
    base = shrinkage(kappa, tl.sum(target * target, 1) / units)[:, None] * target
    x = base
    change = tl.zeros((R, N), tl.float32)
    before = tl.full((R,), float("inf"), tl.float32)
    left = tl.sum(tl.where(settled, 0, 1))
    count = 0
    while (left > 0) & (count < max_steps):
        H, S, K = _sums(x, x, one, real, units)
        F = tl.where(there, x + kappa[:, None] * H - target, 0.0)
        miss, size = tl.max(tl.abs(F), 1), tl.sum(F * F, 1)
        found = (miss + tl.abs(kappa) * _ROUNDING) / scale + rounding
        residual = tl.where(settled, residual, found)
        steps += tl.where(settled, 0, 1)
        settled = settled | (residual <= goal)
        left = tl.sum(tl.where(settled, 0, 1))
        if left > 0:
            # Newton's direction lowers the violation if the step is short enough.
            better = (size < before) | (size == 0)
            moved = tl.where(there, _linear(K, F, S, kappa, 1e-3), 0.0)
            base = tl.where(better[:, None], x, base)
            change = tl.where(better[:, None], moved, 0.5 * change)
            before = tl.where(better, size, before)
            # After a small step there is nothing left to look at.
            promised = (
                2e-3 * miss + remainder(kappa, tl.max(S, 1), tl.max(tl.abs(moved), 1)) + tl.abs(kappa) * _ROUNDING
            )
            promised = tl.where(better, promised / scale + rounding, float("inf"))
            x = tl.where(settled[:, None], x, base - change)
            residual = tl.where(settled | (promised > goal), residual, promised)
            settled = settled | (promised <= goal)
            left = tl.sum(tl.where(settled, 0, 1))
        count += 1
    z = tl.where((steps == 0)[:, None], a, x / slope[:, None] + middle[:, None])
    z = tl.where(finite[:, None], z, float("nan"))
    residual = tl.where(finite, residual * (1 + 4 * UNIT), float("nan"))
    tl.store(z_ptr + where, z, mask=there)
    tl.store(copy_ptr + where, z, mask=there)
    tl.store(converged_ptr + r, residual <= tolerance, mask=r < rows)
    tl.store(residual_ptr + r, residual, mask=r < rows)
    tl.store(steps_ptr + r, steps.to(tl.int64), mask=r < rows)


@triton.jit(do_not_specialize=["rows", "num_couplings", "num_slopes"])
def backward(
    g_ptr, z_ptr, coupling_ptr, slope_ptr, v_ptr, d_coupling_ptr, d_slope_ptr, rows, num_couplings, num_slopes, units,
    WITH_SLOPE: tl.constexpr, R: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """v with A v = g, and the gradients for coupling and slope, of R rows."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    n = tl.arange(0, N)
    real = n < units
    there = (r < rows)[:, None] & real[None, :]
    where = r.to(tl.int64)[:, None] * units + n[None, :]
    z = tl.load(z_ptr + where, mask=there, other=0.0)
    g = tl.load(g_ptr + where, mask=there, other=0.0)
    coupling = tl.load(coupling_ptr + r % num_couplings, mask=r < rows, other=0.0)
    slope = tl.load(slope_ptr + r % num_slopes, mask=r < rows, other=1.0)
    finite = _are_finite(z) & _are_finite(g) & _is_finite(coupling) & _is_finite(slope)
    coupling, slope = tl.where(finite, coupling, 0.0), tl.where(finite, slope, 1.0)
    kappa = coupling * slope
    z = tl.where(finite[:, None], z, 0.0)
    # A mean of parts cannot overflow; what it makes of the rest is too far away to be looked at.
    x = tl.where(there, slope[:, None] * (z - tl.sum(z * (1 / units), 1)[:, None]), 0.0)
    H, S, K = _sums(x, z, slope, real, units)
    v = _linear(K, tl.where(there & finite[:, None], g, 0.0), S, kappa, 1e-5)
    v = tl.where(there, v, 0.0)
    none = tl.where(finite, 0.0, float("nan"))
    tl.store(v_ptr + where, v + none[:, None], mask=there)
    tl.store(d_coupling_ptr + r, none - tl.sum(v * H, 1), mask=r < rows)
    if WITH_SLOPE:
        apart = slope[:, None, None] * (z[:, :, None] - z[:, None, :])
        # Far away there is nothing but rounding.
        stretch = tl.sum(tl.where(tl.abs(apart) < _FURTHEST, apart, 0.0) * K, 1)
        tl.store(d_slope_ptr + r, none - coupling / slope * tl.sum(v * stretch, 1), mask=r < rows)
