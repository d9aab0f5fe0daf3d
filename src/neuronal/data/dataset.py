"""A dataset in memory: two splits of inputs and answers, and what the answers mean."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from neuronal.core.checksum import checksum
from neuronal.data.scaling import SCALINGS, Scaling, standardising, unit
from neuronal.names import UnknownName, unknown

Task = Literal["classification", "regression"]


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs ``x`` and answers ``y``, row for row.

    Large image sets are stored as bytes, a quarter of the memory of floats, and become floats when ``x`` is asked
    for. So take the rows of a batch first and their ``x`` afterwards: ``split.rows(index).x``.

    Args:
        stored: Inputs as they are kept: floats, or bytes that stand for [0, 1].
        answers: Class numbers, or floats when the task is regression.
        scaling: Applied by ``x``, after bytes have become floats.
        answer_scaling: Applied by ``y``, for regression.
        target: The device that rows are brought to when they are taken; where the inputs are if left out.
    """

    stored: Tensor
    answers: Tensor
    scaling: Scaling | None = None
    answer_scaling: Scaling | None = None
    target: torch.device | None = None

    def __post_init__(self) -> None:
        if len(self.stored) != len(self.answers):
            raise ValueError(
                f"a split needs one label per input, got {len(self.stored)} inputs and {len(self.answers)} labels."
            )

    @property
    def x(self) -> Tensor:
        """All inputs as floats, ready for a network."""
        x = unit(self.stored)
        return x if self.scaling is None else self.scaling.apply(x)

    @property
    def y(self) -> Tensor:
        """Class numbers, or the numbers to predict, scaled."""
        return self.answers if self.answer_scaling is None else self.answer_scaling.apply(self.answers)

    @property
    def answer_unit(self) -> float:
        """How much one of ``y`` is in the answers' own units."""
        return 1.0 if self.answer_scaling is None else self.answer_scaling.std[0]

    def __len__(self) -> int:
        return len(self.answers)

    def to(self, device: torch.device) -> Split:
        """The same on ``device``; inputs that would fill it stay where they are, and only rows that are taken go there."""
        if not _fits(self.stored.nbytes, device):
            return replace(self, answers=self.answers.to(device), target=device)
        return replace(self, stored=self.stored.to(device), answers=self.answers.to(device), target=None)

    def rows(self, index: Tensor | slice) -> Split:
        if self.target is None:
            return replace(self, stored=self.stored[index], answers=self.answers[index])
        here = index.to(self.stored.device) if isinstance(index, Tensor) else index
        return replace(self, stored=self.stored[here].to(self.target), answers=self.answers[index], target=None)

    def groups(self) -> list[Tensor]:
        """Row numbers of each class, on the CPU; one group with all rows when the answers are not classes."""
        y = self.answers.cpu()
        if y.is_floating_point():
            return [torch.arange(len(y))]
        return list(y.argsort(stable=True).split(y.unique(return_counts=True)[1].tolist()))

    def held_out(self, fraction: float, seed: int) -> tuple[Split, Split]:
        """The split without, and with only, ``fraction`` of each class, drawn by ``seed``."""
        if not 0 <= fraction < 1:
            raise ValueError(f"held-out fraction needs to be in [0, 1), got {fraction}.")
        random = torch.Generator().manual_seed(seed)
        held = torch.zeros(len(self), dtype=torch.bool)
        for rows in self.groups():
            count = round(fraction * len(rows))
            held[rows[torch.randperm(len(rows), generator=random)[:count]]] = True
        return self.rows(~held), self.rows(held)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test data of one kind.

    Images have shape (channels, side, side) and values in [0, 1]. A table, or points in the plane, has one row of
    features per example: ``x`` is (n, features), and to a network each feature is a channel of a 1x1 image
    (``in_chans`` is the number of features, ``img_size`` is 1), which is how ``fcn`` and ``mlp1`` read it.

    With ``task="regression"`` the answers are floats of shape (n,), and there are no classes.
    """

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    source: str
    """Where the data come from and under which licence."""
    task: Task = "classification"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.train.stored.shape[1:])

    @property
    def in_chans(self) -> int:
        return self.shape[0]

    @property
    def img_size(self) -> int:
        return self.shape[-1] if len(self.shape) > 1 else 1

    @property
    def num_outputs(self) -> int:
        """What a network for this set puts out: one number per class, or the one number to predict."""
        return len(self.classes) if self.task == "classification" else 1

    @property
    def network_shape(self) -> dict[str, int]:
        """What ``create_model`` asks about the data."""
        return {"num_classes": self.num_outputs, "in_chans": self.in_chans, "img_size": self.img_size}

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Inputs and answers of both splits, as they are stored."""
        return self.train.stored, self.train.answers, self.test.stored, self.test.answers

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.tensors)

    @property
    def version(self) -> int:
        """Grows whenever a tensor is written to in place; writing through numpy is not noticed."""
        return sum(0 if part.is_inference() else part._version for part in self.tensors)

    def checksum(self) -> str:
        """Sixteen characters that differ when an input, an answer or a class does; scaling does not count.

        Computed once, and again after a tensor was written to.
        """
        if (now := self.version) not in self._checksums:
            self._checksums[now] = self._checksum()
        return self._checksums[now]

    @cached_property
    def _checksums(self) -> dict[int, str]:
        return {}

    def _checksum(self) -> str:
        parts = (part for values in self.tensors for part in (f"{tuple(values.shape)}{values.dtype}", values))
        return checksum(json.dumps(self.classes), *parts)[:16]

    def scaled(self, how: str) -> Dataset:
        """The same data scaled as ``how`` says, one of ``SCALINGS``; test data by the numbers of the training data."""
        if how not in SCALINGS:
            raise UnknownName(unknown("scaling", how, SCALINGS))
        scaling = None if how == "unit" else standardising(self.train.stored)
        numbers = how == "standardise" and self.task == "regression"
        answers = standardising(self.train.answers[:, None]) if numbers else None
        train, test = (replace(part, scaling=scaling, answer_scaling=answers) for part in (self.train, self.test))
        return replace(self, train=train, test=test)


def _fits(size: int, device: torch.device) -> bool:
    """Whether so many bytes leave a GPU half of its free memory; any other device has what there is."""
    return device.type != "cuda" or size <= torch.cuda.mem_get_info(device)[0] / 2


def shuffled_batches(
    count: int, batch_size: int, random: torch.Generator, device: torch.device | None = None
) -> Iterator[Tensor]:
    """Row numbers 0 to ``count - 1`` in a new random order, ``batch_size`` at a time; the last batch may be short.

    All of them go to ``device`` at once: a copy for every batch would have a GPU waited for every time.
    """
    yield from torch.randperm(count, generator=random).to(device).split(batch_size)
