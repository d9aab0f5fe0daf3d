"""Pixle: pixels of the image are copied to other places of it, and only the class probabilities are asked for."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from neuronal.attacks.climb import BATCH
from neuronal.attacks.result import Attacked, Kept, check_inputs
from neuronal.core.inference import outputs
from neuronal.names import find

Sides = tuple[int, int]
MOST = 100_000
"""Restarts, and patches of each: more of them would not end in a lifetime."""


def pixle(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    restarts: int = 20,
    iterations: int = 10,
    patch: Sides = (2, 10),
    mapping: str = "random",
    seed: int = 0,
    batch_size: int = BATCH,
) -> Attacked:
    """The black-box attack of Pomponi and others, for images of any number of channels, many at a time.

    Per restart ``iterations`` random patches are tried, each of whose pixels goes to another place of the image. The one
    that makes the label least probable is kept, if that is less probable than before, and the next restart goes on there.

    Args:
        model: Asked for its outputs and nothing else; evaluation mode, not changed.
        x: Images, ``(n, channels, height, width)`` in [0, 1].
        y: Their labels.
        restarts: Patches that can be kept.
        iterations: Patches tried for each.
        patch: Smallest and largest side of a patch.
        mapping: Where pixels go, one of ``MAPPINGS``.
        seed: Fixes all that is random.
        batch_size: Images at a time; the result does not depend on it.

    Law:
        Every pixel of the result is a pixel of the image (tests/attacks/test_pixle.py).

    Reference:
        Pomponi, Scardapane & Uncini, Pixle: a fast and effective black-box attack based on rearranging pixels, IJCNN 2022,
        arXiv:2202.02236.

    Departs:
        Sides of a patch are cut off at the image's. The similarity mappings are from the description: destinations are the
        more likely the nearer their colour is, equal colours apart; or the nearest one.
    """
    x, y = check_inputs(x, y, (0.0, 1.0))
    if x.dim() != 4:
        raise ValueError(f"pixle needs images of shape (n, channels, height, width), got {tuple(x.shape)}.")
    for name, count in (("restarts", restarts), ("iterations", iterations)):
        if type(count) is not int or not 1 <= count <= MOST:
            raise ValueError(f"{name} needs to be a whole number from 1 to {MOST:,}, got {count}.")
    if not 1 <= patch[0] <= patch[1]:
        raise ValueError(f"patch needs a smallest and a largest side from 1, got {patch}.")
    place = find(MAPPINGS, mapping, "mapping of pixle")
    kept = Kept(model, x, y, batch_size)
    kept.loss = _loss(model, x, y, batch_size)[0].float()
    kept.queries += 1
    generator, device = torch.Generator().manual_seed(seed), next(model.parameters()).device
    current = x.clone()
    for _ in range(restarts):
        for _ in range(iterations):
            # For all images at once, whichever are left: random numbers depend on nothing but the seed.
            patches = _Patches(x, patch, generator)
            chance = torch.rand(patches.valid.shape, generator=generator)
            rows = kept.left()
            for part in rows.split(batch_size):
                moved = patches.moved(current[part].to(device), part, chance[part].to(device), place)
                kept.queries[part] += 1
                kept.add(part, moved, *_loss(model, moved, y[part], batch_size))
        current = kept.points.clone()
        if not len(kept.left()):
            break
    return kept.result()


def _loss(model: nn.Module, x: Tensor, y: Tensor, batch_size: int) -> tuple[Tensor, Tensor]:
    """Minus the probability of the label, and whether the class is wrong."""
    logits = outputs(model, x, batch_size=batch_size).cpu()
    p = logits.double().softmax(1).gather(1, y[:, None]).squeeze(1)
    return -p, logits.argmax(1) != y


class _Patches:
    """A random patch of every image: the places of its pixels, with room for the largest one."""

    def __init__(self, x: Tensor, sides: Sides, generator: torch.Generator) -> None:
        n, _, height, width = x.shape
        tall, wide = min(sides[1], height), min(sides[1], width)
        u = torch.rand(4, n, generator=generator)
        h = _between(u[0], min(sides[0], height), tall)
        w = _between(u[1], min(sides[0], width), wide)
        top, left = ((u[2] * (height - h + 1)).long(), (u[3] * (width - w + 1)).long())
        row, column = torch.arange(tall).repeat_interleave(wide), torch.arange(wide).repeat(tall)
        self.valid = (row < h[:, None]) & (column < w[:, None])
        self.source = torch.where(self.valid, (top[:, None] + row) * width + left[:, None] + column, 0)

    def moved(self, images: Tensor, rows: Tensor, chance: Tensor, place: Mapping) -> Tensor:
        """The images with the pixels of their patches copied to where ``place`` says."""
        valid, source = (one[rows].to(images.device) for one in (self.valid, self.source))
        flat = images.flatten(2)
        pixels = flat.gather(2, source[:, None].expand(-1, flat.shape[1], -1))
        target = place(flat, pixels, chance)
        # Of several that go to one place the last one stays; the others, and those that are none, go to a place outside.
        later = (target[:, :, None] == target[:, None, :]) & valid[:, None, :]
        overwritten = later.triu(1).any(2)
        outside = flat.shape[2]
        target = torch.where(valid & ~overwritten, target, outside)
        room = torch.cat([flat, flat[:, :, :1]], 2)
        room.scatter_(2, target[:, None].expand_as(pixels), pixels)
        return room[:, :, :outside].view_as(images)


def _between(u: Tensor, low: int, high: int) -> Tensor:
    """Whole numbers from ``low`` to ``high``, from numbers in [0, 1)."""
    return low + (u * (high - low + 1)).long()


Mapping = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(images (n, channels, places), pixels (n, channels, slots), chance in [0, 1) for each slot) -> places (n, slots)."""


def _anywhere(flat: Tensor, pixels: Tensor, chance: Tensor) -> Tensor:
    return (chance * flat.shape[2]).long()


def _similarity(flat: Tensor, pixels: Tensor) -> Tensor:
    """1 / (1 + distance of the colours), and 0 where they are equal: (n, slots, places)."""
    distance = torch.cdist(pixels.transpose(1, 2), flat.transpose(1, 2), compute_mode="donot_use_mm_for_euclid_dist")
    return torch.where(distance > 0, 1 / (1 + distance), 0.0)


def _nearest(flat: Tensor, pixels: Tensor, chance: Tensor) -> Tensor:
    return _similarity(flat, pixels).argmax(2)


def _near(flat: Tensor, pixels: Tensor, chance: Tensor) -> Tensor:
    up_to = _similarity(flat, pixels).cumsum(2)
    found = torch.searchsorted(up_to, (chance * up_to[:, :, -1])[:, :, None].contiguous(), right=True).squeeze(2)
    return found.clamp(max=flat.shape[2] - 1)


MAPPINGS: dict[str, Mapping] = {"random": _anywhere, "similarity": _nearest, "similarity_random": _near}
