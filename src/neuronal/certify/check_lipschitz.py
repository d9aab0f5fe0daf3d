"""Verifies a ball that follows from a Lipschitz bound, on the exported graph and with norms computed in another way."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from math import ceil, inf, prod, sqrt
from typing import Any

import torch
from torch import Tensor, fx, nn

from neuronal.certify.certificate import OTHER_STATEMENT, Certificate, require
from neuronal.certify.exported import Mark, leaves, walk
from neuronal.certify.statement import ball
from neuronal.core.inference import Arguments, call_on_copy

TOLERANCES = 1e-11, 1e-9
# The maker's constants are a little above the true ones, and so may these be.
ROUNDING = 1 + 1e-7


def check_lipschitz(certificate: Certificate, model: nn.Module) -> None:
    """Raises ``NotConfirmed`` unless margin, error and bound, all computed again, are enough for the radius."""
    evidence = certificate.evidence
    require(certificate.verdict == "certified" and certificate.witness is None, "no ball is ever refuted")
    require(certificate.promise == "real", "it is about real numbers only")
    require(evidence.norm == 2 and type(evidence.norm) is int, f"there is no norm {evidence.norm!r}")
    radius = evidence.radius
    require(type(radius) is float and radius > 0, "its radius is no positive number")
    require(certificate.statement == ball(evidence.label, radius, 2), OTHER_STATEMENT)
    x = evidence.x
    require(isinstance(x, Tensor) and x.is_floating_point() and x.isfinite().all(), "its input is no finite tensor")
    x = x.detach().double().unsqueeze(0)
    # What is left of the equations of implicit-bias layers shows in how much the outputs move with their tolerance.
    (logits, rough), precise = zip(*(_logits(model, x, tolerance) for tolerance in TOLERANCES), strict=True)
    require(type(evidence.label) is int and int(logits.argmax()) == evidence.label, "the model predicts another class")
    size = logits.abs().max().item()
    error = sqrt(2) * ((logits - rough).norm().item() + 1e-13 * size)
    others = logits.clone()
    others[evidence.label] = -inf
    room = (logits[evidence.label] - others.max()).item() - error
    require(room > 0, "the margin at its input is within rounding")
    constant = exported_constant(precise[0], x)
    require(constant is not None, "a part of the exported graph has no constant that is known")
    require(sqrt(2) * (constant or 0.0) * radius <= room * ROUNDING or constant == 0, "its radius is too large")


def _logits(model: nn.Module, x: Tensor, tolerance: float) -> tuple[Tensor, nn.Module]:
    """Those of a float64 copy whose implicit-bias layers are solved to this tolerance, and the copy."""
    precise = deepcopy(model).double().eval()
    for module in precise.modules():
        if hasattr(module, "coupling") and hasattr(module, "tolerance"):
            module.tolerance = tolerance  # type: ignore[assignment]
    logits = call_on_copy(precise, x)
    require(logits.dim() == 2 and len(logits) == 1 and logits.shape[1] > 1, "the model gives no scores of classes")
    return logits[0], precise


@dataclass(frozen=True)
class Grows(Mark):
    """A value that moves at most so many times as far as the input."""

    by: float


def exported_constant(model: nn.Module, x: Tensor) -> float | None:
    """A Lipschitz bound of the exported graph; None where a part is not known."""
    # Taken apart, a PReLU is a choice by sign, of which no constant is known.
    whole = (torch.ops.aten._prelu_kernel.default,)
    found = walk(model, x, Grows(1.0), lambda name, given, node: Grows(RULES[name](_Call(given, node))), whole)
    return None if found is None else found.by


class _Call:
    """An operation of the graph: its arguments by name, and the sizes of tensors."""

    def __init__(self, given: Arguments, node: fx.Node):
        self.given, self.node, self.size = given, node, _size(node)

    def __getitem__(self, name: str) -> Any:
        return self.given[name]

    @property
    def by(self) -> float:
        """Of the one value that the operation is about; two are refused."""
        (one,) = (v for v in leaves(self.given) if isinstance(v, Grows))
        return one.by

    def size_of(self, name: str) -> tuple[int, ...]:
        return _size(self.node.args[list(self.given).index(name)])

    def spread(self, name: str) -> float:
        """How far a value moves that is repeated to the size of the result."""
        by: float = self[name].by
        return by * sqrt(prod(self.size) / prod(self.size_of(name)))


def _size(node: Any) -> tuple[int, ...]:
    value = node.meta["val"]
    return tuple((value[0] if isinstance(value, list | tuple) else value).shape)


def _top(matrix: Tensor) -> float:
    """The largest singular value, from the eigenvalues of the smaller product with itself."""
    small = matrix if matrix.shape[-2] <= matrix.shape[-1] else matrix.mT
    return sqrt(max(float(torch.linalg.eigvalsh(small @ small.mH).max()), 0.0))


def _refuse_moving(call: _Call, *names: str) -> None:
    """Weights and biases have to be constants."""
    if any(isinstance(call.given.get(name), Grows) for name in names):
        raise ValueError("a weight or bias that depends on the input")


def _matrix(call: _Call) -> float:
    _refuse_moving(call, "self" if "mat1" in call.given else "", "mat2")
    return call.by * _top(call["mat2"].double()) * abs(float(call.given.get("alpha", 1)))


def _convolution(call: _Call) -> float:
    """A padded image fits into a circle long enough, so the convolution is a part of a circular one."""
    _refuse_moving(call, "bias", "weight")
    weight: Tensor = call["weight"].double()
    if call["transposed"]:
        raise ValueError("transposed")
    sizes = [
        n + 2 * p + d * (k - 1)
        for n, p, d, k in zip(
            call.size_of("input")[2:], call["padding"], call["dilation"], weight.shape[2:], strict=True
        )
    ]
    best = 0.0
    for part in weight.chunk(call["groups"]):
        spread = torch.zeros(*part.shape[:2], *sizes, dtype=torch.float64)
        places = tuple(slice(0, d * (k - 1) + 1, d) for d, k in zip(call["dilation"], part.shape[2:], strict=True))
        spread[(slice(None), slice(None), *places)] = part
        symbols = torch.fft.fftn(spread, dim=list(range(2, spread.dim()))).flatten(2).permute(2, 0, 1)
        taps = zip(part.shape[2:], call["stride"], call["dilation"], strict=True)
        seen = prod(ceil(k / s) if d == 1 else k for k, s, d in taps)
        best = max(best, min(_top(symbols), sqrt(seen) * _top(part.flatten(1))))
    return call.by * min(best, _schur(call, "input", weight=weight.abs(), bias=None))


def _schur(call: _Call, name: str, **absolute: Any) -> float:
    """The norm of a linear map is at most that of its absolute weights' largest row sum and largest column sum."""
    target: Any = call.node.target
    with torch.enable_grad():
        device = next((t.device for t in absolute.values() if isinstance(t, Tensor)), None)
        x = torch.ones(call.size_of(name), dtype=torch.float64, device=device, requires_grad=True)
        rows = target(**call.given | absolute | {name: x})
        (columns,) = torch.autograd.grad(rows.sum(), x)
    return sqrt(float(rows.max() * columns.max()))


