"""Timing in rounds: every action once per round, the median over the rounds with its confidence interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from resource import getpagesize
from threading import Event, Thread

import torch
from torch import Tensor, nn

from neuronal.train.timing import time_rounds

FEWEST = 6
"""Rounds. With fewer even the smallest and the largest value miss the true median in more than 5% of draws."""
Action = Callable[[], None]


@dataclass(frozen=True)
class Interval:
    """A median and its 95% confidence interval."""

    median: float
    low: float
    high: float

    def times(self, factor: float) -> Interval:
        """The same in another unit."""
        return Interval(self.median * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Timed:
    """Seconds of an action, and its ratio to the baseline of the same round."""

    seconds: Interval
    ratio: Interval


@dataclass(frozen=True)
class Setting:
    """Where to measure, and in how many rounds."""

    device: torch.device
    rounds: int

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"


def interval(values: Sequence[float]) -> Interval:
    """Median and its interval: two order statistics, so that nothing is assumed about how the values are distributed.

    The k-th smallest of n values is above the true median as rarely as n coins show fewer than k heads.
    """
    n = len(values)
    if n < FEWEST:
        raise ValueError(f"an interval needs at least {FEWEST} values, got {n}.")
    ordered = sorted(values)
    k, tail = 0, 1.0
    while tail <= 0.025 * 2**n:
        k += 1
        tail += comb(n, k)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    return Interval(middle, ordered[k - 1], ordered[n - k])


def against(seconds: Sequence[float], baseline: Sequence[float]) -> Timed:
    """Seconds of an action beside those of the baseline, round by round."""
    return Timed(interval(seconds), interval([own / other for own, other in zip(seconds, baseline, strict=True)]))


def compare(actions: Mapping[str, Action], baseline: str, setting: Setting, *, warmup: int = 2) -> dict[str, Timed]:
    """Every action beside the baseline in every round."""
    seconds = time_rounds(actions, rounds=setting.rounds, warmup=warmup, cuda=setting.is_cuda)
    return {name: against(own, seconds[baseline]) for name, own in seconds.items()}


def forward_and_backward(module: nn.Module, inputs: Sequence[Tensor], out: Tensor) -> Action:
    """Forward and backward on one input after the other, each with fresh gradients, its own included."""

    def action() -> None:
        for x in inputs:
            x.grad = None
            module.zero_grad()
            module(x).backward(out)

    return action


def peak_bytes(action: Callable[[], object], device: torch.device) -> int:
    """The most bytes taken during ``action`` beyond those before it: on a GPU by tensors, on a CPU by the process.

    On a CPU, memory that was freed before and is kept by the allocator is used again unseen: do nothing large before.
    """
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        action()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    before = highest = _resident_bytes()
    done = Event()

    def watch() -> None:
        nonlocal highest
        while not done.wait(0.002):
            highest = max(highest, _resident_bytes())

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        action()
    finally:
        done.set()
        watcher.join()
    return max(highest, _resident_bytes()) - before


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
