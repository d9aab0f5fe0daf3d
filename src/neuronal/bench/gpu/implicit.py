"""Implicit-bias blocks on a GPU against the same blocks with ``nn.Conv2d``, and what they move and compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.bench.gpu.ahead import Job
from neuronal.bench.gpu.ceilings import Ceilings, Setting, device_seconds
from neuronal.bench.gpu.row import Row
from neuronal.nn import ImplicitBiasConv2d
from neuronal.ops.coupling_mean import coupling_mean
from neuronal.ops.kernels import mean_field as kernels
from neuronal.ops.mean_field import Solution, solve
from neuronal.train.recording import NotCapturable, captured
from neuronal.train.timing import StepTime, side_by_side

SLOPE = 10.0
COUPLING = -0.5
LIMIT = 2.5
HORIZON = 1.5
REPEATS = 10
"""Steps between two looks at the clock, as a device is not waited for in every layer; each on inputs of its own, since how
long a solve takes depends on the widest rows there are."""


@dataclass(frozen=True)
class BlockCase:
    """Convolution, batch norm and ReLU of a network: UCN's kernel is 0.15 of the image's side, ResNet's 3."""

    name: str
    batch: int
    channels: int
    side: int
    kernel: int
    spread: float = 1.0
    """Standard deviation of what the convolution gives."""
    iterations: int = 0
    """In the place of a solve, if any."""

    @property
    def limit(self) -> float | None:
        """That of solves for units of variance 1, as after a normalised layer."""
        return LIMIT if self.spread == 1 and not self.iterations else None


CASES = (
    *(BlockCase(f"UCN {c} channels {side}x{side}", 128, c, side, 5) for side in (28, 32) for c in (16, 32, 64)),
    *(BlockCase(f"ResNet-18 stage {n + 1}", 256, 64 << n, 32 >> n, 3) for n in range(4)),
    # Trained convolutions before a batch norm end up there: nothing holds their size.
    *(BlockCase(f"UCN 32 channels 28x28, {w} times as wide", 128, 32, 28, 5, spread=w) for w in (4, 12)),
    BlockCase("UCN 32 channels 28x28, one iteration", 128, 32, 28, 5, iterations=1),
)


@dataclass(frozen=True)
class MeasuredBlock:
    """Forward and backward of a block, input gradient included; the solve alone; and its bill."""

    case: BlockCase
    plain_seconds: float
    """Of the block with ``nn.Conv2d``, replayed (as it is where it could not be recorded)."""
    time: StepTime | None
    """Replayed as a CUDA graph, both blocks alike; None where the block could not be recorded."""
    eager: StepTime
    """Started kernel by kernel."""
    forward_seconds: float
    """The solve alone."""
    backward_seconds: float
    residual: float
    converged: float
    steps: float
    bytes_moved: int
    """By the solve at least: a row in and out, and in twice and out for the gradient."""
    special_functions: int
    """exp, reciprocals and the like, estimated from the steps taken."""
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def row(self, best: Ceilings) -> Row:
        """The line of the table: the verdict is on the replayed block."""
        alone = self.forward_seconds + self.backward_seconds
        shown = {
            "eager": self.eager.ratio,
            "Conv2d ms": 1e3 * self.plain_seconds,
            "solve ms": 1e3 * self.forward_seconds,
            "gradient ms": 1e3 * self.backward_seconds,
            "bytes %": 100 * self.bytes_moved / alone / best.bytes_per_second,
            "special %": 100 * self.special_functions / alone / best.special_functions_per_second,
        }
        ratio = None if self.time is None else self.time.ratio
        return Row(
            self.case.name,
            ratio,
            "x Conv2d",
            self.case.limit,
            note=self.note,
            shown=shown,
            data={"block": self.to_json()},
        )


