"""How well a model does on data it is not trained on, while it is trained."""

from __future__ import annotations

from torch import nn

from neuronal.data.dataset import Split
from neuronal.ops.objective import scores


def validate(model: nn.Module, split: Split, batch_size: int, loss_name: str) -> dict[str, float]:
    """:func:`neuronal.ops.objective.scores` in evaluation mode; the model's mode is left as it was."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    batches = (split.rows(slice(start, start + batch_size)) for start in range(0, len(split), batch_size))
    found = scores(((model(batch.x).float(), batch.y) for batch in batches), loss_name)
    for module, mode in modes:
        module.training = mode
    return found
