"""What a network believes when it sees nothing."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import torch
from torch import nn

from neuronal.core.inference import outputs
from neuronal.data.dataset import Split


@dataclass(frozen=True)
class ZeroImage:
    """Class probabilities and their entropy, in nats."""

    probabilities: tuple[float, ...]
    entropy: float
    uniform_entropy: float
    """If every class were equally likely: the largest possible."""

    def __post_init__(self) -> None:
        if not self.probabilities:
            raise ValueError("zero_image needs a probability for each class, got none.")


def zero_image(model: nn.Module, split: Split) -> ZeroImage:
    """Class probabilities at the image that is zero everywhere; ``split`` gives only its shape."""
    logits = outputs(model, torch.zeros_like(split.x[:1]))[0].double()
    p = logits.softmax(0)
    return ZeroImage(tuple(p.tolist()), torch.special.entr(p).sum().item(), log(len(p)))
