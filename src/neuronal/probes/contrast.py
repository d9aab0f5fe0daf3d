"""Accuracy when the contrast of every test image is turned down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from neuronal.core.inference import outputs
from neuronal.data.dataset import Split

MULTIPLIERS = (1.0, 0.25, 0.15, 0.125, 0.1, 0.075, 0.05, 0.025, 0.01, 0.001, 0.0001)
"""Those of Table 1 of Geng, Xu, Ye & Si, Scalar Invariant Networks with Zero Bias."""


@dataclass(frozen=True)
class Contrast:
    """What becomes of the classes at each multiplier."""

    multipliers: tuple[float, ...]
    accuracy: tuple[float, ...]
    """Share of right classes."""
    kept: tuple[float, ...]
    """Share of images whose class is the one at multiplier 1, right or wrong."""

    def __post_init__(self) -> None:
        if not len(self.multipliers) == len(self.accuracy) == len(self.kept) > 0:
            raise ValueError("contrast needs one accuracy, and one share kept, for each multiplier.")


def contrast(model: nn.Module, split: Split, *, multipliers: Sequence[float] = MULTIPLIERS) -> Contrast:
    """Accuracy on ``s * x`` for every multiplier ``s``."""
    labels = split.y.cpu()
    full = outputs(model, split.x).argmax(1).cpu()
    accuracy, kept = [], []
    for s in multipliers:
        classes = outputs(model, split.x * s).argmax(1).cpu()
        accuracy.append((classes == labels).double().mean().item())
        kept.append((classes == full).double().mean().item())
    return Contrast(tuple(multipliers), tuple(accuracy), tuple(kept))
