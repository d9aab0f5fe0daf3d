"""Tangent kernels beside the plain way to compute them: ``torch.func`` Jacobians of all inputs, contracted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from neuronal.geometry.precision import all_digits
from neuronal.kernel.empirical import Method, empirical_ntk
from neuronal.models.registry import create_model
from neuronal.train.timing import StepTime, side_by_side

PLAIN = "torch.func"


@dataclass(frozen=True)
class Case:
    """A network, how many inputs, and the bytes that Jacobians may take."""

    model: str
    options: dict[str, Any]
    shape: tuple[int, int]
    inputs: int
    memory: int
    methods: tuple[Method, ...] = ("jacobian",)

    def __str__(self) -> str:
        widths = "-".join(str(width) for width in self.options.get("widths", ()))
        return f"{self.model} {widths or self.options.get('width', '')}, {self.inputs} inputs"


CASES = (
    Case("fcn", {"widths": (128, 128)}, (1, 28), 32, 2**30, ("jacobian", "structured")),
    Case("cnn", {"widths": (8, 16, 64)}, (1, 28), 32, 2**30),
)
DTYPES = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Timed:
    """One way to the kernel of a case: its time against the plain one, and how far apart the two answers are."""

    case: Case
    method: str
    dtype: str
    time: StepTime
    difference: float
    """Frobenius norm, relative to that of the plain answer."""
    peak: int
    """Bytes beyond what was taken before; 0 where it is not known."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def contracted(model: nn.Module, x: Tensor) -> Tensor:
    """The plain way: (inputs, inputs, outputs, outputs), all Jacobians in memory at once."""
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    buffers = {name: b.detach() for name, b in model.named_buffers()}

    def f(values: dict[str, Tensor], one: Tensor) -> Tensor:
        y: Tensor = functional_call(model, values | buffers, (one.unsqueeze(0),))
        return y.flatten()

    found: dict[str, Tensor] = vmap(jacrev(f), (None, 0))(parameters, x)
    flat = torch.cat([jacobian.flatten(2) for jacobian in found.values()], 2)
    return torch.einsum("iok,jpk->ijop", flat, flat)


def measure_case(case: Case, dtype: torch.dtype, device: torch.device, *, rounds: int) -> Iterator[Timed]:
    """Every method of a case beside the plain one; float32 with all its digits, so that answers can be compared."""
    in_chans, side = case.shape
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = create_model(case.model, "standard", in_chans=in_chans, img_size=side, **case.options)
        x = torch.randn(case.inputs, in_chans, side, side).to(device, dtype)
    model.to(device, dtype).eval()
    ways: dict[str, Callable[[], Tensor]] = {PLAIN: lambda: contracted(model, x)}
    for method in case.methods:
        ways[method] = lambda method=method: empirical_ntk(model, x, method=method, memory=case.memory)  # type: ignore[misc]
    with all_digits(device):
        answers = {name: _with_peak(way, device) for name, way in ways.items()}
    true = answers[PLAIN][0]
    apart = {name: ((answer - true).norm() / true.norm()).item() for name, (answer, _) in answers.items()}
    actions = {name: _forgetting(way) for name, way in ways.items()}
    with all_digits(device):
        times = side_by_side(actions, PLAIN, rounds=rounds, warmup=0, cuda=device.type == "cuda")
    for name, time in times.items():
        kind = str(dtype).removeprefix("torch.")
        yield Timed(case, name, kind, time, apart[name], answers[name][1])


def _forgetting(way: Callable[[], Tensor]) -> Callable[[], None]:
    def action() -> None:
        way()

    return action


def _with_peak(way: Callable[[], Tensor], device: torch.device) -> tuple[Tensor, int]:
    if device.type != "cuda":
        return way(), 0
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    answer = way()
    return answer, torch.cuda.max_memory_allocated() - before


def measure(*, rounds: int = 9) -> Iterator[Timed]:
    """All cases in both precisions, on the CPU."""
    for case in CASES:
        for dtype in DTYPES:
            yield from measure_case(case, dtype, torch.device("cpu"), rounds=rounds)
