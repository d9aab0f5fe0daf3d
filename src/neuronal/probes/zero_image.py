"""What a network believes when it sees nothing."""

from __future__ import annotations

from math import log
from typing import Any

import torch
from torch import nn

from neuronal.data.dataset import Split
from neuronal.geometry.trace import outputs


def zero_image(model: nn.Module, split: Split) -> dict[str, Any]:
    """Class probabilities at the image that is zero everywhere; ``split`` gives only its shape.

    Returns:
        ``probabilities``, their ``entropy`` in nats, and ``uniform_entropy``, the entropy if every class were equally
        likely, which is the largest possible.
    """
    logits = outputs(model, torch.zeros_like(split.x[:1]))[0].double()
    p = logits.softmax(0)
    return {
        "probabilities": p.tolist(),
        "entropy": torch.special.entr(p).sum().item(),
        "uniform_entropy": log(len(p)),
    }
