"""How much every operation can stretch distances, and what it rounds, as a table.

A rule sees its inputs as :class:`Stretch`: an upper bound of the Lipschitz constant from the network's input in the
2-norm, and of the distance between the value computed here, in float64, and that of the real-valued network.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, prod, sqrt
from typing import Any

import torch
from torch import Tensor

from neuronal.certify.norms import SPARE, convolution_norm, matrix_norm

ROUNDOFF = 2.0**-53


@dataclass(frozen=True)
class Stretch:
    """``constant``: how much distances grow at most. ``error``: what rounding may have done to the value, in the 2-norm."""

    constant: float
    error: float


class NotLipschitz(ValueError):
    """No finite constant is known for a part of the network."""


class Call:
    """One operation as a rule sees it."""

    def __init__(self, name: str, arguments: dict[str, Any], result: Any, stretch_of: Callable[[Any], Stretch | None]):
        self.name, self.arguments, self._stretch_of = name, arguments, stretch_of
        self.result: Tensor = result[0] if isinstance(result, list | tuple) else result
        self.results = result

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def stretch(self, name: str = "self") -> Stretch:
        found = self._stretch_of(self[name])
        if found is None:
            raise NotLipschitz(f"computes {self.name} of a constant with a value that depends on the input")
        return found

    def constant(self, name: str) -> Any:
        if self._stretch_of(self[name]) is not None:
            raise NotLipschitz(
                f"computes {self.name} of two values that depend on the input, which has no finite constant"
            )
        return self[name]

    def scaled(self, factor: float, *, name: str = "self", terms: int = 0, size: float | None = None) -> Stretch:
        """The input stretched by ``factor``; ``terms`` roundings of values up to ``size`` (the result's own norm)."""
        before = self.stretch(name)
        norm = self.result.double().norm().item() if size is None else size
        gamma = terms * ROUNDOFF / (1 - terms * ROUNDOFF)
        factor *= SPARE
        return Stretch(before.constant * factor, (before.error * factor + 2 * gamma * norm) * SPARE)


Rule = Callable[[Call], Stretch]
RULES: dict[str, Rule] = {}


def _for(names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names.split(), rule))
        return rule

    return register


@_for(
    "view _unsafe_view reshape clone alias detach contiguous t transpose permute unsqueeze squeeze slice select flip "
    "constant_pad_nd relu abs neg split split_with_sizes unbind chunk pixel_shuffle channel_shuffle roll tanh sigmoid "
    "hardtanh clamp clamp_min clamp_max _to_copy lift_fresh"
)
def _does_not_stretch(call: Call) -> Stretch:
    for name in ("min", "max", "value", "min_val", "max_val"):
        if name in call.arguments:
            call.constant(name)
    if call.result.dtype != torch.float64:
        raise NotLipschitz(f"rounds to {call.result.dtype}")
    # Copies round nothing; tanh and sigmoid are computed to a few units of the last place.
    return call.scaled(1.0, terms=8 if call.name in ("tanh", "sigmoid") else 0)


@_for("leaky_relu")
def _leaky(call: Call) -> Stretch:
    return call.scaled(max(1.0, abs(call["negative_slope"])), terms=1)


@_for("_prelu_kernel")
def _prelu(call: Call) -> Stretch:
    return call.scaled(max(1.0, call.constant("weight").abs().max().item()), terms=1)


@_for("expand repeat")
def _repeated(call: Call) -> Stretch:
    return call.scaled(sqrt(call.result.numel() / max(call["self"].numel(), 1)))


@_for("mul div")
def _multiplied(call: Call) -> Stretch:
    by = "self" if call._stretch_of(call["other"]) is not None else "other"
    value = "other" if by == "self" else "self"
    if call.name == "div" and (by == "self" or call.arguments.get("rounding_mode") is not None):
        raise NotLipschitz("divides by a value that depends on the input, which has no finite constant")
    factor = torch.as_tensor(call.constant(by), dtype=torch.float64).abs()
    largest = (1 / factor.min() if call.name == "div" else factor.max()).item()
    spread = sqrt(max(call.result.numel() / call[value].numel(), 1.0))
    return call.scaled(largest * spread, name=value, terms=1)


