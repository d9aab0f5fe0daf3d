"""How well a model does on data it is not trained on, while it is trained."""

from __future__ import annotations

import torch
from torch import nn

from neuronal.data.dataset import Split
from neuronal.train.objective import loss_of, num_right


@torch.no_grad()
def validate(model: nn.Module, split: Split, batch_size: int, loss_name: str) -> dict[str, float]:
    """``loss``, its mean, and, of classes, ``accuracy``, in evaluation mode; the model's mode is left as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loss = torch.zeros((), dtype=torch.float64, device=split.answers.device)
    right = torch.zeros((), dtype=torch.long, device=split.answers.device)
    for start in range(0, len(split), batch_size):
        batch = split.rows(slice(start, start + batch_size))
        x, y = batch.x, batch.y
        logits = model(x)
        loss += loss_of(logits.float(), y, loss_name, "sum")
        right += num_right(logits, y)
    for module, mode in modes:
        module.training = mode
    mean = {"loss": loss.item() / len(split)}
    return mean if split.answers.is_floating_point() else mean | {"accuracy": right.item() / len(split)}
