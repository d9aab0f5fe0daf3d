"""Random changes of a batch of images, on the device it is on.

A random number per image is drawn from a ``torch.Generator`` that is handed in, on the generator's own device: with a
CPU generator the changes are the same on every device, and its state is all a run needs to resume. Nothing loops over
images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from neuronal.names import UnknownName, unknown

FILLS = ("zero", "mean")
ASPECT = 4 / 3
"""Largest width over height, and height over width, of a piece that is cut out to be stretched."""
TRIES = 10
"""Pieces drawn for an image until one fits into it."""


@dataclass(frozen=True)
class Augment:
    """Which changes are made, in this order: resized crop, crop, flip, cutout, contrast.

    (Mixup needs labels too: it is the plan's.)

    Args:
        resized_crop: Smallest and largest share of the image's area that is cut out at random and stretched over the
            whole image, such as (0.08, 1); empty for none.
        crop: Zeros put around the image before a piece of the old size is cut out at random; 0 for none.
        flip: Mirror left and right with probability 1/2.
        cutout: Side of the square that is blanked, its centre anywhere in the image; 0 for none.
        cutout_fill: ``zero``, or ``mean``: each channel's mean over the square.
        contrast: Smallest and largest factor an image is multiplied by, every factor between equally likely; of three
            or more factors each is equally likely, and none between; empty for none.
    """

    resized_crop: tuple[float, ...] = ()
    crop: int = 0
    flip: bool = False
    cutout: int = 0
    cutout_fill: str = "zero"
    contrast: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("contrast", "resized_crop"):
            object.__setattr__(self, name, tuple(map(float, getattr(self, name))))
        shares = self.resized_crop
        if shares and not (len(shares) == 2 and 0 < shares[0] <= shares[1] <= 1):
            raise ValueError(f"resized_crop needs a smallest and a largest share of the area in (0, 1], got {shares}.")
        if self.cutout_fill not in FILLS:
            raise UnknownName(unknown("fill of cutout", self.cutout_fill, FILLS))
        for name in ("crop", "cutout"):
            if type(getattr(self, name)) is not int or not 0 <= getattr(self, name) < 2**31:
                raise ValueError(f"{name} needs to be 0 or more, got {getattr(self, name)}. Give a whole number.")
        ordered = len(self.contrast) > 2 or list(self.contrast) == sorted(self.contrast)
        if len(self.contrast) == 1 or not ordered or not all(0 <= factor < float("inf") for factor in self.contrast):
            raise ValueError(
                f"contrast needs a smallest and a largest factor from 0, or more than two factors, got {self.contrast}."
            )

    @property
    def needs_images(self) -> bool:
        """Whether rows of a table cannot be changed so."""
        return bool(self.resized_crop or self.crop or self.flip or self.cutout)

    def apply(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """A new batch of the shape of ``x``: (images, channels, height, width), or any shape for contrast alone."""
        if self.needs_images and x.dim() != 4:
            raise ValueError(f"crops, flip and cutout need a batch of images, got shape {tuple(x.shape)}.")
        if self.resized_crop:
            x = stretched(x, boxes(x, self.resized_crop[0], self.resized_crop[1], generator))
        if self.crop:
            x = cropped(x, self.crop, generator)
        if self.flip:
            x = flipped(x, generator)
        if self.cutout:
            x = cut_out(x, self.cutout, generator, fill=self.cutout_fill)
        if self.contrast:
            x = contrasted(x, self.contrast, generator)
        return x


def boxes(x: Tensor, smallest: float, largest: float, generator: torch.Generator) -> Tensor:
    """A random box in each image: top, left, height and width in pixels, (images, 4).

    Its share of the area is evenly distributed, and so is the logarithm of width over height, from 3/4 to 4/3. Of
    ``TRIES`` boxes the first that fits into the image counts; if none does, the whole image.

    Reference:
        Szegedy and others, Going Deeper with Convolutions, arXiv:1409.4842, Section 6; the tries are torchvision's.

    Departs:
        Boxes end anywhere, not on whole pixels.
    """
    count, (height, width) = len(x), x.shape[-2:]
    drawn = torch.rand(2 * TRIES + 2, count, generator=generator, device=generator.device)
    area = height * width * (smallest + (largest - smallest) * drawn[:TRIES])
    ratio = ASPECT ** (2 * drawn[TRIES : 2 * TRIES] - 1)
    size = torch.stack([(area / ratio).sqrt(), (area * ratio).sqrt()])
    whole = drawn.new_tensor([height, width]).view(2, 1, 1)
    # One more try that always fits: where nothing else does, the first largest is this one.
    size, fits = torch.cat([size, whole.expand(2, 1, count)], 1), torch.ones(TRIES + 1, count, device=drawn.device)
    fits[:TRIES] = (size[:, :TRIES] <= whole).all(0)
    chosen = size[:, fits.argmax(0), torch.arange(count, device=drawn.device)]
    return torch.cat([drawn[-2:] * (whole[:, 0] - chosen), chosen]).T.to(x.device, x.dtype)


def stretched(x: Tensor, boxes: Tensor) -> Tensor:
    """Each image's box (top, left, height, width) stretched over the whole image, interpolated linearly.

    A box is never larger than the image, so nothing needs to be smoothed before.
    """
    height, width = x.shape[-2:]
    (y, h), (u, w) = ((boxes[:, i] / n, boxes[:, i + 2] / n) for i, n in ((0, height), (1, width)))
    zero = torch.zeros_like(h)
    # Rows of affine_grid take places from -1 to 1 to the like: a factor, and the middle of the box.
    theta = torch.stack([torch.stack([w, zero, 2 * u + w - 1], 1), torch.stack([zero, h, 2 * y + h - 1], 1)], 1)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)


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
