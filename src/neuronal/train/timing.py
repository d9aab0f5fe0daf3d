"""What things cost, measured side by side: a ratio in one run means something, a time alone does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter

import torch
from torch import nn

from neuronal.data.dataset import Split
from neuronal.ops.objective import loss_for, loss_of


@dataclass(frozen=True)
class StepTime:
    """Median seconds of an action, and its ratio to the baseline's of the same round (median, quartiles)."""

    seconds: float
    ratio: float
    ratio_low: float
    ratio_high: float


def side_by_side(
    actions: Mapping[str, Callable[[], None]], baseline: str, *, rounds: int, warmup: int, cuda: bool = False
) -> dict[str, StepTime]:
    """Times every action in every round (see :func:`time_rounds`), and compares it with the baseline of that round."""
    if baseline not in actions:
        raise ValueError(f"the baseline needs to be one of {', '.join(actions)}, got {baseline!r}.")
    seconds = time_rounds(actions, rounds=rounds, warmup=warmup, cuda=cuda)
    return {name: _against(seconds[name], seconds[baseline]) for name in actions}


def time_rounds(
    actions: Mapping[str, Callable[[], object]], *, rounds: int, warmup: int, cuda: bool = False
) -> dict[str, list[float]]:
    """Seconds of every action in every round, so that a busy moment of the machine hits all alike.

    Each round starts with another action, because the first after a change finds its data out of the cache.
    """
    wait = torch.cuda.synchronize if cuda else lambda: None
    names = list(actions)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(warmup + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            wait()
            started = perf_counter()
            actions[name]()
            wait()
            if number >= warmup:
                seconds[name].append(perf_counter() - started)
    return seconds


def step_times(
    models: Mapping[str, nn.Module], baseline: str, batch: Split, *, rounds: int = 40, warmup: int = 5
) -> dict[str, StepTime]:
    """Times an SGD step of every model; they are trained a little by it, so hand in ones not needed afterwards."""

    def step(model: nn.Module) -> Callable[[], None]:
        optimiser = torch.optim.SGD(model.parameters(), lr=1e-6)

        def once() -> None:
            loss = loss_of(model(batch.x), batch.y, loss_for(batch.y, ""))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()

        return once

    actions = {name: step(model) for name, model in models.items()}
    return side_by_side(actions, baseline, rounds=rounds, warmup=warmup, cuda=batch.x.is_cuda)


def _against(seconds: list[float], baseline: list[float]) -> StepTime:
    ratios = [own / other for own, other in zip(seconds, baseline, strict=True)]
    low, middle, high = quantiles(ratios, n=4, method="inclusive")
    return StepTime(median(seconds), middle, low, high)
