"""How fast the device is at best, measured in the same run: what a share of the peak is a share of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from neuronal.bench.gpu.row import Row

# Side of the matrices, megabytes copied, and exponents: large on a GPU, so that starting the work takes no part of it.
SIZES = {"cuda": (8192, 2048, 2**26), "cpu": (128, 1, 2**10)}
REPEATED = 64


@dataclass(frozen=True)
class Ceilings:
    """What the device does at best.

    Bytes of a copy, read and written; bfloat16 operations of a matrix product; and special functions (exponentials).
    """

    bytes_per_second: float
    flops_per_second: float
    special_functions_per_second: float


def device_seconds(action: Callable[[], object], device: torch.device, *, rounds: int = 11, warmup: int = 3) -> float:
    """Median time of an action, by the clock of the device."""
    clock = _gpu_clock if device.type == "cuda" else _cpu_clock
    return float(median([clock(action) for _ in range(warmup + rounds)][warmup:]))


def _gpu_clock(action: Callable[[], object]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    action()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def _cpu_clock(action: Callable[[], object]) -> float:
    started = perf_counter()
    action()
    return perf_counter() - started


def ceilings(device: torch.device) -> Ceilings:
    """Measures all three, on random numbers: products of zeros run faster than any network's."""
    size, megabytes, exponents = SIZES[device.type]
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    product = device_seconds(lambda: a @ a, device)
    source = torch.randn(megabytes * 2**18, device=device)
    target = torch.empty_like(source)
    copy = device_seconds(lambda: target.copy_(source), device)
    x = torch.rand(exponents, device=device)
    # Fused, so that numbers stay in registers between two exponentials.
    fused = torch.compile(_exponentials, dynamic=False) if device.type == "cuda" else _exponentials
    special = device_seconds(lambda: fused(x), device)
    return Ceilings(2 * megabytes * 2**20 / copy, 2 * size**3 / product, REPEATED * exponents / special)


def _exponentials(x: Tensor) -> Tensor:
    for _ in range(REPEATED):
        x = torch.exp2(-x)
    return x


def gpu() -> torch.device | None:
    """The CUDA device, if there is one."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else None


@dataclass(frozen=True)
class Setting:
    """Where to measure and how often; and how fast the device is at best, measured when it is first asked for."""

    device: torch.device
    rounds: int
    ready: dict[str, Any] = field(default_factory=dict)
    """What was done ahead, by name."""

    @property
    def is_gpu(self) -> bool:
        return self.device.type == "cuda"

    @cached_property
    def ceilings(self) -> Ceilings:
        return ceilings(self.device)


def rows(setting: Setting) -> Iterator[Row]:
    """The section ``ceilings``."""
    best = setting.ceilings
    yield Row("copy, read and written", best.bytes_per_second / 1e12, "TB/s")
    yield Row("bfloat16 matrix product", best.flops_per_second / 1e12, "TFLOP/s")
    yield Row("special functions", best.special_functions_per_second / 1e12, "T/s")
