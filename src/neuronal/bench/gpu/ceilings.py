"""How fast the device is at best, measured in the same run: what a share of the peak is a share of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch


@dataclass(frozen=True)
class Ceilings:
    """Bytes per second of a copy (read and written), and bfloat16 operations per second of a matrix product."""

    bytes_per_second: float
    flops_per_second: float


def device_seconds(action: Callable[[], object], *, rounds: int = 10, warmup: int = 3) -> float:
    """Median time of an action on the device, by its own clock."""
    times = []
    for number in range(warmup + rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        action()
        end.record()
        end.synchronize()
        if number >= warmup:
            times.append(start.elapsed_time(end) / 1e3)
    return float(median(times))


def ceilings(*, size: int = 8192, megabytes: int = 2048) -> Ceilings:
    """Measures both, on random numbers: products of zeros run faster than any network's."""
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    flops = 2 * size**3 / device_seconds(lambda: a @ a)
    source = torch.randn(megabytes * 2**18, device="cuda")
    target = torch.empty_like(source)
    return Ceilings(2 * source.nbytes / device_seconds(lambda: target.copy_(source)), flops)
