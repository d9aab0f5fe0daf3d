r"""The equation of implicit-bias neurons with all pairs written out: any sigmoid, any weights, O(N^2) memory per row.

.. math:: z_i = a_i - \lambda \sum_k w_{ik}\, \sigma(p\,(z_k - z_i))

The reference for :mod:`neuronal.ops.mean_field`, and the way for what that does not cover.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from neuronal.ops.mean_field import ANY_BOUND, TANH_BOUND, Solution, check_unique, without_nan


@dataclass(frozen=True)
class Sigmoid:
    """An odd, increasing function with values in [-1, 1] and its derivative, which is 1 at 0 and at most 1."""

    name: str
    value: Callable[[Tensor], Tensor]
    derivative: Callable[[Tensor], Tensor]


def _sech2(x: Tensor) -> Tensor:
    return 1 - x.tanh().square()


def _clip(x: Tensor) -> Tensor:
    return x.clamp(-1, 1)


def _inside(x: Tensor) -> Tensor:
    return (x.abs() <= 1).to(x.dtype)


TANH = Sigmoid("tanh", torch.tanh, _sech2)
CLIP = Sigmoid("clip", _clip, _inside)
"""Straight between -1 and 1: everything is piecewise linear, and solved exactly in finitely many steps."""


def solve_dense(
    a: Tensor,
    coupling: Tensor | float,
    slope: Tensor | float,
    *,
    sigma: Sigmoid = TANH,
    weights: Tensor | None = None,
    tolerance: float = 1e-4,
    max_steps: int = 100,
) -> Solution:
    """Solves every row by Newton's method; differentiable with respect to ``a``, ``coupling`` and ``slope``.

    Args:
        a: ``(rows, N)``.
        coupling: A number or one per row.
        slope: A number or one per row.
        sigma: The sigmoid.
        weights: ``(N, N)``, symmetric, not negative, rows summing to at most 1; 1/N everywhere if left out.
        tolerance: Bound on the largest violation of the equation, relative to max(1, max|a|).
        max_steps: Newton steps after which a row is reported as not converged.

    Raises:
        ValueError: coupling * slope of 1/2 or more (1 for tanh with equal weights), where solutions need not be unique.

    Cost:
        O(N^2) memory and O(N^3) time per row and step.
    """
    if a.dim() != 2:
        raise ValueError(f"solve_dense needs rows of units, a tensor of shape (rows, N), got shape {tuple(a.shape)}.")
    n = a.shape[1]
    lam, p = (torch.as_tensor(v, device=a.device, dtype=a.dtype).expand(a.shape[0]) for v in (coupling, slope))
    lam, p, known = without_nan(lam, p)
    check_unique(lam.detach(), p.detach(), TANH_BOUND if sigma == TANH and weights is None else ANY_BOUND)
    w = check_weights(weights, n).to(a) if weights is not None else a.new_full((n, n), 1 / n)
    with torch.no_grad():
        value, residual, steps = _newton(a, lam, p, sigma, w, tolerance, max_steps)
    # One more step, whose right side is differentiable, has the derivative of the solution: dz = -A^-1 dF.
    F = _violation(value, a, lam, p, sigma, w)
    value = value - torch.linalg.solve(_jacobian(value, lam.detach(), p.detach(), sigma, w), F)
    value = torch.where(a.isfinite().all(1, keepdim=True) & known.unsqueeze(1), value, torch.nan)
    return Solution(value, residual, steps, residual <= tolerance)


def check_weights(weights: Tensor, n: int) -> Tensor:
    """``ValueError`` unless the matrix makes an energy: symmetric, not negative, normalised."""
    needed = f"coupling weights need to be a symmetric ({n}, {n}) matrix, not negative, with rows that sum to at most 1"
    if weights.shape != (n, n):
        raise ValueError(f"{needed}; got shape {tuple(weights.shape)}.")
    if not torch.allclose(weights, weights.T):
        raise ValueError(f"{needed}; got one that differs from its transpose by {(weights - weights.T).abs().max():g}.")
    if (weights < 0).any():
        raise ValueError(f"{needed}; got an entry of {weights.min():g}.")
    if (weights.sum(1) > 1 + 1e-5).any():
        raise ValueError(f"{needed}; got a row that sums to {weights.sum(1).max():g}. Divide by the largest row sum.")
    return weights


def _violation(z: Tensor, a: Tensor, lam: Tensor, p: Tensor, sigma: Sigmoid, w: Tensor) -> Tensor:
    differences = p[:, None, None] * (z.unsqueeze(1) - z.unsqueeze(2))
    return z - a + lam.unsqueeze(1) * (w * sigma.value(differences)).sum(2)


def _jacobian(z: Tensor, lam: Tensor, p: Tensor, sigma: Sigmoid, w: Tensor) -> Tensor:
    differences = p[:, None, None] * (z.unsqueeze(1) - z.unsqueeze(2))
    K = w * sigma.derivative(differences)
    kappa = (lam * p)[:, None, None]
    return kappa * K + torch.diag_embed(1 - (lam * p).unsqueeze(1) * K.sum(2))


def _newton(
    a: Tensor, lam: Tensor, p: Tensor, sigma: Sigmoid, w: Tensor, tolerance: float, max_steps: int
) -> tuple[Tensor, Tensor, Tensor]:
    finite = a.isfinite().all(1)
    target = torch.where(finite.unsqueeze(1), a, 0)
    scale = target.abs().amax(1).clamp_min(1) if a.numel() else a.new_ones(a.shape[0])
    z = target
    steps = torch.zeros(a.shape[0], dtype=torch.long, device=a.device)
    residual = torch.zeros_like(scale)
    if a.numel() == 0:
        return z, residual, steps
    F = _violation(z, target, lam, p, sigma, w)
    for step in range(max_steps + 1):
        residual = F.abs().amax(1) / scale
        # A tenth of the tolerance: the step after the loop, which carries the gradient, must not matter.
        open_rows = residual > 0.1 * tolerance
        if step == max_steps or not open_rows.any():
            break
        steps += open_rows
        change = torch.linalg.solve(_jacobian(z, lam, p, sigma, w), F)
        # Newton's direction lowers the violation if the step is short enough: halve it, row by row, until it does.
        length = open_rows.to(a.dtype).unsqueeze(1)
        for _ in range(40):
            new = z - length * change
            after = _violation(new, target, lam, p, sigma, w)
            too_long = open_rows & ~(after.norm(dim=1) < F.norm(dim=1))
            if not too_long.any():
                break
            length = torch.where(too_long.unsqueeze(1), length / 2, length)
        z, F = new, after
    return z, torch.where(finite, residual, torch.nan), steps
