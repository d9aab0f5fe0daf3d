"""What an attack makes large, input by input."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(logits, y, reduction="none")


def margin(logits: Tensor, y: Tensor) -> Tensor:
    """The best other logit less that of the label: above 0 exactly where the class is wrong."""
    own = logits.gather(1, y[:, None]).squeeze(1)
    others = logits.scatter(1, y[:, None], -torch.inf).amax(1)
    return others - own


def dlr(logits: Tensor, y: Tensor) -> Tensor:
    r"""Difference of logits ratio: the margin over the distance from the first logit to the third.

    .. math:: -\frac{z_y - \max_{i \ne y} z_i}{z_{\pi_1} - z_{\pi_3}}

    It does not change when all logits are scaled or shifted, so large logits cannot hide the gradient.

    Reference:
        Croce & Hein, Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free attacks,
        ICML 2020, arXiv:2003.01690, Eq. 6.
    """
    if logits.shape[1] < 3:
        raise ValueError(f"dlr needs at least 3 classes, got {logits.shape[1]}. Use cross_entropy or margin.")
    top = logits.topk(3, dim=1).values
    return margin(logits, y) / (top[:, 0] - top[:, 2] + 1e-12)


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"cross_entropy": cross_entropy, "dlr": dlr, "margin": margin}
