"""How well a model does on data it is not trained on, while it is trained."""

from __future__ import annotations

from torch import nn

from neuronal.core.inference import call_on_copy, evaluating
from neuronal.data.dataset import Split
from neuronal.ops.objective import scores


def validate(model: nn.Module, split: Split, batch_size: int, loss_name: str) -> dict[str, float]:
    """:func:`neuronal.ops.objective.scores` in evaluation mode; the model's mode is left as it was."""
    batches = (split.rows(slice(start, start + batch_size)) for start in range(0, len(split), batch_size))
    with evaluating(model):
        return scores(((call_on_copy(model, batch.x).float(), batch.y) for batch in batches), loss_name)
