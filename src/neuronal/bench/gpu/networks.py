"""A training step of whole networks: each neuron against the standard one, with the same norm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from neuronal.models.registry import create_model
from neuronal.train.timing import StepTime, side_by_side

BASELINE = "standard"
STEPS = 10
"""Steps between two looks at the clock: a device is waited for once, as in training."""


@dataclass(frozen=True)
class Case:
    """A network, its images, and the neurons to compare under one norm, each with what it may cost."""

    model: str
    side: int
    batch: int
    classes: int
    norm: str
    limits: dict[str, float]

    def __str__(self) -> str:
        return f"{self.model}, {self.side}x{self.side}, batch {self.batch}, norm {self.norm}"


CASES = (
    Case("resnet18", 32, 512, 10, "batch", {"geometric": 1.03}),
    Case("resnet18", 32, 512, 10, "none", {"zero_bias": 1.00, "farkas": 1.02}),
    Case("resnet50", 224, 128, 1000, "batch", {"geometric": 1.03}),
    Case("resnet50", 224, 128, 1000, "none", {"zero_bias": 1.00, "farkas": 1.02}),
)


@dataclass(frozen=True)
class Timed:
    """One neuron in one network: time of a step, images and operations per second."""

    case: Case
    neuron: str
    compiled: bool
    time: StepTime
    images_per_second: float
    flops_per_second: float
    limit: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def steps(network: nn.Module, model: nn.Module, x: Tensor, y: Tensor) -> Callable[[], None]:
    """``STEPS`` steps of SGD with momentum in bfloat16, as one would write them by hand."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)

    def some() -> None:
        for _ in range(STEPS):
            optimiser.zero_grad()
            with torch.autocast("cuda", torch.bfloat16):
                loss = F.cross_entropy(network(x), y)
            loss.backward()
            optimiser.step()

    return some


def measure_case(case: Case, *, compiled: bool, rounds: int) -> Iterator[Timed]:
    """All neurons of a case side by side, all compiled or none."""
    x = torch.randn(case.batch, 3, case.side, case.side, device="cuda").contiguous(memory_format=torch.channels_last)
    y = torch.randint(case.classes, (case.batch,), device="cuda")
    actions, flops = {}, 0.0
    for neuron in (BASELINE, *case.limits):
        shape = {"num_classes": case.classes, "in_chans": 3, "img_size": case.side}
        model = create_model(case.model, neuron, norm=case.norm, **shape).cuda()
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if not flops:
            with FlopCounterMode(display=False) as counter:
                model(x[:2]).sum().backward()
            flops = counter.get_total_flops() / 2
        network = torch.compile(model, mode="reduce-overhead") if compiled else model
        actions[neuron] = steps(network, model, x, y)  # type: ignore[arg-type]
    for neuron, time in side_by_side(actions, BASELINE, rounds=rounds, warmup=3, cuda=True).items():
        one = StepTime(time.seconds / STEPS, time.ratio, time.ratio_low, time.ratio_high)
        speed = case.batch / one.seconds
        yield Timed(case, neuron, compiled, one, speed, speed * flops, case.limits.get(neuron))


def measure(*, rounds: int = 11) -> Iterator[Timed]:
    for case in CASES:
        for compiled in (True, False):
            yield from measure_case(case, compiled=compiled, rounds=rounds)
            torch.compiler.reset()
            torch.cuda.empty_cache()
