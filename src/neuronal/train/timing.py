"""What a training step costs, several networks side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter

import torch
from torch import nn
from torch.nn import functional as F

from neuronal.data.dataset import Split


@dataclass(frozen=True)
class StepTime:
    """Median seconds of a step, and its ratio to the baseline's step of the same round (median, quartiles)."""

    seconds: float
    ratio: float
    ratio_low: float
    ratio_high: float


def step_times(
    models: Mapping[str, nn.Module], baseline: str, batch: Split, *, rounds: int = 40, warmup: int = 5
) -> dict[str, StepTime]:
    """Times one SGD step of every model in every round, so that a busy moment of the machine hits all alike.

    The models are trained a little by it: hand in ones that are not needed afterwards. Each round starts with
    another model, because the first after a change of model finds its weights out of the cache.
    """
    if baseline not in models:
        raise ValueError(f"the baseline needs to be one of the models {', '.join(models)}, got {baseline!r}.")
    names = list(models)
    optimisers = {name: torch.optim.SGD(model.parameters(), lr=1e-6) for name, model in models.items()}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(warmup + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            elapsed = _step(models[name], optimisers[name], batch)
            if number >= warmup:
                seconds[name].append(elapsed)
    return {name: _against(seconds[name], seconds[baseline]) for name in names}


def _step(model: nn.Module, optimiser: torch.optim.Optimizer, batch: Split) -> float:
    wait = torch.cuda.synchronize if batch.x.is_cuda else lambda: None
    wait()
    started = perf_counter()
    loss = F.cross_entropy(model(batch.x), batch.y)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    wait()
    return perf_counter() - started


def _against(seconds: list[float], baseline: list[float]) -> StepTime:
    ratios = [own / other for own, other in zip(seconds, baseline, strict=True)]
    low, middle, high = quantiles(ratios, n=4)
    return StepTime(median(seconds), middle, low, high)
