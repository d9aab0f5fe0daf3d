"""How well a network does."""

from __future__ import annotations

from math import sqrt

from torch import nn

from neuronal.core.inference import outputs
from neuronal.data.dataset import Split
from neuronal.ops.objective import scores


def score(model: nn.Module, split: Split) -> dict[str, float]:
    """How far the answers are off.

    Returns:
        Of classes, ``loss``, the mean cross-entropy, and ``accuracy``, the share of right classes; of more than five
        classes, ``top5``, the share of images whose class is among the five likeliest. Of numbers, ``loss``, the mean
        squared error, and ``rmse``, its root in the answers' own units.
    """
    logits = outputs(model, split.x)
    y = split.y.to(logits.device)
    if y.is_floating_point():
        found = scores([(logits.double(), y.double())], "squared")
        return found | {"rmse": sqrt(found["loss"]) * split.answer_unit}
    return scores([(logits.double(), y)], "cross_entropy")