def measure_block(case: BlockCase, setting: Setting) -> MeasuredBlock:
    """One block, on inputs that are the same every time."""
    device = setting.device
    torch.manual_seed(0)
    shape = (case.batch, case.channels, case.side, case.side)
    inputs = [torch.randn(shape, device=device, requires_grad=True) for _ in range(REPEATS)]
    plain = nn.Conv2d(case.channels, case.channels, case.kernel, padding=case.kernel // 2, bias=False).to(device)
    nn.init.normal_(plain.weight, std=case.spread * (case.kernel**2 * case.channels) ** -0.5)
    layer = ImplicitBiasConv2d.from_standard(plain, coupling=COUPLING, slope=SLOPE, steps=case.iterations or None)
    out = torch.randn(shape, device=device)
    actions = {
        name: steps(nn.Sequential(module, nn.BatchNorm2d(case.channels), nn.ReLU()).to(device), inputs, out)
        for name, module in (("Conv2d", plain), ("implicit", layer))
    }
    # The verdict is on the other.
    eager = _compared(actions, replace(setting, rounds=max(2, setting.rounds // 3)))
    note, time = "", None
    try:
        time = _compared({name: captured(action, device) for name, action in actions.items()}, setting)
    except NotCapturable as refused:
        note = f"no CUDA graph of the block: {refused}"
    with torch.no_grad():
        rows = [plain(x).flatten(2).flatten(0, 1) for x in inputs]
    found, forward, backward = _alone(rows, device, once=bool(case.iterations))
    taken = torch.cat([one.steps for one in found]).float().mean().item()
    return MeasuredBlock(
        case,
        plain_seconds=(time or eager)["Conv2d"].seconds,
        time=time["implicit"] if time else None,
        eager=eager["implicit"],
        forward_seconds=forward,
        backward_seconds=backward,
        residual=max(one.residual.max().item() for one in found),
        converged=torch.cat([one.converged for one in found]).float().mean().item(),
        steps=taken,
        bytes_moved=5 * rows[0].nbytes,
        special_functions=len(rows[0]) * special_functions(case.side**2, taken, case.iterations),
        note=note,
    )


def steps(block: nn.Module, inputs: Sequence[Tensor], out: Tensor) -> Callable[[], None]:
    """Forward and backward on one input after the other, with fresh gradients."""

    def action() -> None:
        for x in inputs:
            x.grad = None
            block.zero_grad()
            block(x).backward(out)

    return action


def _compared(actions: dict[str, Callable[[], None]], setting: Setting) -> dict[str, StepTime]:
    times = side_by_side(actions, "Conv2d", rounds=setting.rounds, warmup=2, cuda=setting.is_gpu)
    return {
        name: StepTime(time.seconds / REPEATS, time.ratio, time.ratio_low, time.ratio_high)
        for name, time in times.items()
    }


def _alone(inputs: Sequence[Tensor], device: torch.device, *, once: bool) -> tuple[list[Solution], float, float]:
    """The solutions of some rows, and seconds on the device of a solve and of its gradient, replayed if that can be.

    With ``once`` the seconds are those of the mean coupling, of which one iteration is made.
    """
    coupling, slope = (torch.full((len(inputs[0]),), v, device=device) for v in (COUPLING, SLOPE))
    found, g = [solve(rows, coupling, slope) for rows in inputs], torch.randn_like(inputs[0])

    def forward() -> None:
        for rows in inputs:
            coupling_mean(rows, slope) if once else solve(rows, coupling, slope, check=False)

    def backward() -> None:
        for rows, one in zip(inputs, found, strict=True):
            if once:
                torch.ops.neuronal.coupling_mean_vjp(g, rows, slope, False)
            else:
                torch.ops.neuronal.mean_field_vjp(g, one.value, coupling, slope, True, False)

    with torch.no_grad():
        there, back = (_replayed_seconds(action, device) / len(inputs) for action in (forward, backward))
    return found, there, back


def _replayed_seconds(action: Callable[[], None], device: torch.device) -> float:
    with suppress(NotCapturable):
        action = captured(action, device)
    return device_seconds(action, device)


def special_functions(units: int, steps: float, iterations: int = 0) -> int:
    """Of a row, forward and backward: one per pair and step; or two tables for the gradient, and divisions per unit."""
    if iterations:
        # Half a reciprocal for a pair forward, and one backward.
        return iterations * 3 * units**2 // 2
    if units <= kernels.FEW:
        return int((steps + 1) * units * (units + 1))
    return 4 * 256 + 2 * units


def ahead() -> list[Job]:
    """The kernels of every number of units, which the compiler takes long for."""
    cases = {(case.side, case.iterations): replace(case, batch=2) for case in CASES}
    return [Job(f"implicit, {case.name}", compile_one, (case,)) for _, case in sorted(cases.items(), reverse=True)]


def compile_one(case: BlockCase, device: str = "cuda") -> None:
    """Everything of a block that will be timed, once."""
    measure_block(case, Setting(torch.device(device), rounds=2))


def rows(setting: Setting) -> Iterator[Row]:
    """All blocks."""
    for case in CASES:
        yield measure_block(case, setting).row(setting.ceilings)
