"""Implicit-bias convolutions against ``nn.Conv2d``: layers on a CPU, blocks replayed as CUDA graphs on a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor, nn

from benchmarks.row import Row, ratio_row
from benchmarks.timing import Setting, compare, forward_and_backward, interval
from neuronal.nn import ImplicitBiasConv2d
from neuronal.train import captured
from neuronal.train.timing import time_rounds

BASELINE = "Conv2d"
SLOPE = 10.0


def _pair(inputs: int, outputs: int, kernel: int, coupling: float, spread: float, steps: int) -> dict[str, nn.Conv2d]:
    """A plain convolution whose outputs have standard deviation ``spread`` on noise, and the implicit one of it."""
    plain = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
    nn.init.normal_(plain.weight, std=spread * (kernel**2 * inputs) ** -0.5)
    implicit = ImplicitBiasConv2d.from_standard(plain, coupling=coupling, slope=SLOPE, steps=steps or None)
    return {BASELINE: plain, "implicit": implicit}


def _quality(layer: ImplicitBiasConv2d, inputs: Sequence[Tensor]) -> tuple[dict[str, float | str], str]:
    """How well the solved equation holds; and a complaint where it does not, as the time of a bad solution is no time."""
    if layer.steps is not None:
        return {}, ""
    with torch.no_grad():
        solutions = [layer.solve(x) for x in inputs]
    converged = torch.cat([solution.converged for solution in solutions]).float().mean().item()
    residual = max(solution.residual.max().item() for solution in solutions)
    steps = torch.cat([solution.steps for solution in solutions]).float().mean().item()
    error = "" if converged == 1 else f"{1 - converged:.2%} of the rows are not solved"
    return {"residual": residual, "steps": steps}, error


@dataclass(frozen=True)
class Layer:
    """A convolution with kernel 5 on square images, and its coupling; ``iterations`` take the place of a solve."""

    batch: int
    inputs: int
    outputs: int
    side: int
    coupling: float
    limit: float | None = None
    iterations: int = 0

    @property
    def name(self) -> str:
        once = ", one iteration" if self.iterations else ""
        return f"{self.batch}, {self.inputs}->{self.outputs}, {self.side}x{self.side}, {self.coupling:g}{once}"

    def rows(self, setting: Setting) -> Iterator[Row]:
        pair = _pair(self.inputs, self.outputs, 5, self.coupling, 1.0, self.iterations)
        shape = (self.batch, self.inputs, self.side, self.side)
        x = torch.randn(shape, device=setting.device, requires_grad=True)
        out = torch.randn(self.batch, self.outputs, self.side, self.side, device=setting.device)
        actions = {name: forward_and_backward(layer.to(setting.device), [x], out) for name, layer in pair.items()}
        timed = compare(actions, BASELINE, setting)["implicit"]
        notes, error = _quality(pair["implicit"], [x])
        yield ratio_row(self.name, timed, BASELINE, self.limit, error=error, **notes)


@dataclass(frozen=True)
class Growth:
    """How the time of a row grows with its N units: the power of N, over images of growing side."""

    sides: tuple[int, ...]
    limit: float
    units: int = 2**15
    """In all, the same at every side."""

    @property
    def name(self) -> str:
        return f"time of a row over N, {self.sides[0]}x{self.sides[0]} to {self.sides[-1]}x{self.sides[-1]}: power of N"

    def rows(self, setting: Setting) -> Iterator[Row]:
        actions, batches = {}, {}
        for side in self.sides:
            batches[side] = max(1, self.units // side**2)
            x = torch.randn(batches[side], 3, side, side, device=setting.device, requires_grad=True)
            out = torch.randn(batches[side], 8, side, side, device=setting.device)
            layer = _pair(3, 8, 5, -0.5, 1.0, 0)["implicit"].to(setting.device)
            actions[str(side)] = forward_and_backward(layer, [x], out)
        seconds = time_rounds(actions, rounds=setting.rounds, warmup=2, cuda=setting.is_cuda)
        sizes = [log(side**2) for side in self.sides]
        powers = [
            _slope(
                sizes,
                [log(times[number] / batches[side]) for side, times in zip(self.sides, seconds.values(), strict=True)],
            )
            for number in range(setting.rounds)
        ]
        yield Row(self.name, interval(powers), "", self.limit)


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the straight line with the least squares."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean_x) ** 2 for a in x)


@dataclass(frozen=True)
class Block:
    """Convolution, batch norm and ReLU of a network: UCN's kernel is 0.15 of the image's side, ResNet's 3.

    Args:
        spread: Standard deviation of what the convolution gives. Of trained ones nothing holds it at 1.
        iterations: In the place of a solve, if any.
        repeats: Steps between two looks at the clock, as in a network nobody waits for a layer. Each has inputs of its
            own, because how long a solve takes depends on the widest rows there are.
    """

    label: str
    batch: int
    channels: int
    side: int
    kernel: int
    limit: float | None = None
    spread: float = 1.0
    iterations: int = 0
    repeats: int = 10

    @property
    def name(self) -> str:
        wide = f", {self.spread:g} times as wide" if self.spread != 1 else ""
        return f"{self.label}{wide}{', one iteration' if self.iterations else ''}"

    def rows(self, setting: Setting) -> Iterator[Row]:
        torch.manual_seed(0)
        device = setting.device
        shape = (self.batch, self.channels, self.side, self.side)
        inputs = [torch.randn(shape, device=device, requires_grad=True) for _ in range(self.repeats)]
        out = torch.randn(shape, device=device)
        pair = _pair(self.channels, self.channels, self.kernel, -0.5, self.spread, self.iterations)
        blocks = {name: nn.Sequential(conv, nn.BatchNorm2d(self.channels), nn.ReLU()) for name, conv in pair.items()}
        eager = {name: forward_and_backward(block.to(device), inputs, out) for name, block in blocks.items()}
        notes, error = _quality(pair["implicit"], inputs)
        timed = compare(eager, BASELINE, setting)["implicit"]
        yield ratio_row(f"{self.name}, eager", timed, BASELINE, repeats=self.repeats, error=error, **notes)
        replayed = {name: captured(action, device) for name, action in eager.items()}
        timed = compare(replayed, BASELINE, setting)["implicit"]
        yield ratio_row(self.name, timed, BASELINE, self.limit, repeats=self.repeats, error=error, **notes)


_SHAPES = ((32, 3, 8, 32, 15.0), (128, 1, 8, 28, 15.0), (64, 16, 16, 32, 12.0))
_UCN = "UCN {1} channels {0}x{0}"
CASES = {
    "cpu": (
        *(Layer(b, i, o, s, -0.5, limit) for b, i, o, s, limit in _SHAPES),
        *(Layer(b, i, o, s, 0.05, 8.0) for b, i, o, s, _ in _SHAPES),
        *(Layer(b, i, o, s, -0.5, iterations=1) for b, i, o, s, _ in _SHAPES),
        Growth((16, 32, 64, 128), 1.1),
    ),
    "cuda": (
        *(Block(_UCN.format(s, c), 128, c, s, 5, 2.5) for s in (28, 32) for c in (16, 32, 64)),
        *(Block(f"ResNet-18 stage {n + 1}", 256, 64 << n, 32 >> n, 3, 2.5) for n in range(4)),
        *(Block(_UCN.format(28, 32), 128, 32, 28, 5, spread=spread) for spread in (4.0, 12.0)),
        Block(_UCN.format(28, 32), 128, 32, 28, 5, iterations=1),
    ),
}
