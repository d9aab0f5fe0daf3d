"""Implicit-bias convolutions against the plain one: time, residual reached, growth with the number of units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import log
from typing import Any

import torch
from torch import nn

from neuronal.nn import ImplicitBiasConv2d
from neuronal.train.timing import StepTime, side_by_side

SLOPE = 10.0


@dataclass(frozen=True)
class Case:
    """A convolution with kernel 5 on square images, and its coupling; ``limit`` is what it may cost at most."""

    batch: int
    channels_in: int
    channels_out: int
    side: int
    coupling: float
    limit: float | None

    def __str__(self) -> str:
        return f"{self.batch}, {self.channels_in}->{self.channels_out}, {self.side}x{self.side}, {self.coupling:g}"


_SHAPES = ((32, 3, 8, 32, 15.0), (128, 1, 8, 28, 15.0), (64, 16, 16, 32, 12.0))
CASES = (
    *(Case(b, i, o, s, -0.5, limit) for b, i, o, s, limit in _SHAPES),
    *(Case(b, i, o, s, 0.05, 8.0) for b, i, o, s, _ in _SHAPES),
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
    steps: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure_case(case: Case, *, rounds: int) -> Measured:
    """One case; pre-activations have variance 1, as after a normalised layer."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(case.batch, case.channels_in, case.side, case.side, device=device, requires_grad=True)
    plain = nn.Conv2d(case.channels_in, case.channels_out, 5, padding=2).to(device)
    nn.init.normal_(plain.weight, std=(25 * case.channels_in) ** -0.5)
    layer = ImplicitBiasConv2d.from_standard(plain, coupling=case.coupling, slope=SLOPE)
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
    share = times["forward"].seconds / times["implicit"].seconds
    return Measured(
        case, times["implicit"], share, solution.residual.max().item(), solution.steps.float().mean().item()
    )


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
