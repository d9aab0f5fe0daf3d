"""What training makes small: one loss for classes, two for numbers, told apart by the kind of the answers."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

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


def num_among(outputs: Tensor, y: Tensor, places: int) -> Tensor:
    """How many right classes are among the ``places`` largest outputs."""
    return (outputs.topk(places, 1).indices == y.unsqueeze(1)).sum()
