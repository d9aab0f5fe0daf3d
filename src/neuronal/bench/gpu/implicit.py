"""Implicit-bias blocks on a GPU against the same blocks with ``nn.Conv2d``, and what they move and compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.nn import ImplicitBiasConv2d
from neuronal.ops.kernels import mean_field as kernels
from neuronal.ops.mean_field import solve
from neuronal.train.timing import StepTime, side_by_side

SLOPE = 10.0
COUPLING = -0.5
LIMIT = 2.5


@dataclass(frozen=True)
class BlockCase:
    """Convolution, batch norm and ReLU of a network: UCN's kernel is 0.15 of the image's side, ResNet's 3."""

    name: str
    batch: int
    channels: int
    side: int
    kernel: int

    @property
    def units(self) -> int:
        return self.batch * self.channels * self.side**2


CASES = (
    *(BlockCase(f"UCN {c} channels {side}x{side}", 128, c, side, 5) for side in (28, 32) for c in (16, 32, 64)),
    *(BlockCase(f"ResNet-18 stage {n + 1}", 256, 64 << n, 32 >> n, 3) for n in range(4)),
)


@dataclass(frozen=True)
class MeasuredBlock:
    """Forward and backward of a block, input gradient included; the solve alone; and its bill."""

    case: BlockCase
    plain_seconds: float
    time: StepTime
    forward_seconds: float
    """The kernel alone."""
    backward_seconds: float
    residual: float
    converged: float
    steps: float
    bytes_moved: int
    """By the kernels at least: a row in and out, and in twice and out for the gradient."""
    special_functions: int
    """exp, reciprocals and the like, estimated from the steps taken."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Ceilings:
    """What the device does at best, measured in the same run."""

    bytes_per_second: float
    special_functions_per_second: float


def ceilings() -> Ceilings:
    """A long copy, read and written; and exponentials of numbers that stay in the cache."""
    x = torch.randn(1 << 28, device="cuda")
    y = torch.empty_like(x)
    copied = 2 * x.nbytes / _seconds(lambda: y.copy_(x))
    small = torch.rand(1 << 22, device="cuda")
    repeated = 64

    def exponentials() -> None:
        _many_exponentials(small, repeated)

    return Ceilings(copied, small.numel() * repeated / _seconds(exponentials))


@torch.compile
def _many_exponentials(x: Tensor, times: int) -> Tensor:
    for _ in range(times):
        x = torch.exp2(-x)
    return x


def measure_block(case: BlockCase, *, rounds: int) -> MeasuredBlock:
    """One block; pre-activations have variance 1, as after a normalised layer."""
    x = torch.randn(case.batch, case.channels, case.side, case.side, device="cuda", requires_grad=True)
    plain = nn.Conv2d(case.channels, case.channels, case.kernel, padding=case.kernel // 2, bias=False).cuda()
    nn.init.normal_(plain.weight, std=(case.kernel**2 * case.channels) ** -0.5)
    layer = ImplicitBiasConv2d.from_standard(plain, coupling=COUPLING, slope=SLOPE)
    blocks = {
        name: nn.Sequential(module, nn.BatchNorm2d(case.channels), nn.ReLU()).cuda()
        for name, module in (("Conv2d", plain), ("implicit", layer))
    }
    out = torch.randn(case.batch, case.channels, case.side, case.side, device="cuda")

    def step(block: nn.Module) -> Callable[[], None]:
        def action() -> None:
            x.grad = None
            block.zero_grad()
            block(x).backward(out)

        return action

    actions = {name: step(block) for name, block in blocks.items()}
    times = side_by_side(actions, "Conv2d", rounds=rounds, warmup=4, cuda=True)
    with torch.no_grad():
        rows = plain(x).flatten(2).flatten(0, 1)
    coupling, slope = (torch.full((len(rows),), v, device="cuda") for v in (COUPLING, SLOPE))
    found = solve(rows, coupling, slope)
    g = torch.randn_like(rows)
    backward = _seconds(lambda: kernels.vjp(g, found.value, coupling, slope, True, False))
    steps = found.steps.float().mean().item()
    return MeasuredBlock(
        case,
        plain_seconds=times["Conv2d"].seconds,
        time=times["implicit"],
        forward_seconds=_seconds(lambda: kernels.solve(rows, coupling, slope, 1e-4, 60)),
        backward_seconds=backward,
        residual=found.residual.max().item(),
        converged=found.converged.float().mean().item(),
        steps=steps,
        bytes_moved=5 * rows.nbytes,
        special_functions=special_functions(case.side**2, steps) * len(rows),
    )


def special_functions(units: int, steps: float) -> int:
    """Of a row, forward and backward: one per pair and step; or two per node and table, and a division per unit."""
    if units <= kernels.FEW:
        return int((steps + 1) * units * (units + 1))
    return int((steps + 1) * 4 * 256 + 2 * units)


def _seconds(action: Callable[[], object], *, rounds: int = 11) -> float:
    """Median time on the device."""
    found: list[float] = []
    for number in range(3 + rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        action()
        end.record()
        torch.cuda.synchronize()
        if number >= 3:
            found.append(start.elapsed_time(end) / 1e3)
    return sorted(found)[rounds // 2]


def measure(*, rounds: int = 15) -> Iterator[MeasuredBlock]:
    """All cases; needs a CUDA device."""
    yield from (measure_block(case, rounds=rounds) for case in CASES)
