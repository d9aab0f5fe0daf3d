"""Timing in rounds: every action once per round, the median over the rounds with its confidence interval."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from ctypes import CDLL
from dataclasses import dataclass
from math import comb
from pathlib import Path

import torch
from torch import Tensor, nn

from neuronal.train.timing import time_rounds

FEWEST = 6
"""Rounds. With fewer even the smallest and the largest value miss the true median in more than 5% of draws."""
Action = Callable[[], object]


@dataclass(frozen=True)
class Setting:
    """Where to measure, and in how many rounds."""

    device: torch.device
    rounds: int

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"


@dataclass(frozen=True)
class Interval:
    """A median and its 95% confidence interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Timed:
    """Seconds of an action and of its baseline, and their ratio round by round."""

    seconds: Interval
    baseline: Interval
    ratio: Interval


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
    """An action beside the baseline of the same rounds."""
    ratios = [own / other for own, other in zip(seconds, baseline, strict=True)]
    return Timed(interval(seconds), interval(baseline), interval(ratios))


def compare(actions: Mapping[str, Action], baseline: str, setting: Setting, *, warmup: int = 1) -> dict[str, Timed]:
    """Every other action beside the baseline."""
    seconds = time_rounds(actions, rounds=setting.rounds, warmup=warmup, cuda=setting.is_cuda)
    plain = seconds.pop(baseline)
    return {name: against(own, plain) for name, own in seconds.items()}


def forward_and_backward(module: nn.Module, inputs: Sequence[Tensor], out: Tensor) -> Action:
    """Forward and backward on one input after the other, with fresh gradients each, that of the input included."""

    def action() -> None:
        for x in inputs:
            x.grad = None
            module.zero_grad()
            module(x).backward(out)

    return action


def as_graph(action: Action) -> Action:
    """Replays ``action`` as a CUDA graph: what it costs when the host launches nothing."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        _ = action(), action(), action()
    with torch.cuda.graph(graph, stream=stream):
        action()
    return graph.replay


def peak_bytes(action: Action, device: torch.device) -> int:
    """The most bytes taken during ``action`` beyond those before it: on a GPU by tensors, on a CPU by the process.

    Raises:
        OSError: The system is not Linux.
    """
    if device.type == "cuda":
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        action()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    gc.collect()
    # Memory that was freed and is kept by the allocator would be used again unseen.
    CDLL(None).malloc_trim(0)
    # Sets the peak to what is taken now.
    Path("/proc/self/clear_refs").write_text("5")
    before = _peak()
    action()
    return _peak() - before


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
