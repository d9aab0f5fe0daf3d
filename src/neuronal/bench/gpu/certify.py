"""Exact segments and certificates of residual networks: the device beside the CPU, and as far as the device goes alone."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass
from time import perf_counter

import torch
from torch import Tensor, nn

from neuronal.bench.gpu.ceilings import Setting
from neuronal.bench.gpu.row import Row
from neuronal.certify.branch import Budget
from neuronal.certify.segment import certify_segment
from neuronal.geometry.segment import segment_pieces
from neuronal.models.registry import create_model

SMALL, LARGE, SIDE = 8, 64, 32
MEMORY = 8 * 2**30
"""Bytes that values inside the network may take on the device."""
CPU_MEMORY = 2**30
FIRST, ENOUGH = 1 / 4096, 0.5
"""Of the way between two inputs, the first probe; and the seconds that say how far to go in the time there is."""
CPU_SECONDS, SECONDS, PROOF_SECONDS = 6.0, 20.0, 12.0
PROVED, BOUNDS = 8, 64
"""Pieces of the segment that is certified, and parts that may be looked at before it is cut into them."""


@dataclass(frozen=True)
class Walked:
    """What a segment took, and the largest number of bytes taken on the device beyond what was taken before."""

    work: int
    seconds: float
    peak: int
    answer: str = ""

    @property
    def speed(self) -> float:
        return self.work / self.seconds


def network(width: int) -> nn.Module:
    """An untrained ResNet-18 whose batch norm has the statistics of noise, in evaluation mode, on the CPU."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = create_model("resnet18", "standard", norm="batch", img_size=SIDE, width=width)
        for _ in range(20):
            model(torch.rand(16, 3, SIDE, SIDE))
    return model.eval()


def ends() -> tuple[Tensor, Tensor]:
    """Two inputs of noise."""
    a, b = torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    return a, b


def exact(model: nn.Module, a: Tensor, b: Tensor, share: float, memory: int) -> Walked:
    """All breakpoints of the first ``share`` of the way from ``a`` to ``b``, in float32."""
    device = next(model.parameters()).device
    before, started = _fresh_peak(device), perf_counter()
    pieces = segment_pieces(model, a, torch.lerp(a, b, share), memory=memory, dtype=torch.float32)
    count = pieces.count
    return Walked(count, _seconds(device, started), _peak(device) - before)


def certified(model: nn.Module, a: Tensor, b: Tensor, share: float, memory: int) -> Walked:
    """The certificate of the first ``share`` of the way; its work is in parts whose bounds were computed."""
    device = next(model.parameters()).device
    before, started = _fresh_peak(device), perf_counter()
    budget = Budget(bounds=BOUNDS, memory=memory, seconds=PROOF_SECONDS)
    found = certify_segment(model, a.to(device), torch.lerp(a, b, share).to(device), budget=budget)
    seconds = _seconds(device, started)
    return Walked(getattr(found.evidence, "bounds", 0), seconds, _peak(device) - before, found.verdict)


def reach(model: nn.Module, a: Tensor, b: Tensor, memory: int, seconds: float) -> float:
    """Share of the way that takes about so many seconds, from probes that become longer.

    What any segment takes, however short, is not counted.
    """
    exact(model, a, b, FIRST, memory)
    share, any_way = FIRST, exact(model, a, b, FIRST, memory).seconds
    own = 0.0
    while own < max(ENOUGH, any_way) and share < 1:
        share = min(1.0, 8 * share)
        own = exact(model, a, b, share, memory).seconds - any_way
    return min(1.0, share * seconds / max(own, 1e-9))


def _fresh_peak(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def _peak(device: torch.device) -> int:
    return torch.cuda.max_memory_allocated() if device.type == "cuda" else 0


def _seconds(device: torch.device, started: float) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return perf_counter() - started


def rows(setting: Setting) -> Iterator[Row]:
    """The small network on both devices, the large one on the device alone."""
    a, b = ends()
    yield from _both(setting, a, b)
    yield from _alone(setting, a, b)


def _both(setting: Setting, a: Tensor, b: Tensor) -> Iterator[Row]:
    here = network(SMALL)
    there = deepcopy(here).to(setting.device)
    share = reach(here, a, b, CPU_MEMORY, CPU_SECONDS)
    exact(there, a, b, FIRST, MEMORY)
    slow, fast = exact(here, a, b, share, CPU_MEMORY), exact(there, a, b, share, MEMORY)
    yield _beside(f"width {SMALL}, exact pieces", slow, fast, share)
    share *= min(1.0, PROVED / slow.work)
    slow, fast = certified(here, a, b, share, CPU_MEMORY), certified(there, a, b, share, MEMORY)
    yield _beside(f"width {SMALL}, certificate", slow, fast, share)


def _beside(name: str, slow: Walked, fast: Walked, share: float) -> Row:
    same = f"CPU: {slow.work:,} {slow.answer}".strip()
    shown: dict[str, float | str] = {"seconds": fast.seconds, "CPU s": slow.seconds, **_work(fast, share)}
    note = "" if abs(slow.work - fast.work) <= 0.01 * slow.work + 1 and slow.answer == fast.answer else same
    data = {"cpu": asdict(slow), "device": asdict(fast)}
    return Row(name, slow.seconds / fast.seconds, "x CPU speed", note=note, shown=shown, data=data)


def _alone(setting: Setting, a: Tensor, b: Tensor) -> Iterator[Row]:
    model = network(LARGE).to(setting.device)
    share = reach(model, a, b, MEMORY, SECONDS)
    walked = exact(model, a, b, share, MEMORY)
    yield _within(f"width {LARGE}, exact pieces", walked, share)
    share *= min(1.0, PROVED / walked.work)
    yield _within(f"width {LARGE}, certificate", certified(model, a, b, share, MEMORY), share)


def _within(name: str, walked: Walked, share: float) -> Row:
    shown: dict[str, float | str] = {"seconds": walked.seconds, **_work(walked, share)}
    limit = MEMORY / 2**30
    return Row(name, walked.peak / 2**30, "GiB", limit, shown=shown, data={"device": asdict(walked)})


def _work(walked: Walked, share: float) -> dict[str, float | str]:
    return {"of the way": share, "parts": walked.work, "per second": walked.speed, "verdict": walked.answer}
