"""How well a model does on data it is not trained on, while it is trained."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from neuronal.data.dataset import Split


@torch.no_grad()
def validate(model: nn.Module, split: Split, batch_size: int) -> dict[str, float]:
    """``loss``, the mean cross-entropy, and ``accuracy``, in evaluation mode; the model's mode is left as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loss = torch.zeros((), dtype=torch.float64, device=split.y.device)
    right = torch.zeros((), dtype=torch.long, device=split.y.device)
    for start in range(0, len(split), batch_size):
        batch = split.rows(slice(start, start + batch_size))
        x, y = batch.x, batch.y
        logits = model(x)
        loss += F.cross_entropy(logits.float(), y, reduction="sum")
        right += (logits.argmax(1) == y).sum()
    for module, mode in modes:
        module.training = mode
    return {"loss": loss.item() / len(split), "accuracy": right.item() / len(split)}
