"""Random changes of a batch of images, on the device it is on.

A random number per image is drawn from a ``torch.Generator`` that is handed in, on the generator's own device: with a
CPU generator the changes are the same on every device, and its state is all a run needs to resume. Nothing loops over
images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from neuronal.names import UnknownName, unknown

FILLS = ("zero", "mean")


@dataclass(frozen=True)
class Augment:
    """Which changes are made, in this order: crop, flip, cutout, contrast. (Mixup needs labels too: it is the plan's.)

    Args:
        crop: Zeros put around the image before a piece of the old size is cut out at random; 0 for none.
        flip: Mirror left and right with probability 1/2.
        cutout: Side of the square that is blanked, its centre anywhere in the image; 0 for none.
        cutout_fill: ``zero``, or ``mean``: each channel's mean over the square.
        contrast: Smallest and largest factor an image is multiplied by, every factor between equally likely; of three
            or more factors each is equally likely, and none between; empty for none.
    """

    crop: int = 0
    flip: bool = False
    cutout: int = 0
    cutout_fill: str = "zero"
    contrast: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "contrast", tuple(map(float, self.contrast)))
        if self.cutout_fill not in FILLS:
            raise UnknownName(unknown("fill of cutout", self.cutout_fill, FILLS))
        for name in ("crop", "cutout"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} needs to be 0 or more, got {getattr(self, name)}.")
        ordered = len(self.contrast) > 2 or list(self.contrast) == sorted(self.contrast)
        if len(self.contrast) == 1 or not ordered or not all(0 <= factor < float("inf") for factor in self.contrast):
            raise ValueError(
                f"contrast needs a smallest and a largest factor from 0, or more than two factors, got {self.contrast}."
            )

    def apply(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """A new batch of the shape of ``x``: (images, channels, height, width), or any shape for contrast alone."""
        if (self.crop or self.flip or self.cutout) and x.dim() != 4:
            raise ValueError(f"crop, flip and cutout need a batch of images, got shape {tuple(x.shape)}.")
        if self.crop:
            x = cropped(x, self.crop, generator)
        if self.flip:
            x = flipped(x, generator)
        if self.cutout:
            x = cut_out(x, self.cutout, generator, fill=self.cutout_fill)
        if self.contrast:
            x = contrasted(x, self.contrast, generator)
        return x

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "contrast": list(self.contrast)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        names = [field.name for field in fields(cls)]
        for name in values:
            if name not in names:
                raise UnknownName(unknown("change of images", name, names))
        return cls(**values)


def cropped(x: Tensor, padding: int, generator: torch.Generator) -> Tensor:
    """Each image moved by up to ``padding`` pixels in both directions, zeros where nothing was."""
    count, _, height, width = x.shape
    top, left = _whole(2 * padding + 1, count, generator, x.device), _whole(2 * padding + 1, count, generator, x.device)
    # A view of every window there is, of which one per image is copied.
    windows = F.pad(x, (padding,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(count, device=x.device), :, top, left]


def flipped(x: Tensor, generator: torch.Generator) -> Tensor:
    """Each image mirrored left and right, or not."""
    mirror = _whole(2, len(x), generator, x.device).bool()
    return torch.where(mirror[:, None, None, None], x.flip(-1), x)


def cut_out(x: Tensor, side: int, generator: torch.Generator, *, fill: str = "zero") -> Tensor:
    """Each image with a square blanked; what of the square is outside of the image is lost."""
    count, _, height, width = x.shape
    rows, columns = (
        _from_to(_whole(length, count, generator, x.device) - side // 2, side, length) for length in (height, width)
    )
    square = rows[:, None, :, None] & columns[:, None, None, :]
    if fill == "zero":
        return x.masked_fill(square, 0)
    mean = (x * square).sum((2, 3), keepdim=True) / square.sum((2, 3), keepdim=True)
    return torch.where(square, mean, x)


def contrasted(x: Tensor, factors: Sequence[float], generator: torch.Generator) -> Tensor:
    """Each image multiplied by a factor of its own: one between the two there are, or one of more than two."""
    if len(factors) == 2:
        share = torch.rand(len(x), generator=generator, device=generator.device).to(x.device, x.dtype)
        chosen = factors[0] + (factors[1] - factors[0]) * share
    else:
        chosen = x.new_tensor(factors)[_whole(len(factors), len(x), generator, x.device)]
    return x * chosen.view(-1, *(1,) * (x.dim() - 1))


def _whole(end: int, count: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """``count`` whole numbers from 0 to ``end - 1``."""
    return torch.randint(end, (count,), generator=generator, device=generator.device).to(device)


def _from_to(first: Tensor, size: int, length: int) -> Tensor:
    """One row per entry of ``first``: which of 0 to ``length - 1`` are among the ``size`` numbers from there on."""
    at = torch.arange(length, device=first.device)
    return (at >= first[:, None]) & (at < first[:, None] + size)
