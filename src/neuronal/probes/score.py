"""How well a network does."""

from __future__ import annotations

from math import sqrt

from torch import nn
from torch.nn import functional as F

from neuronal.data.dataset import Split
from neuronal.geometry.trace import outputs


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
        loss = F.mse_loss(logits.squeeze(1).double(), y.double()).item()
        return {"loss": loss, "rmse": sqrt(loss) * split.answer_unit}
    found = {
        "loss": F.cross_entropy(logits.double(), y).item(),
        "accuracy": (logits.argmax(1) == y).double().mean().item(),
    }
    if logits.shape[1] > 5:
        found["top5"] = (logits.topk(5, 1).indices == y.unsqueeze(1)).any(1).double().mean().item()
    return found
