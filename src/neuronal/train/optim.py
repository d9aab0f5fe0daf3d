"""The training plan, and what its names stand for: optimisers and learning-rate schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import cos, isfinite, pi

import torch
from torch import nn
from torch.optim import Optimizer

from neuronal.names import find


@dataclass(frozen=True)
class Plan:
    """How to train: everything but the network, the data and the seed.

    Args:
        epochs: Passes over the training data.
        batch_size: Images per step, over all processes together.
        optim: One of ``OPTIMISERS``.
        lr: Learning rate before the schedule.
        momentum: For ``sgd``; the others ignore it.
        weight_decay: L2 penalty (decoupled for ``adamw``).
        schedule: One of ``SCHEDULES``.
    """

    epochs: int
    batch_size: int
    optim: str
    lr: float
    momentum: float = 0.9
    weight_decay: float = 0.0
    schedule: str = "constant"

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if not 1 <= getattr(self, name) < 2**31:
                raise ValueError(f"{name} needs to be at least 1, and below 2^31, got {getattr(self, name)}.")
        if not (isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"lr needs to be a positive number, got {self.lr}.")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum needs to be in [0, 1), got {self.momentum}.")
        if not (isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ValueError(f"weight_decay needs to be a number that is not negative, got {self.weight_decay}.")
        find(OPTIMISERS, self.optim, "optimiser")
        find(SCHEDULES, self.schedule, "schedule")

    def optimiser(self, parameters: Iterable[nn.Parameter]) -> Optimizer:
        return OPTIMISERS[self.optim](list(parameters), self)

    def lr_at(self, step: int, num_steps: int) -> float:
        """Learning rate of step ``step`` of ``num_steps``, counted from 0."""
        return self.lr * SCHEDULES[self.schedule](step, num_steps)


OPTIMISERS: dict[str, Callable[[list[nn.Parameter], Plan], Optimizer]] = {
    "sgd": lambda p, plan: torch.optim.SGD(p, plan.lr, momentum=plan.momentum, weight_decay=plan.weight_decay),
    "adam": lambda p, plan: torch.optim.Adam(p, plan.lr, weight_decay=plan.weight_decay),
    "adamw": lambda p, plan: torch.optim.AdamW(p, plan.lr, weight_decay=plan.weight_decay),
    "adadelta": lambda p, plan: torch.optim.Adadelta(p, plan.lr, weight_decay=plan.weight_decay),
}


def _constant(step: int, num_steps: int) -> float:
    return 1.0


def _cosine(step: int, num_steps: int) -> float:
    return (1 + cos(pi * step / num_steps)) / 2


def _step(step: int, num_steps: int) -> float:
    # A fifth of the rate at 30, 60 and 80 per cent: epochs 60, 120 and 160 of 200, as in Wide ResNets.
    return float(0.2 ** sum(10 * step >= tenths * num_steps for tenths in (3, 6, 8)))


def _one_cycle_linear(step: int, num_steps: int) -> float:
    # Up and down again, the peak in the middle; (step + 1) so that the first step already learns.
    return 1 - abs(2 * (step + 1) / (num_steps + 1) - 1)


SCHEDULES: dict[str, Callable[[int, int], float]] = {
    "constant": _constant,
    "cosine": _cosine,
    "step": _step,
    "one_cycle_linear": _one_cycle_linear,
}
