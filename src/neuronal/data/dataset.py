"""A dataset in memory: two splits of images and labels, and what the labels mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs ``x`` and labels ``y``, row for row."""

    x: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"a split needs one label per input, got {len(self.x)} inputs and {len(self.y)} labels.")

    def __len__(self) -> int:
        return len(self.y)

    def to(self, device: torch.device) -> Split:
        return Split(self.x.to(device), self.y.to(device))

    def rows(self, index: Tensor | slice) -> Split:
        return Split(self.x[index], self.y[index])

    def held_out(self, fraction: float, seed: int) -> tuple[Split, Split]:
        """The split without, and with only, ``fraction`` of each class, drawn by ``seed``."""
        if not 0 <= fraction < 1:
            raise ValueError(f"held-out fraction needs to be in [0, 1), got {fraction}.")
        random = torch.Generator().manual_seed(seed)
        held = torch.zeros(len(self), dtype=torch.bool)
        for label in self.y.unique():
            rows = (self.y == label).nonzero().flatten().cpu()
            count = round(fraction * len(rows))
            held[rows[torch.randperm(len(rows), generator=random)[:count]]] = True
        return self.rows(~held), self.rows(held)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test images of shape (channels, side, side) with values in [0, 1]."""

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    source: str
    """Where the data come from and under which licence."""

    @property
    def in_chans(self) -> int:
        return self.train.x.shape[1]

    @property
    def img_size(self) -> int:
        return self.train.x.shape[-1]


def shuffled_batches(count: int, batch_size: int, random: torch.Generator) -> Iterator[Tensor]:
    """Row numbers 0 to ``count - 1`` in a new random order, ``batch_size`` at a time; the last batch may be short."""
    yield from torch.randperm(count, generator=random).split(batch_size)
