"""What a training tells of itself, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import isfinite
from statistics import median
from typing import Self

import torch
from accelerate import Accelerator
from torch import Tensor

from neuronal.core.records import Json
from neuronal.train.schedule import Plateau

# Looking at a loss waits for the device, so losses are looked at in groups of this many steps.
LOOK_EVERY = 50


@dataclass(frozen=True)
class Step:
    """A moment of a training, for live displays: every so many steps, and after the last of an epoch."""

    number: int
    num_steps: int
    """Of the whole training."""
    epoch: int
    loss: float
    """Mean over the steps since the last moment."""
    accuracy: float | None
    """Of the epoch so far, on the images of this process; None when the answers are numbers."""
    lr: float
    images_per_second: float
    """Of the epoch so far, all processes together."""


@dataclass(frozen=True)
class Epoch:
    """One pass over the training data, as it went: loss and accuracy are running means over its steps.

    There is no accuracy when the answers are numbers.
    """

    number: int
    steps: int
    loss: float
    accuracy: float | None
    lr: float
    measured: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Fit:
    """What a training left behind besides the trained model."""

    epochs: tuple[Epoch, ...]
    step_seconds: float
    """Median over the epochs of the mean time of a step."""
    best_epoch: int | None = None
    """The epoch whose weights the model has, where the plan asks for the best ones; None for the last."""
    began_at: int = field(default=0, compare=False)
    """Steps that were done already, by the checkpoint it went on from; what comes of a training does not depend on it."""


class Diverged(RuntimeError):
    """The loss stopped being a finite number; ``step`` counts from 1, ``before`` is what there was of the training."""

    before: Fit | None = None

    def __init__(self, step: int, lr: float, loss: float) -> None:
        super().__init__(f"the loss became {loss} at step {step} (learning rate {lr:g})")
        self.step, self.lr, self.loss = step, lr, loss


@dataclass
class Progress:
    """Where a training stands: what is done, in numbers that fit into JSON."""

    epoch: int = 1
    """The one under way, counted from 1."""
    batch: int = 0
    """Batches of it that are done."""
    step: int = 0
    seconds: float = 0.0
    """Spent on this epoch so far."""
    plateau: Plateau = field(default_factory=Plateau)
    epochs: list[Epoch] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    """Of every finished epoch."""

    def so_far(self, began_at: int, best_epoch: int | None = None) -> Fit:
        """What there is of a training that began at this step."""
        step_seconds = median(self.step_seconds) if self.step_seconds else 0.0
        return Fit(tuple(self.epochs), step_seconds, best_epoch, began_at)

    @contextmanager
    def noted(self, began_at: int) -> Iterator[None]:
        """Inside: ``Diverged`` takes along what there was."""
        try:
            yield
        except Diverged as diverged:
            diverged.before = self.so_far(began_at)
            raise

    def to_json(self) -> Json:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Json) -> Self:
        given = dict(values)
        given["plateau"] = Plateau(**given["plateau"])
        given["epochs"] = [Epoch(**epoch) for epoch in given["epochs"]]
        return cls(**given)


class Losses:
    """The losses of an epoch; looked at, and checked to be finite, only every so many steps."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._unseen: list[tuple[Tensor, int, float]] = []
        self.seen: list[float] = []

    def add(self, loss: Tensor, step: int, lr: float) -> float | None:
        """Takes a loss; when it is time to look, the mean of those not seen before."""
        self._unseen.append((loss.detach(), step, lr))
        return self.look() if len(self._unseen) == LOOK_EVERY else None

    def mean(self) -> float:
        """Mean over the epoch; the next epoch starts empty."""
        self.look()
        mean = sum(self.seen) / len(self.seen)
        self.seen = []
        return mean

    def look(self) -> float | None:
        """Mean of the losses not seen before, if there are any; raises ``Diverged`` at the first that is not finite."""
        if not self._unseen:
            return None
        losses = torch.stack([loss for loss, _, _ in self._unseen])
        values: list[float] = self._accelerator.reduce(losses, "mean").tolist()
        for value, (_, step, lr) in zip(values, self._unseen, strict=True):
            if not isfinite(value):
                raise Diverged(step, lr, value)
        self._unseen = []
        self.seen += values
        return sum(values) / len(values)
