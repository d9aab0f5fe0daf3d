"""How well a model does on data it is not trained on, while it is trained."""

from __future__ import annotations

import torch
from torch import nn

from neuronal.data.dataset import Split
from neuronal.inference import evaluating
from neuronal.train.objective import loss_of, num_among, num_right


def validate(model: nn.Module, split: Split, batch_size: int, loss_name: str) -> dict[str, float]:
    """``loss``, its mean, and, of classes, ``accuracy``, in evaluation mode; the model's mode is left as it was.

    Of more than five classes there is ``top5`` too: the share of images whose class is among the five likeliest.
    """
    device, numbers = split.answers.device, split.answers.is_floating_point()
    loss = torch.zeros((), dtype=torch.float64, device=device)
    counts = torch.zeros(2, dtype=torch.long, device=device)
    names = [] if numbers else ["accuracy"]
    with evaluating(model):
        for start in range(0, len(split), batch_size):
            batch = split.rows(slice(start, start + batch_size))
            x, y = batch.x, batch.y
            logits = model(x)
            loss += loss_of(logits.float(), y, loss_name, "sum")
            counts[0] += num_right(logits, y)
            if not numbers and logits.shape[1] > 5:
                names = ["accuracy", "top5"]
                counts[1] += num_among(logits, y, 5)
    shares = [count / len(split) for count in counts.tolist()]
    return {"loss": loss.item() / len(split)} | dict(zip(names, shares, strict=False))
