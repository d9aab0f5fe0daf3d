"""How strongly the logits react to small changes of the images."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from neuronal.core.inference import call_on_copy, evaluating
from neuronal.data.dataset import Split

ROWS = 256


@dataclass(frozen=True)
class Jacobian:
    """Means over ``rows`` images of two norms, and the largest spectral norm."""

    frobenius: float
    spectral: float
    largest: float
    rows: int


def jacobian(model: nn.Module, split: Split, *, rows: int = ROWS, batch_size: int = 64) -> Jacobian:
    """Norms of the Jacobian of the logits with respect to the image, at the first ``rows`` images.

    One backward pass per class for a whole batch.
    """
    frobenius, spectral = [], []
    with evaluating(model), torch.enable_grad():
        device = next(model.parameters()).device
        for x in split.x[:rows].split(batch_size):
            j = _jacobians(model, x.to(device)).double()
            frobenius.append(j.flatten(1).norm(dim=1))
            spectral.append(_largest_singular(j))
    every, top = torch.cat(frobenius), torch.cat(spectral)
    return Jacobian(every.mean().item(), top.mean().item(), top.max().item(), len(every))


def _largest_singular(j: Tensor) -> Tensor:
    """Of every matrix, by the smaller Gram matrix: a GPU takes many small eigenproblems at once, but no SVDs."""
    j = j if j.shape[-2] <= j.shape[-1] else j.mT
    top: Tensor = torch.linalg.eigvalsh(j @ j.mT)[..., -1]
    return top.clamp(min=0).sqrt()


def _jacobians(model: nn.Module, x: Tensor) -> Tensor:
    """``(images, classes, pixels)``."""
    x = x.detach().clone().requires_grad_()
    y = call_on_copy(model, x).flatten(1)
    # Images do not see each other in evaluation, so the gradient of a sum holds the gradients of all.
    rows = [torch.autograd.grad(y[:, i].sum(), x, retain_graph=i + 1 < y.shape[1])[0] for i in range(y.shape[1])]
    return torch.stack(rows, 1).flatten(2)
