"""Accuracy when the contrast of every test image is turned down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from neuronal.data.dataset import Split
from neuronal.geometry.trace import outputs

MULTIPLIERS = (1.0, 0.25, 0.15, 0.125, 0.1, 0.075, 0.05, 0.025, 0.01, 0.001, 0.0001)
"""Those of Table 1 of Geng, Xu, Ye & Si, Scalar Invariant Networks with Zero Bias."""


def contrast(model: nn.Module, split: Split, *, multipliers: Sequence[float] = MULTIPLIERS) -> dict[str, Any]:
    """Accuracy on ``s * x`` for every multiplier ``s``.

    Returns:
        ``multipliers``, ``accuracy`` (share of right classes at each) and ``kept`` (share of images whose class is
        the one at multiplier 1, right or wrong).
    """
    labels = split.y.cpu()
    full = outputs(model, split.x).argmax(1).cpu()
    accuracy, kept = [], []
    for s in multipliers:
        classes = outputs(model, split.x * s).argmax(1).cpu()
        accuracy.append((classes == labels).double().mean().item())
        kept.append((classes == full).double().mean().item())
    return {"multipliers": list(multipliers), "accuracy": accuracy, "kept": kept}