@_for("add sub rsub")
def _added(call: Call) -> Stretch:
    one, two = (call._stretch_of(call[name]) for name in ("self", "other"))
    alpha = abs(float(call["alpha"]))
    factors = (alpha, 1.0) if call.name == "rsub" else (1.0, alpha)
    total, error = 0.0, 2 * 2 * ROUNDOFF * call.result.double().norm().item()
    for name, stretch, factor in zip(("self", "other"), (one, two), factors, strict=True):
        if stretch is not None:
            spread = factor * sqrt(max(call.result.numel() / call[name].numel(), 1.0)) * SPARE
            total, error = total + stretch.constant * spread, error + stretch.error * spread
        elif isinstance(call[name], Tensor) and factor != 1:
            error += 2 * ROUNDOFF * factor * call[name].double().norm().item()
    return Stretch(total * SPARE, error * SPARE)


@_for("cat stack")
def _joined(call: Call) -> Stretch:
    parts = [s for s in map(call._stretch_of, call["tensors"]) if s is not None]
    constant = sqrt(sum(s.constant**2 for s in parts))
    return Stretch(constant * SPARE, sqrt(sum(s.error**2 for s in parts)) * SPARE)


@_for("maximum minimum")
def _larger(call: Call) -> Stretch:
    parts = [s for s in (call._stretch_of(call[n]) for n in ("self", "other")) if s is not None]
    return Stretch(sqrt(sum(s.constant**2 for s in parts)) * SPARE, sqrt(sum(s.error**2 for s in parts)) * SPARE)


@_for("mm addmm")
def _matrix(call: Call) -> Stretch:
    name = "mat1" if call.name == "addmm" else "self"
    weight = call.constant("mat2").double()
    size = (weight.abs().norm() * call[name].double().norm()).item()
    if call.name == "addmm":
        bias = call.constant("self").double()
        size += bias.norm().item() * sqrt(call.result.numel() / bias.numel())
    return call.scaled(matrix_norm(weight) * _whole(call), name=name, terms=len(weight) + 4, size=size)


def _whole(call: Call) -> float:
    """alpha of a product; beta, of the bias, changes no distance."""
    return abs(float(call.arguments.get("alpha", 1)))


@_for("convolution")
def _convolution(call: Call) -> Stretch:
    if call["transposed"]:
        raise NotLipschitz("is a transposed convolution, whose norm is not bounded here")
    weight: Tensor = call.constant("weight").double()
    stride, groups = tuple(call["stride"]), call["groups"]
    sizes = weight.abs()
    dims = list(range(2, weight.dim()))
    absolute = sqrt(sizes.sum([0, *dims]).max().item() * sizes.sum([1, *dims]).max().item())
    size = absolute * call["input"].double().norm().item()
    if call["bias"] is not None:
        bias = call.constant("bias").double()
        size += bias.norm().item() * sqrt(call.result.numel() / bias.numel())
    terms = weight[0].numel() + 4
    norm = convolution_norm(weight, stride, groups, tuple(call["dilation"]))
    return call.scaled(norm, name="input", terms=terms, size=size)


@_for("native_batch_norm cudnn_batch_norm miopen_batch_norm")
def _batch_norm(call: Call) -> Stretch:
    if call["training"]:
        raise NotLipschitz("divides by the deviation of its own input, which has no finite constant")
    eps = call["eps"] if "eps" in call.arguments else call["epsilon"]
    scale = (call["running_var"].double() + eps).rsqrt()
    scale = scale if call["weight"] is None else scale * call.constant("weight").double()
    count = sqrt(call.result.numel() / len(scale))
    size = scale.abs().max().item() * (
        call["input"].double().norm().item() + call["running_mean"].norm().item() * count
    )
    size += 0.0 if call["bias"] is None else call["bias"].double().norm().item() * count
    return call.scaled(scale.abs().max().item(), name="input", terms=8, size=size)


