"""A model in evaluation mode, for as long as it takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

__all__ = ["evaluating"]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """Inside: evaluation mode and no gradients; afterwards every module's own flag is back."""
    flags = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield model
    finally:
        for module, flag in flags.items():
            module.training = flag