def _weighed(call: _Call) -> float:
    """Linear with no negative weight."""
    return call.by * _schur(call, "self")


def _sum(call: _Call) -> float:
    factors = {"self": 1.0, "other": abs(float(call["alpha"]))}
    return sum(factor * call.spread(name) for name, factor in factors.items() if isinstance(call[name], Grows))


def _product(call: _Call) -> float:
    value, by = ("self", "other") if isinstance(call["self"], Grows) else ("other", "self")
    return call.spread(value) * torch.as_tensor(call[by]).double().abs().max().item()


def _max_pool(call: _Call) -> float:
    rank = len(call["kernel_size"])
    options = (
        (list(call[name]) or list(call["kernel_size"])) for name in ("kernel_size", "stride", "padding", "dilation")
    )
    windows = [
        [range(o * s - p, o * s - p + k * d, d) for o in range(out)]
        for out, k, s, p, d in zip(call.size[-rank:], *options, strict=True)
    ]
    return call.by * _uses(windows, call.size_of("self"))


def _adaptive_max_pool(call: _Call) -> float:
    sizes = zip(call.size_of("self")[-2:], call["output_size"], strict=True)
    windows = [[range(i * n // out, -(-(i + 1) * n // out)) for i in range(out)] for n, out in sizes]
    return call.by * _uses(windows, call.size_of("self"))


def _uses(windows: list[list[range]], size: tuple[int, ...]) -> float:
    """A number is in as many windows as its places along each dimension are."""
    places = zip(windows, size[-len(windows) :], strict=True)
    return sqrt(prod(max(sum(j in window for window in along) for j in range(n)) for along, n in places))


def _batch_norm(call: _Call) -> float:
    scale = 1 / (call["running_var"].double() + call["eps"]).sqrt()
    return call.by * float((scale if call["weight"] is None else scale * call["weight"].double()).abs().max())


def _joined(call: _Call) -> float:
    return sqrt(sum(v.by**2 for v in call["tensors"] if isinstance(v, Grows)))


def _coupled(call: _Call) -> float:
    strength = float((call["coupling"].double() * call["slope"].double()).max())
    if call.given.get("sigma", "tanh") != "tanh" or not strength < 1:
        raise ValueError("no bound")
    return call.by / (1 - max(strength, 0.0))


_SAME = "relu abs neg tanh sigmoid clamp hardtanh constant_pad_nd"
_WEIGHED = "view permute clone alias index slice select unsqueeze squeeze expand mean avg_pool2d"
RULES: dict[str, Callable[[_Call], float]] = {
    **dict.fromkeys(_SAME.split(), lambda call: call.by),
    **dict.fromkeys(_WEIGHED.split(), _weighed),
    "leaky_relu": lambda call: call.by * max(1.0, abs(call["negative_slope"])),
    "addmm": _matrix,
    "mm": _matrix,
    "convolution": _convolution,
    "add": _sum,
    "sub": _sum,
    "mul": _product,
    "cat": _joined,
    "max_pool2d_with_indices": _max_pool,
    "adaptive_max_pool2d": _adaptive_max_pool,
    "_prelu_kernel": lambda call: call.by * max(1.0, float(call["weight"].abs().max())),
    "_native_batch_norm_legit_no_training": _batch_norm,
    "mean_field": _coupled,
}
