"""What training makes small, one loss for classes and two for numbers, and how well outputs do."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["LOSSES", "loss_for", "loss_of"]

LOSSES: dict[str, Callable[..., Tensor]] = {
    "cross_entropy": F.cross_entropy,
    "squared": F.mse_loss,
    "absolute": F.l1_loss,
}
"""The first is for classes, the others for numbers."""


def loss_for(y: Tensor, chosen: str) -> str:
    """The name of the loss: the one chosen, or cross-entropy for classes and the squared error for numbers.

    Raises:
        ValueError: The one chosen is not for answers of this kind.
    """
    numbers = y.is_floating_point()
    if chosen and (chosen != "cross_entropy") != numbers:
        kind, fit = ("numbers", "squared or absolute") if numbers else ("classes", "cross_entropy")
        raise ValueError(f"loss {chosen!r} does not go with answers that are {kind}. Use {fit}, or none.")
    return chosen or ("squared" if numbers else "cross_entropy")


def loss_of(outputs: Tensor, y: Tensor, name: str, reduction: str = "mean") -> Tensor:
    """The loss called ``name``; a network for numbers puts out one column."""
    return LOSSES[name](outputs.squeeze(1) if y.is_floating_point() else outputs, y, reduction=reduction)


def num_right(outputs: Tensor, y: Tensor) -> Tensor:
    """How many classes are right; 0 for numbers, which are never quite."""
    return y.new_zeros(()).long() if y.is_floating_point() else (outputs.argmax(1) == y).sum()


@torch.no_grad()
def scores(parts: Iterable[tuple[Tensor, Tensor]], loss_name: str) -> dict[str, float]:
    """``loss``, its mean, and, of classes, ``accuracy``, the share that is right, of outputs and answers in parts.

    Of more than five classes there is ``top5`` too: the share of images whose class is among the five likeliest.
    """
    num, loss = 0, torch.zeros((), dtype=torch.float64)
    counts: dict[str, Tensor] = {}
    for outputs, y in parts:
        num += len(y)
        loss = loss + loss_of(outputs, y, loss_name, "sum")
        right = {} if y.is_floating_point() else {"accuracy": num_right(outputs, y)}
        if right and outputs.shape[1] > 5:
            right["top5"] = (outputs.topk(5, 1).indices == y.unsqueeze(1)).sum()
        counts = {name: counts.get(name, 0) + count for name, count in right.items()}
    return {"loss": loss.item() / num} | {name: count.item() / num for name, count in counts.items()}
