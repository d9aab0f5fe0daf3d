"""Mixup: every image of a batch blended with another one, and the loss blended alike."""

from __future__ import annotations

from random import Random

from torch import Tensor

from neuronal.ops.objective import loss_of


def share_at(alpha: float, seed: int, step: int) -> float:
    r"""Share of the images themselves, drawn from :math:`\mathrm{Beta}(\alpha, \alpha)`.

    A function of seed and step, so that a resumed training, and every process, draws the same.
    """
    return Random(f"mixup {seed} {step}").betavariate(alpha, alpha)


# The partner of an image is its neighbour in the batch: batches are in random order already.
def mixed(x: Tensor, share: float) -> Tensor:
    return share * x + (1 - share) * x.roll(1, 0)


def mixed_loss(outputs: Tensor, y: Tensor, name: str, share: float) -> Tensor:
    """The loss called ``name``, by ``share`` to the answers and by the rest to those of the partners."""
    return share * loss_of(outputs, y, name) + (1 - share) * loss_of(outputs, y.roll(1), name)
