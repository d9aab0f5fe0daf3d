r"""Curvature of the loss around an image: the measure of memorisation.

.. math:: \mathbb{E}_v \, \Big\| \frac{\nabla L(x + h v) - \nabla L(x)}{h} \Big\|^2 \;\approx\; \mathrm{tr}(H^2)

for :math:`v` of random signs and the input Hessian :math:`H` of the loss. Garg, Ravikumar & Roy, Memorization Through the
Lens of Curvature of Loss Function Around Samples, ICML 2024, estimate it like this, by differences of gradients, which
every neuron has; implicit-bias layers have no second derivatives of their own.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuronal.core.inference import call_on_copy, check_module, evaluating
from neuronal.data.dataset import Split
from neuronal.nn.implicit_bias import ImplicitBiasLayer

ROWS, DRAWS, STEP = 256, 10, 1e-3


@dataclass(frozen=True)
class Curvature:
    """Mean and median over ``rows`` images, each from ``draws`` differences of gradients over ``step``."""

    mean: float
    median: float
    rows: int
    draws: int
    step: float


def curvature(
    model: nn.Module,
    split: Split,
    *,
    rows: int = ROWS,
    draws: int = DRAWS,
    step: float = STEP,
    batch_size: int = 64,
    seed: int = 0,
) -> Curvature:
    """Input curvature of the cross-entropy at the first ``rows`` images with their labels.

    Works on a copy in float64, whose implicit-bias layers are solved to 1e-9: differences of gradients over a small step
    would show the rounding and the tolerance otherwise.
    """
    check_module(model)
    precise = deepcopy(model).double()
    for module in precise.modules():
        if isinstance(module, ImplicitBiasLayer):
            module.tolerance = 1e-9
    device = next(precise.parameters()).device
    generator = torch.Generator().manual_seed(seed)
    found = []
    with evaluating(precise), torch.enable_grad():
        parts = zip(split.x[:rows].split(batch_size), split.y[:rows].split(batch_size), strict=True)
        for x, y in parts:
            x, y = x.to(device, torch.float64), y.to(device)
            base, total = _gradient(precise, x, y), x.new_zeros(len(x))
            for _ in range(draws):
                v = torch.randint(0, 2, x.shape, generator=generator).to(x) * 2 - 1
                difference = (_gradient(precise, x + step * v, y) - base) / step
                total += difference.flatten(1).square().sum(1)
            found.append(total / draws)
    every = torch.cat(found)
    return Curvature(every.mean().item(), every.median().item(), len(every), draws, step)


def _gradient(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Gradient of every image's own loss with respect to the image."""
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(F.cross_entropy(call_on_copy(model, x), y, reduction="sum"), x)
    return gradient
