"""A training step of whole networks: each neuron against the standard one, with the same norm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from neuronal.bench.gpu.ahead import Job
from neuronal.bench.gpu.ceilings import Ceilings, Setting
from neuronal.bench.gpu.row import Row
from neuronal.models.registry import create_model
from neuronal.train.recording import one_line
from neuronal.train.timing import StepTime, side_by_side

BASELINE = "standard"
STEPS = 10
"""Steps between two looks at the clock: a device is waited for once, as in training."""
MODE = "reduce-overhead"


@dataclass(frozen=True)
class Case:
    """A network, its images, and the neurons to compare under one norm, each with what it may cost."""

    model: str
    side: int
    batch: int
    classes: int
    norm: str
    limits: dict[str, float]
    eager: bool = False
    """Whether the networks are timed without the compiler too."""
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def neurons(self) -> tuple[str, ...]:
        return (BASELINE, *self.limits)

    def __str__(self) -> str:
        return f"{self.model} {self.side}x{self.side}, batch {self.batch}, norm {self.norm}"


CASES = (
    Case("resnet18", 32, 512, 10, "batch", {"geometric": 1.05}, eager=True),
    Case("resnet18", 32, 512, 10, "none", {"zero_bias": 1.00, "farkas": 1.05}, eager=True),
    Case("resnet50", 224, 128, 1000, "batch", {"geometric": 1.05}),
    Case("resnet50", 224, 128, 1000, "none", {"zero_bias": 1.00, "farkas": 1.05}),
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

    def row(self, best: Ceilings) -> Row:
        """The line of the table: the verdict is on compiled networks."""
        shown: dict[str, float | str] = {
            "quartiles": f"{self.time.ratio_low:.3f}–{self.time.ratio_high:.3f}",
            "ms": 1e3 * self.time.seconds,
            "images/s": self.images_per_second,
            "TFLOP/s": self.flops_per_second / 1e12,
            "peak %": 100 * self.flops_per_second / best.flops_per_second,
        }
        name = f"{self.case}: {self.neuron}" + ("" if self.compiled else ", eager")
        limit = self.limit if self.compiled else None
        return Row(name, self.time.ratio, "x standard", limit, shown=shown, data={"step": self.to_json()})


@dataclass(frozen=True)
class Failed:
    """A network that could not be timed, and why."""

    case: Case
    neuron: str
    error: str

    def row(self, best: Ceilings) -> Row:
        return Row(f"{self.case}: {self.neuron}", None, "x standard", self.case.limits[self.neuron], note=self.error)


def network(case: Case, neuron: str, device: torch.device) -> nn.Module:
    """A fresh network with channels last."""
    shape = {"num_classes": case.classes, "in_chans": 3, "img_size": case.side}
    model = create_model(case.model, neuron, norm=case.norm, **shape, **dict(case.options)).to(device)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def batch(case: Case, device: torch.device) -> tuple[Tensor, Tensor]:
    """Made-up images and classes."""
    x = torch.randn(case.batch, 3, case.side, case.side, device=device)
    return x.contiguous(memory_format=torch.channels_last), torch.randint(case.classes, (case.batch,), device=device)


def flops_per_image(model: nn.Module, x: Tensor) -> float:
    """Operations of forward and backward, a multiplication and an addition counted as two."""
    with FlopCounterMode(display=False) as counter:
        model(x[:2]).sum().backward()
    model.zero_grad()
    return float(counter.get_total_flops()) / 2


def steps(compiled: Callable[..., Tensor], model: nn.Module, x: Tensor, y: Tensor, count: int) -> Callable[[], None]:
    """So many steps of SGD with momentum in bfloat16, as one would write them by hand."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)

    def some() -> None:
        for _ in range(count):
            with torch.autocast(x.device.type, torch.bfloat16):
                loss = F.cross_entropy(compiled(x), y)
            loss.backward()
            optimiser.step()
            # Also behind the last step: memory that gradients are in is the next network's.
            optimiser.zero_grad()

    return some


def ahead() -> list[Job]:
    """Every network compiled, the large ones first."""
    cases = sorted(CASES, key=lambda case: -case.side)
    return [Job(f"{case}: {neuron}", compile_one, (case, neuron)) for case in cases for neuron in case.neurons]


def compile_one(case: Case, neuron: str, device: str = "cuda") -> None:
    """A step as it will be timed: the compiler keeps what it makes for it."""
    model = network(case, neuron, torch.device(device))
    compiled = torch.compile(model, mode=MODE if device == "cuda" else None)
    steps(compiled, model, *batch(case, torch.device(device)), 1)()


def measure_case(case: Case, setting: Setting, *, compiled: bool) -> Iterator[Timed | Failed]:
    """All neurons of a case side by side, all compiled or none."""
    x, y = batch(case, setting.device)
    actions, flops = {}, 0.0
    for neuron in case.neurons:
        model = network(case, neuron, setting.device)
        flops = flops or flops_per_image(model, x)
        called = torch.compile(model, mode=MODE) if compiled else model
        action = steps(called, model, x, y, STEPS)
        try:
            action()
        except Exception as error:
            if neuron == BASELINE:
                raise
            # One that cannot be compiled is a line of the table, and not the end of it.
            yield Failed(case, neuron, one_line(error))
        else:
            actions[neuron] = action
    # What is not compiled has no limit, and differs by so much that fewer rounds show it.
    rounds = setting.rounds if compiled else max(2, setting.rounds // 3)
    times = side_by_side(actions, BASELINE, rounds=rounds, warmup=2, cuda=setting.is_gpu)
    for neuron, time in times.items():
        one = StepTime(time.seconds / STEPS, time.ratio, time.ratio_low, time.ratio_high)
        speed = case.batch / one.seconds
        yield Timed(case, neuron, compiled, one, speed, speed * flops, case.limits.get(neuron))


def rows(setting: Setting) -> Iterator[Row]:
    """All cases; without a GPU none is compiled."""
    for case in CASES:
        for compiled in (True, False) if case.eager else (True,):
            for timed in measure_case(case, setting, compiled=compiled and setting.is_gpu):
                yield timed.row(setting.ceilings)
            torch.compiler.reset()
            if setting.is_gpu:
                torch.cuda.empty_cache()
