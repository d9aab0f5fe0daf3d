r"""Short rows of coupled units on a GPU: all pairs of a row stay on chip, several rows to a program.

Units are in the unit of length of the slope, :math:`x = p (z - \bar a)`. With :math:`E = e^{2x}` a pair is
:math:`q_{ik} = E_i / (E_i + E_k)`, tanh of the difference is :math:`1 - 2q` and its derivative :math:`4 q (1 - q)`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from neuronal.ops.kernels.interval import UNIT, interval, remainder, shrinkage, steps_for

# exp(2 x) of a centred row, and the sum of two, are numbers in float32 up to here.
_FURTHEST = tl.constexpr(40.0)
# What rounding does to a mean of pairs.
_ROUNDING = tl.constexpr(1e-6)


@triton.jit
def _sums(x, real, units):
    """Mean tanh and mean slope at every unit, and the matrix of slopes."""
    # The sums run over the axis in the middle, which a thread has to itself.
    if tl.max(tl.abs(x)) < _FURTHEST:
        e = tl.exp(2 * x)
        # 1/s as the square of 1/sqrt(s) is one special function and no check for small s.
        root = tl.rsqrt(e[:, :, None] + e[:, None, :])
        q = (e[:, None, :] * root) * root
    else:
        q = 1 / (1 + tl.exp(2 * tl.minimum(x[:, :, None] - x[:, None, :], 40.0)))
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
def forward(
    a_ptr, coupling_ptr, slope_ptr, z_ptr, residual_ptr, steps_ptr, rows, units, tolerance, max_steps,
    R: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Solves R rows of up to N units by Newton's method."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    n = tl.arange(0, N)
    real = n < units
    there = (r < rows)[:, None] & real[None, :]
    where = r.to(tl.int64)[:, None] * units + n[None, :]
    a = tl.load(a_ptr + where, mask=there, other=0.0)
    coupling = tl.load(coupling_ptr + r, mask=r < rows, other=0.0)
    slope = tl.load(slope_ptr + r, mask=r < rows, other=1.0)
    kappa = coupling * slope
    total = tl.sum(a, 1)
    finite = tl.abs(total) < float("inf")
    middle = total / units
    target = tl.where(there & finite[:, None], slope[:, None] * (a - middle[:, None]), 0.0)
    most = tl.max(tl.abs(a), 1)
    furthest = tl.max(tl.abs(target), 1)
    scale = slope * tl.maximum(most, 1.0)
    # What rounding the answer to float32 can do to the equation.
    rounding = UNIT * (4 + 4 * tl.abs(kappa)) * (furthest + slope * tl.abs(middle)) / scale
    goal = tolerance * (1 - 8 * UNIT)
    settled = (kappa == 0) | (furthest == 0) | (finite == 0)
    residual = tl.where(settled, 0.0, float("inf"))
    steps = tl.zeros((R,), tl.int32)
    base = shrinkage(kappa, tl.sum(target * target, 1) / units)[:, None] * target
    x = base
    change = tl.zeros((R, N), tl.float32)
    before = tl.full((R,), float("inf"), tl.float32)
    left = tl.sum(tl.where(settled, 0, 1))
    count = 0
    while (left > 0) & (count < max_steps):
        H, S, K = _sums(x, real, units)
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
    tl.store(residual_ptr + r, residual, mask=r < rows)
    tl.store(steps_ptr + r, steps.to(tl.int64), mask=r < rows)


@triton.jit
def backward(
    g_ptr, z_ptr, coupling_ptr, slope_ptr, v_ptr, d_coupling_ptr, d_slope_ptr, rows, units,
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
    coupling = tl.load(coupling_ptr + r, mask=r < rows, other=0.0)
    slope = tl.load(slope_ptr + r, mask=r < rows, other=1.0)
    kappa = coupling * slope
    total = tl.sum(z, 1)
    finite = (tl.abs(total) < float("inf")) & (tl.abs(tl.sum(g, 1)) < float("inf"))
    x = slope[:, None] * (z - (total / units)[:, None])
    x = tl.where(there & finite[:, None], x, 0.0)
    H, S, K = _sums(x, real, units)
    v = _linear(K, tl.where(there & finite[:, None], g, 0.0), S, kappa, 1e-5)
    v = tl.where(there, v, 0.0)
    none = tl.where(finite, 0.0, float("nan"))
    tl.store(v_ptr + where, v + none[:, None], mask=there)
    tl.store(d_coupling_ptr + r, none - tl.sum(v * H, 1), mask=r < rows)
    if WITH_SLOPE:
        stretch = tl.sum((x[:, :, None] - x[:, None, :]) * K, 1)
        tl.store(d_slope_ptr + r, none - coupling / slope * tl.sum(v * stretch, 1), mask=r < rows)
