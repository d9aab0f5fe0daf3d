"""The layers against the plain torch layer: forward and backward, input gradient included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log
from typing import Any

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from neuronal.nn import FarkasConv2d, GeometricConv2d, ZeroBiasConv2d
from neuronal.train.timing import StepTime, side_by_side

Make = Callable[[int], nn.Module]


def _plain(width: int) -> nn.Module:
    return nn.Conv2d(width, width, 3, padding=1)


LAYERS: Mapping[str, Make] = {
    "Conv2d": _plain,
    "ZeroBiasConv2d": lambda width: ZeroBiasConv2d(width, width, 3, padding=1),
    "FarkasConv2d": lambda width: FarkasConv2d(width, width, 3, padding=1),
    "GeometricConv2d": lambda width: GeometricConv2d(width, width, 3, padding=1),
    "weight_norm(Conv2d)": lambda width: weight_norm(_plain(width)),
}
BASELINE = "Conv2d"


@dataclass(frozen=True)
class Shape:
    """Width in and out, side of the image, batch size."""

    width: int
    side: int
    batch: int

    def __str__(self) -> str:
        return f"{self.width}->{self.width}, {self.side}x{self.side}"


SHAPES = (Shape(64, 32, 64), Shape(256, 8, 64), Shape(512, 8, 64))
WIDTHS = (16, 32, 64, 128, 256, 512)
LIMITS: Mapping[str, Sequence[float]] = {
    "ZeroBiasConv2d": (1.00, 1.00, 1.00),
    "FarkasConv2d": (1.05, 1.05, 1.05),
    "GeometricConv2d": (1.10, 1.10, 1.15),
}
"""What a layer may cost at each of ``SHAPES``, as a multiple of the plain one."""


@dataclass(frozen=True)
class Timed:
    """One layer at one shape."""

    layer: str
    shape: Shape
    time: StepTime
    limit: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def time_shape(shape: Shape, *, rounds: int, warmup: int = 3) -> dict[str, StepTime]:
    """Every layer at one shape, side by side."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    x = torch.randn(shape.batch, shape.width, shape.side, shape.side, device=device, requires_grad=True)
    out = torch.randn_like(x)

    def once(layer: nn.Module) -> Callable[[], None]:
        def action() -> None:
            x.grad = None
            layer.zero_grad()
            layer(x).backward(out)

        return action

    actions = {name: once(make(shape.width).to(device)) for name, make in LAYERS.items()}
    return side_by_side(actions, BASELINE, rounds=rounds, warmup=warmup, cuda=device.type == "cuda")


def measure(*, rounds: int = 15) -> Iterator[Timed]:
    """The table: every layer at every shape, one shape after the other."""
    for number, shape in enumerate(SHAPES):
        for name, time in time_shape(shape, rounds=rounds).items():
            limits = LIMITS.get(name)
            yield Timed(name, shape, time, limits[number] if limits else None)


def measure_widths(*, rounds: int = 7, side: int = 8, batch: int = 64) -> Iterator[Timed]:
    """The same layers over widths, at one size of image."""
    for width in WIDTHS:
        shape = Shape(width, side, batch)
        for name, time in time_shape(shape, rounds=rounds).items():
            yield Timed(name, shape, time, None)


def growth(timed: Sequence[Timed]) -> dict[str, float]:
    """Per layer the exponent p of time ~ width^p between the two largest widths."""
    found = {}
    for name in {one.layer: None for one in timed}:
        ordered = sorted((one.shape.width, one.time.seconds) for one in timed if one.layer == name)
        (w1, t1), (w2, t2) = ordered[-2:]
        found[name] = log(t2 / t1) / log(w2 / w1)
    return found
