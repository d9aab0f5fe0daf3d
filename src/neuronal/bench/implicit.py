"""Implicit-bias convolutions against the plain one: time, residual reached, growth with the number of units."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from math import log
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from neuronal.nn import ImplicitBiasConv2d
from neuronal.ops.workspace import release
from neuronal.train.timing import StepTime, side_by_side

SLOPE = 10.0
# The profiler has something to say whenever it starts or stops; this is before its first start.
os.environ.setdefault("KINETO_LOG_LEVEL", "9")
_KINDS = {
    "matrix products": ("aten::mm", "aten::bmm", "aten::addmm"),
    "gather and scatter": ("aten::gather", "aten::scatter", "aten::index"),
    "convolution": ("conv",),
    "Python": ("neuronal::",),
}


@dataclass(frozen=True)
class Case:
    """A convolution with kernel 5 on square images, and its coupling; ``limit`` is what it may cost at most."""

    batch: int
    channels_in: int
    channels_out: int
    side: int
    coupling: float
    limit: float | None
    iterations: int = 0
    """In the place of a solve, if any."""

    def __str__(self) -> str:
        shape = f"{self.batch}, {self.channels_in}->{self.channels_out}, {self.side}x{self.side}, {self.coupling:g}"
        return f"{shape}, once" if self.iterations else shape


_SHAPES = ((32, 3, 8, 32, 15.0), (128, 1, 8, 28, 15.0), (64, 16, 16, 32, 12.0))
CASES = (
    *(Case(b, i, o, s, -0.5, limit) for b, i, o, s, limit in _SHAPES),
    *(Case(b, i, o, s, 0.05, 8.0) for b, i, o, s, _ in _SHAPES),
    *(Case(b, i, o, s, -0.5, None, iterations=1) for b, i, o, s, _ in _SHAPES),
)
SIDES = (16, 32, 64, 128)


@dataclass(frozen=True)
class Measured:
    """Time against Conv2d, forward and backward with input gradient; and how good the solutions are."""

    case: Case
    time: StepTime
    forward_share: float
    """Part of the time that the forward pass takes."""
    residual: float
    """Of the solution; what one iteration leaves is another matter."""
    steps: float
    memory: float
    """Peak of memory beyond that of Conv2d, in outputs of the layer."""
    spent: dict[str, float]
    """Shares of the time by kind of work."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure_case(case: Case, *, rounds: int) -> Measured:
    """One case; pre-activations have variance 1, as after a normalised layer."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(case.batch, case.channels_in, case.side, case.side, device=device, requires_grad=True)
    plain = nn.Conv2d(case.channels_in, case.channels_out, 5, padding=2).to(device)
    nn.init.normal_(plain.weight, std=(25 * case.channels_in) ** -0.5)
    layer = ImplicitBiasConv2d.from_standard(plain, coupling=case.coupling, slope=SLOPE, steps=case.iterations or None)
    out = torch.randn(case.batch, case.channels_out, case.side, case.side, device=device)

    def step(module: nn.Module) -> Callable[[], None]:
        def action() -> None:
            x.grad = None
            module.zero_grad()
            module(x).backward(out)

        return action

    def forward() -> None:
        layer(x)

    actions = {"Conv2d": step(plain), "implicit": step(layer), "forward": forward}
    times = side_by_side(actions, "Conv2d", rounds=rounds, warmup=2, cuda=device.type == "cuda")
    with torch.no_grad():
        solution = layer.solve(x)
    x.grad = None
    plain.zero_grad()
    layer.zero_grad()
    release()
    extra = peak_memory(actions["implicit"], device) - peak_memory(actions["Conv2d"], device)
    return Measured(
        case,
        times["implicit"],
        forward_share=times["forward"].seconds / times["implicit"].seconds,
        residual=solution.residual.max().item(),
        steps=solution.steps.float().mean().item(),
        memory=extra / out.nbytes,
        spent=shares(actions["implicit"]),
    )


def peak_memory(action: Callable[[], None], device: torch.device) -> float:
    """Largest number of bytes taken at once while the action runs, beyond what was taken before."""
    if device.type == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        action()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        action()
    # Every taking and giving back, in the order of time.
    changes = [event.nbytes() for event in watched.profiler.kineto_results.events() if event.name() == "[memory]"]
    return float(max(accumulate(changes), default=0))


def shares(action: Callable[[], None]) -> dict[str, float]:
    """Shares of the time of an action, by kind of work; on a GPU that of the CPU that drives it."""
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        action()
    spent = dict.fromkeys((*_KINDS, "other arithmetic"), 0.0)
    for event in watched.key_averages():
        kind = next(
            (kind for kind, names in _KINDS.items() if any(name in event.key for name in names)), "other arithmetic"
        )
        spent[kind] += event.self_cpu_time_total
    total = sum(spent.values())
    return {kind: time / total for kind, time in spent.items()}


def measure(*, rounds: int = 15) -> Iterator[Measured]:
    yield from (measure_case(case, rounds=rounds) for case in CASES)


def measure_sides(*, rounds: int = 5) -> Iterator[Measured]:
    """The same layer on growing images, about as many units in all each time."""
    for side in SIDES:
        yield measure_case(Case(max(1, 32 * 32**2 // side**2), 3, 8, side, -0.5, None), rounds=rounds)


def exponent(measured: Sequence[Measured]) -> float:
    """p of time per row ~ N^p, fitted by least squares on logarithms."""
    points = []
    for one in measured:
        rows = one.case.batch * one.case.channels_out
        points.append((log(one.case.side**2), log(one.time.seconds / rows)))
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    slope: float = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return slope
