"""How well a classifier does."""

from __future__ import annotations

from torch import nn
from torch.nn import functional as F

from neuronal.data.dataset import Split
from neuronal.geometry.trace import outputs


def score(model: nn.Module, split: Split) -> dict[str, float]:
    """``loss``, the mean cross-entropy, and ``accuracy``, the share of right classes."""
    logits = outputs(model, split.x)
    y = split.y.to(logits.device)
    return {
        "loss": F.cross_entropy(logits.double(), y).item(),
        "accuracy": (logits.argmax(1) == y).double().mean().item(),
    }
