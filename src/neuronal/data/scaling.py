"""How inputs are scaled before a network sees them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SCALINGS = ("unit", "standardise")
"""``unit`` leaves values as they are (images: [0, 1]); ``standardise`` takes the training mean and deviation away."""

_ROWS = 4096


@dataclass(frozen=True)
class Scaling:
    """``(x - mean) / std`` per channel of an image or column of a table; plain numbers, so it survives JSON."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def apply(self, x: Tensor) -> Tensor:
        shape = (-1,) + (1,) * (x.dim() - 2)
        mean, std = (x.new_tensor(numbers).view(shape) for numbers in (self.mean, self.std))
        return (x - mean) / std


def unit(stored: Tensor) -> Tensor:
    """Bytes to floats in [0, 1]; anything else as it is."""
    return stored.float().div_(255) if stored.dtype == torch.uint8 else stored


def standardising(stored: Tensor) -> Scaling:
    """The scaling that gives every channel of ``stored`` mean 0 and deviation 1; a constant one is only centred.

    Works through the rows in parts, so that a large set of bytes is never held as floats.
    """
    others = [dim for dim in range(stored.dim()) if dim != 1]
    count = stored.numel() // stored.shape[1]
    parts = stored.split(_ROWS)
    mean = torch.stack([unit(part).double().sum(others) for part in parts]).sum(0) / count
    centred = (unit(part).double() - mean.view(-1, *(1,) * (stored.dim() - 2)) for part in parts)
    std = (torch.stack([part.square().sum(others) for part in centred]).sum(0) / count).sqrt()
    return Scaling(tuple(mean.tolist()), tuple(std.where(std > 0, 1.0).tolist()))