@_for("mean sum")
def _summed(call: Call) -> Stretch:
    count = call["self"].numel() / max(call.result.numel(), 1)
    factor = sqrt(count) if call.name == "sum" else 1 / sqrt(count)
    size = call["self"].double().norm().item() * factor
    return call.scaled(factor, terms=ceil(count) + 1, size=size)


def _windows(call: Call) -> tuple[int, int]:
    """Inputs of a window, and windows of an input, at most."""
    size, stride = list(call["kernel_size"]), list(call["stride"]) or list(call["kernel_size"])
    dilation = list(call.arguments.get("dilation") or [1])
    wide = [(k - 1) * dilation[min(i, len(dilation) - 1)] + 1 for i, k in enumerate(size)]
    return prod(size), prod(min(k, ceil(w / s)) for k, w, s in zip(size, wide, stride, strict=True))


@_for("max_pool2d_with_indices max_pool3d_with_indices max_pool1d max_pool2d max_pool3d")
def _max_pool(call: Call) -> Stretch:
    return call.scaled(sqrt(_windows(call)[1]))


@_for("adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d")
def _adaptive_max_pool(call: Call) -> Stretch:
    outs = list(call["output_size"])
    sizes = list(call["self"].shape[-len(outs) :])
    return call.scaled(sqrt(prod(_sharing(n, o) for n, o in zip(sizes, outs, strict=True))))


def _sharing(size: int, windows: int) -> int:
    """How many of so many adaptive windows can share an input, in one dimension."""
    return 1 if size % windows == 0 else 2 if size >= windows else ceil(windows / size) + 1


@_for("avg_pool1d avg_pool2d avg_pool3d")
def _average_pool(call: Call) -> Stretch:
    inputs, windows = _windows(call)
    # Where padding is not counted, or the divisor is given, a window may be divided by as little as 1.
    plain = call.arguments.get("count_include_pad", True) and call.arguments.get("divisor_override") is None
    divisor = inputs if plain or not any(call["padding"]) else 1
    divisor = call.arguments.get("divisor_override") or divisor
    if call.arguments.get("ceil_mode"):
        divisor = 1
    factor = sqrt(inputs * windows) / divisor
    return call.scaled(factor, terms=inputs + 1, size=factor * call["self"].double().norm().item())


@_for("_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d")
def _adaptive_average_pool(call: Call) -> Stretch:
    outs = list(call["output_size"])
    sizes = list(call["self"].shape[-len(outs) :])
    # A window is the mean of n // o inputs at least.
    factor = prod(sqrt(_sharing(n, o) / (n // o or 1)) for n, o in zip(sizes, outs, strict=True))
    terms = prod(ceil(n / o) + 1 for n, o in zip(sizes, outs, strict=True))
    return call.scaled(factor, terms=terms, size=factor * call["self"].double().norm().item())


@_for("mean_field")
def _mean_field(call: Call) -> Stretch:
    """Units that draw each other together move no further than their inputs; others by 1 / (1 - coupling slope) at most."""
    if call["sigma"] != "tanh":
        raise NotLipschitz("couples its units by something else than tanh")
    strength = (call.constant("coupling").double() * call.constant("slope").double()).max().item()
    factor = 1.0 if strength <= 0 else 1 / (1 - strength)
    a = call["a"].double()
    # The result solves the equation for inputs that are off by the residual.
    residual = call.results[1].double() * a.abs().amax(1).clamp(min=1) * sqrt(a.shape[1])
    before = call.stretch("a")
    error = (before.error + residual.norm().item()) * factor * SPARE
    return Stretch(before.constant * factor * SPARE, error)
