"""Verifies a ball that follows from a Lipschitz bound, on the exported graph and with norms computed in another way."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from math import ceil, inf, prod, sqrt
from typing import Any

import torch
from torch import Tensor, fx, nn

from neuronal.certify.certificate import Certificate

# The maker's constants are a little above the true ones, and so may these be.
ROUNDING = 1 + 1e-7


def check_lipschitz(certificate: Certificate, model: nn.Module) -> bool:
    """Whether margin and bound, computed again, are enough for the radius."""
    evidence = certificate.evidence
    if certificate.verdict != "certified" or not evidence.radius >= 0 or evidence.norm != 2:
        return False
    model = deepcopy(model).double().eval()
    for module in model.modules():
        if hasattr(module, "coupling") and hasattr(module, "tolerance"):
            module.tolerance = 1e-11  # type: ignore[assignment]
    x = evidence.x.detach().double().unsqueeze(0)
    with torch.no_grad():
        logits = model(x)[0]
    if int(logits.argmax()) != evidence.label or evidence.error < 0:
        return False
    others = logits.clone()
    others[evidence.label] = -inf
    margin = (logits[evidence.label] - others.max()).item()
    room = min(margin, evidence.margin) - sqrt(2) * evidence.error
    if room <= 0 or abs(margin - evidence.margin) > sqrt(2) * evidence.error + 1e-12 * logits.abs().max().item():
        return False
    constant = exported_constant(model, x)
    return constant is not None and sqrt(2) * constant * evidence.radius <= room * ROUNDING


@dataclass(frozen=True)
class Grows:
    """A value that moves at most so many times as far as the input."""

    by: float


def exported_constant(model: nn.Module, x: Tensor) -> float | None:
    """A Lipschitz bound of the exported graph; None where a part is not known."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.export.export(model, (x,), strict=False).run_decompositions()
            result = _Walk(program.module()).run(Grows(1.0))
    except Exception:
        # Whatever export or a graph cannot do, the answer is the same: not confirmed.
        return None
    return result.by if isinstance(result, Grows) else None


class _Walk(fx.Interpreter):
    def run_node(self, n: fx.Node) -> Any:
        if n.op == "call_module":
            return None
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.op == "output":
            (result,) = args[0] if isinstance(args[0], list | tuple) else args
            return result
        flat = [v for a in [*args, *kwargs.values()] for v in (a if isinstance(a, list | tuple) else [a])]
        grows = [v.by for v in flat if isinstance(v, Grows)]
        if n.op != "call_function" or not grows:
            return super().run_node(n)
        if n.target is operator.getitem:
            return args[0]
        target: Any = n.target
        name = target._schema.name.partition("::")[2]
        if name.startswith("_assert"):
            return None
        names = [a.name for a in target._schema.arguments]
        given = (
            {a.name: a.default_value for a in target._schema.arguments} | dict(zip(names, args, strict=False)) | kwargs
        )
        nodes = dict(zip(names, n.args, strict=False))
        shapes = {k: tuple(v.meta["val"].shape) for k, v in nodes.items() if isinstance(v, fx.Node) and _is_tensor(v)}
        return Grows(_FACTORS[name](given, shapes | {"": _shape(n)}))


def _is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), Tensor)


def _shape(node: fx.Node) -> tuple[int, ...]:
    value = node.meta["val"]
    return tuple((value[0] if isinstance(value, list | tuple) else value).shape)


Given = dict[str, Any]
Shapes = dict[str, tuple[int, ...]]


def _one(given: Given, shapes: Shapes) -> float:
    name = "self" if "self" in given else "input"
    if sum(isinstance(v, Grows) for v in given.values()) != 1:
        raise ValueError("two values")
    by: float = given[name].by
    return by


def _times(factor: Callable[[Given, Shapes], float]) -> Callable[[Given, Shapes], float]:
    return lambda given, shapes: _one(given, shapes) * factor(given, shapes)


def _top(matrix: Tensor) -> float:
    """The largest singular value, from the eigenvalues of the smaller product with itself."""
    small = matrix if matrix.shape[-2] <= matrix.shape[-1] else matrix.mT
    return sqrt(max(float(torch.linalg.eigvalsh(small @ small.mH).max()), 0.0))


def _matrix(given: Given, shapes: Shapes) -> float:
    value = given["mat1"] if "mat1" in given else given["self"]
    by: float = value.by
    return by * _top(given["mat2"].double()) * abs(float(given.get("alpha", 1)))


