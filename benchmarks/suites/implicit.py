"""Implicit-bias convolutions against ``nn.Conv2d``: layers on a CPU, blocks replayed as CUDA graphs on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from benchmarks.cases import Case, Comparison, Notes, Prepared
from benchmarks.timing import Setting, as_graph, forward_and_backward
from neuronal.nn import ImplicitBiasConv2d

BASELINE = "Conv2d"


@dataclass(frozen=True)
class Convolution:
    """An implicit-bias convolution and the plain one of the same weights.

    Args:
        spread: Standard deviation of what the plain one gives for noise. Of trained ones nothing holds it at 1.
        iterations: In the place of a solve, if any.
        is_block: Whether batch norm and ReLU follow. A GPU replays solves as CUDA graphs; iterations wait for the device.
        repeats: Steps between two looks at the clock. Each has inputs of its own, because how long a solve takes depends
            on the widest rows there are.
    """

    batch: int
    inputs: int
    outputs: int
    side: int
    kernel: int
    coupling: float = -0.5
    spread: float = 1.0
    iterations: int = 0
    is_block: bool = False
    repeats: int = 1

    def __str__(self) -> str:
        channels = f"{self.batch}, {self.inputs}->{self.outputs}, {self.side}x{self.side}, coupling {self.coupling:g}"
        wide = f", {self.spread:g} times as wide" if self.spread != 1 else ""
        return f"{channels}{wide}{', one iteration' if self.iterations else ''}"

    def prepare(self, setting: Setting) -> Prepared:
        device, sides = setting.device, (self.side, self.side)
        # The batch norm of a block has the bias.
        bias, padding = not self.is_block, self.kernel // 2
        plain = nn.Conv2d(self.inputs, self.outputs, self.kernel, padding=padding, bias=bias)
        nn.init.normal_(plain.weight, std=self.spread * (self.kernel**2 * self.inputs) ** -0.5)
        steps = self.iterations or None
        implicit = ImplicitBiasConv2d.from_standard(plain, coupling=self.coupling, slope=10.0, steps=steps).to(device)
        layers: dict[str, nn.Module] = {BASELINE: plain, "implicit": implicit}
        if self.is_block:
            norms = {name: nn.BatchNorm2d(self.outputs) for name in layers}
            layers = {name: nn.Sequential(layer, norms[name], nn.ReLU()) for name, layer in layers.items()}
        shape = (self.batch, self.inputs, *sides)
        inputs = [torch.randn(shape, device=device, requires_grad=True) for _ in range(self.repeats)]
        out = torch.randn(self.batch, self.outputs, *sides, device=device)
        actions = {name: forward_and_backward(layer.to(device), inputs, out) for name, layer in layers.items()}
        if self.is_block and setting.is_cuda and not self.iterations:
            actions = {name: as_graph(action) for name, action in actions.items()}
        return Prepared(actions, *({}, "") if self.iterations else solved(implicit, inputs))

    def case(self, name: str = "", limit: float | None = None) -> Comparison:
        """To be timed, with what it may cost."""
        limits = {} if limit is None else {"implicit": limit}
        return Comparison(name or str(self), BASELINE, self.prepare, limits, self.repeats)


def solved(layer: ImplicitBiasConv2d, inputs: Sequence[Tensor]) -> tuple[Notes, str]:
    """How well the equation is solved; and an error where it is not, as then the time says nothing."""
    with torch.no_grad():
        solutions = [layer.solve(x) for x in inputs]
    converged = torch.cat([solution.converged for solution in solutions]).float().mean().item()
    residual = max(solution.residual.max().item() for solution in solutions)
    error = "" if converged == 1 else f"{100 * (1 - converged):.2g}% of the rows are not solved"
    return {"residual": residual}, error


def _ucn(channels: int, side: int, spread: float = 1.0, limit: float | None = None) -> Comparison:
    """A block of UCN, whose kernel is 0.15 of the image's side."""
    block = Convolution(128, channels, channels, side, 5, -0.5, spread, is_block=True, repeats=10)
    return block.case(f"UCN {channels} channels {str(block).split(', ', 2)[2]}", limit)


def _resnet(stage: int, limit: float) -> Comparison:
    """A block of a stage of ResNet-18."""
    channels = 32 << stage
    block = Convolution(256, channels, channels, 64 >> stage, 3, is_block=True, repeats=10)
    return block.case(f"ResNet-18 stage {stage}", limit)


_SHAPES = {(32, 3, 8, 32): 15.0, (128, 1, 8, 28): 15.0, (64, 16, 16, 32): 12.0}
CASES: Mapping[str, Sequence[Case]] = {
    "cpu": (
        *(Convolution(*shape, 5).case(limit=limit) for shape, limit in _SHAPES.items()),
        *(Convolution(*shape, 5, coupling=0.05).case(limit=8.0) for shape in _SHAPES),
        *(Convolution(*shape, 5, iterations=1).case() for shape in _SHAPES),
        # The ratio does not grow with the number of units of a row: a row costs O(N).
        *(Convolution(2**15 // side**2, 3, 8, side, 5).case() for side in (16, 64, 128)),
    ),
    "cuda": (
        *(_ucn(channels, side, limit=2.5) for side in (28, 32) for channels in (16, 32, 64)),
        *(_resnet(stage, limit=2.5) for stage in (1, 2, 3, 4)),
        *(_ucn(32, 28, spread=spread) for spread in (4.0, 12.0)),
    ),
}
