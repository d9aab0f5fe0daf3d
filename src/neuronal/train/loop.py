"""The training loop, read from top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, isfinite
from statistics import median
from time import perf_counter

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.nn import functional as F

from neuronal.data.dataset import Split, shuffled_batches
from neuronal.train.optim import Plan

Probe = Callable[[nn.Module, int], Mapping[str, float]]
"""A measurement taken while training: (model, steps done) -> named numbers."""

# Looking at a loss waits for the device, so losses are looked at in groups of this many steps.
_LOOK_EVERY = 50


@dataclass(frozen=True)
class Epoch:
    """One pass over the training data, as it went: loss and accuracy are running means over its steps."""

    number: int
    steps: int
    loss: float
    accuracy: float
    lr: float
    measured: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Fit:
    """What a training left behind besides the trained model."""

    epochs: tuple[Epoch, ...]
    step_seconds: float
    """Median over the epochs of the mean time of a step."""


class Diverged(RuntimeError):
    """The loss stopped being a finite number; ``step`` counts from 1."""

    def __init__(self, step: int, lr: float, loss: float) -> None:
        super().__init__(f"the loss became {loss} at step {step} (learning rate {lr:g})")
        self.step, self.lr, self.loss = step, lr, loss


def fit(
    model: nn.Module,
    train: Split,
    plan: Plan,
    *,
    seed: int = 0,
    probes: Sequence[Probe] = (),
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Fit:
    """Trains ``model`` in place on the device Accelerate chooses; cross-entropy, one schedule step per batch.

    Args:
        model: Images to logits. Afterwards it is on that device, in training mode.
        train: All training data; it is moved to the device once.
        plan: Epochs, batches, optimiser, learning rate.
        seed: Fixes the order of the images, for any model the same.
        probes: Called after every epoch; their numbers end up in ``Epoch.measured``.
        on_epoch: Told of every epoch as it ends, for progress displays.

    Raises:
        Diverged: The loss became NaN or infinite.
    """
    accelerator = Accelerator()
    device, rank, world = accelerator.device, accelerator.process_index, accelerator.num_processes
    if plan.batch_size % world:
        raise ValueError(f"batch_size needs to be a multiple of the {world} processes, got {plan.batch_size}.")
    optimiser = plan.optimiser(model.parameters())
    model, optimiser = accelerator.prepare(model, optimiser)
    train = train.to(device)
    count = len(train) // world * world
    order = torch.Generator().manual_seed(seed)
    num_steps = plan.epochs * ceil(count / plan.batch_size)
    losses = _Losses(accelerator)
    epochs: list[Epoch] = []
    seconds: list[float] = []
    step = 0
    for number in range(1, plan.epochs + 1):
        model.train()
        started, first_step = perf_counter(), step
        correct = torch.zeros((), dtype=torch.long, device=device)
        for index in shuffled_batches(count, plan.batch_size, order):
            lr = plan.lr_at(step, num_steps)
            for group in optimiser.param_groups:
                group["lr"] = lr
            batch = train.rows(index[rank::world].to(device))
            logits = model(batch.x)
            loss = F.cross_entropy(logits, batch.y)
            optimiser.zero_grad()
            accelerator.backward(loss)
            optimiser.step()
            step += 1
            losses.add(loss, step, lr)
            correct += (logits.detach().argmax(1) == batch.y).sum()
        steps = step - first_step
        mean_loss = losses.mean()
        seconds.append((perf_counter() - started) / steps)
        accuracy = accelerator.reduce(correct).item() / count
        measured = {
            name: value for probe in probes for name, value in probe(accelerator.unwrap_model(model), step).items()
        }
        epochs.append(Epoch(number, step, mean_loss, accuracy, lr, measured))
        if on_epoch:
            on_epoch(epochs[-1])
    accelerator.free_memory()
    return Fit(tuple(epochs), median(seconds))


class _Losses:
    """The losses of an epoch; looked at, and checked to be finite, only every so many steps."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self._unseen: list[tuple[Tensor, int, float]] = []
        self._seen: list[float] = []

    def add(self, loss: Tensor, step: int, lr: float) -> None:
        self._unseen.append((loss.detach(), step, lr))
        if len(self._unseen) == _LOOK_EVERY:
            self._look()

    def mean(self) -> float:
        """Mean over the epoch; the next epoch starts empty."""
        self._look()
        mean = sum(self._seen) / len(self._seen)
        self._seen = []
        return mean

    def _look(self) -> None:
        if not self._unseen:
            return
        losses = torch.stack([loss for loss, _, _ in self._unseen])
        values: list[float] = self._accelerator.reduce(losses, "mean").tolist()
        for value, (_, step, lr) in zip(values, self._unseen, strict=True):
            if not isfinite(value):
                raise Diverged(step, lr, value)
        self._unseen = []
        self._seen += values