def _convolution(given: Given, shapes: Shapes) -> float:
    """A padded image fits into a circle long enough, so the convolution is a part of a circular one."""
    weight: Tensor = given["weight"].double()
    if given["transposed"]:
        raise ValueError("transposed")
    sizes = [
        n + 2 * p + d * (k - 1)
        for n, p, d, k in zip(shapes["input"][2:], given["padding"], given["dilation"], weight.shape[2:], strict=True)
    ]
    best = 0.0
    for part in weight.chunk(given["groups"]):
        spread = torch.zeros(*part.shape[:2], *sizes, dtype=torch.float64)
        places = tuple(slice(0, d * (k - 1) + 1, d) for d, k in zip(given["dilation"], part.shape[2:], strict=True))
        spread[(slice(None), slice(None), *places)] = part
        symbols = torch.fft.fftn(spread, dim=list(range(2, spread.dim()))).flatten(2).permute(2, 0, 1)
        positions = list(range(2, part.dim()))
        sums = part.abs().sum([0, *positions]).max() * part.abs().sum([1, *positions]).max()
        taps = zip(part.shape[2:], given["stride"], given["dilation"], strict=True)
        seen = prod(ceil(k / s) if d == 1 else k for k, s, d in taps)
        best = max(best, min(_top(symbols), sqrt(float(sums)), sqrt(seen) * _top(part.flatten(1))))
    by: float = given["input"].by
    return by * best


def _sum(given: Given, shapes: Shapes) -> float:
    total = 0.0
    for name, factor in (("self", 1.0), ("other", abs(float(given["alpha"])))):
        if isinstance(given[name], Grows):
            total += given[name].by * factor * sqrt(prod(shapes[""]) / prod(shapes[name]))
    return total


def _product(given: Given, shapes: Shapes) -> float:
    value, by = ("self", "other") if isinstance(given["self"], Grows) else ("other", "self")
    factor = torch.as_tensor(given[by]).double().abs().max().item()
    grown: float = given[value].by
    return grown * factor * sqrt(prod(shapes[""]) / prod(shapes[value]))


def _windows(given: Given) -> tuple[int, int]:
    size, stride = given["kernel_size"], given["stride"] or given["kernel_size"]
    return prod(size), prod(ceil(k / s) for k, s in zip(size, stride, strict=True))


def _max_pool(given: Given, shapes: Shapes) -> float:
    if any(d != 1 for d in given["dilation"]):
        raise ValueError("dilated")
    return sqrt(_windows(given)[1])


def _mean_pool(given: Given, shapes: Shapes) -> float:
    if any(given["padding"]) or given["ceil_mode"] or given.get("divisor_override") is not None:
        raise ValueError("not a plain mean")
    inputs, windows = _windows(given)
    return sqrt(windows / inputs)


def _mean(given: Given, shapes: Shapes) -> float:
    return sqrt(prod(shapes[""]) / prod(shapes["self"]))


def _batch_norm(given: Given, shapes: Shapes) -> float:
    scale = 1 / (given["running_var"].double() + given["eps"]).sqrt()
    return float((scale if given["weight"] is None else scale * given["weight"].double()).abs().max())


def _joined(given: Given, shapes: Shapes) -> float:
    return sqrt(sum(v.by**2 for v in given["tensors"] if isinstance(v, Grows)))


def _coupled(given: Given, shapes: Shapes) -> float:
    strength = float((given["coupling"].double() * given["slope"].double()).max())
    if given["sigma"] != "tanh" or strength >= 1:
        raise ValueError("no bound")
    by: float = given["a"].by
    return by / (1 - max(strength, 0.0))


_SAME = (
    "view permute clone alias relu abs neg slice select unsqueeze squeeze constant_pad_nd tanh sigmoid clamp hardtanh"
)
_FACTORS: dict[str, Callable[[Given, Shapes], float]] = {
    **dict.fromkeys(_SAME.split(), _one),
    "addmm": _matrix,
    "mm": _matrix,
    "convolution": _convolution,
    "add": _sum,
    "sub": _sum,
    "mul": _product,
    "cat": _joined,
    "expand": _times(lambda given, shapes: sqrt(prod(shapes[""]) / prod(shapes["self"]))),
    "leaky_relu": _times(lambda given, shapes: max(1.0, abs(given["negative_slope"]))),
    "max_pool2d_with_indices": _times(_max_pool),
    "avg_pool2d": _times(_mean_pool),
    "mean": _times(_mean),
    "_native_batch_norm_legit_no_training": _times(_batch_norm),
    "mean_field": _coupled,
}
