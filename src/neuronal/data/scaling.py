"""How inputs, and answers that are numbers, are scaled before a network sees them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

SCALINGS = ("unit", "standardise", "standardise_inputs")
"""``unit`` leaves values as they are (images: [0, 1]); ``standardise`` takes the training mean and deviation away, of the
inputs and of answers that are numbers; ``standardise_inputs`` leaves those answers as they are."""


@dataclass(frozen=True)
class Scaling:
    """``(x - mean) / std`` per channel of an image or column of a table; plain numbers, so it survives JSON."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def apply(self, x: Tensor) -> Tensor:
        shape = (-1,) + (1,) * (x.dim() - 2)
        mean, std = (_constants(numbers, x.dtype, x.device).view(shape) for numbers in (self.mean, self.std))
        return (x - mean) / std


@lru_cache(maxsize=64)
def _constants(numbers: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Kept where they are used: putting them there for every batch would have a GPU waited for."""
    # Also for later calls outside of inference mode, which could do nothing with a tensor made inside.
    with torch.inference_mode(False):
        return torch.tensor(numbers, dtype=dtype, device=device)


def unit(stored: Tensor) -> Tensor:
    """Bytes to floats in [0, 1]; anything else as it is."""
    return stored.float().div_(255) if stored.dtype == torch.uint8 else stored


def standardising(stored: Tensor) -> Scaling:
    """The scaling that gives every channel of ``stored`` mean 0 and deviation 1; a constant one is only centred."""
    moments = _moments_of_bytes if stored.dtype == torch.uint8 else _moments
    means, deviations = zip(*(moments(stored[:, channel]) for channel in range(stored.shape[1])), strict=True)
    return Scaling(means, tuple(deviation or 1.0 for deviation in deviations))


def _moments(values: Tensor) -> tuple[float, float]:
    std, mean = (moment.item() for moment in torch.std_mean(values.double(), correction=0))
    # The mean of equal numbers is rounded, which leaves them a deviation that means nothing.
    return mean, std if std > 1e-12 * abs(mean) else 0.0


def _moments_of_bytes(values: Tensor) -> tuple[float, float]:
    """The same from how often each of the 256 values occurs: exact, and a large set never becomes floats."""
    share = values.flatten().bincount(minlength=256).double() / values.numel()
    level = torch.linspace(0, 1, 256, dtype=torch.float64, device=values.device)
    mean = (share * level).sum()
    return mean.item(), (share * (level - mean) ** 2).sum().sqrt().item()
