"""Verifies certificates of activity again: multipliers in rational numbers, boxes with bounds of its own."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.certify.certificate import Certificate
from neuronal.core.inference import evaluating
from neuronal.geometry.lowering import lower
from neuronal.geometry.program import Affine, Concat, Convolution, Dense, Kink, Maximum, Program, Scale, Step, Sum
from neuronal.geometry.trace import watching_relus

Rational = Fraction
Sides = tuple[Tensor, Tensor]


def check_activity(certificate: Certificate, model: nn.Module) -> bool:
    """Whether every proof in the evidence holds, and whether a witness silences what it is said to silence."""
    evidence = certificate.evidence
    layers = getattr(evidence, "layers", None)
    if certificate.verdict == "refuted":
        if certificate.witness is None:
            return False
        if layers is None:
            return _is_silent(model, certificate.witness, evidence.cutoff)
        return _silences(model, certificate.witness, layers)
    if layers is None:
        return evidence.verdict == "certified" and _layer_holds(evidence, model)
    return all(one.verdict == "certified" for one in layers) and _network_holds(evidence, model)


# Witnesses


def _is_silent(layer: nn.Module, x: Tensor, cutoff: float) -> bool:
    with evaluating(layer):
        z = layer(x)
    has_relu = getattr(layer, "activation", None) == "relu"
    active = z.ne(0) if has_relu else z.gt(cutoff)
    return not bool(active.any(dim=1).all())


def _silences(model: nn.Module, x: Tensor, layers: Sequence[Any]) -> bool:
    seen: list[Tensor] = []
    with evaluating(model), watching_relus(model, lambda _, y: seen.append(y[0])):
        model(x)
    said = [one for one, y in zip(layers, seen, strict=False) if one.verdict == "refuted"]
    shown = [
        y for one, y in zip(layers, seen, strict=False)
        if one.verdict == "refuted" and not y.gt(0).any(dim=0 if len(y) == one.units else -1).all()
    ]  # fmt: skip
    return len(seen) == len(layers) and bool(said) and len(said) == len(shown)


# Layers


def _layer_holds(evidence: Any, layer: nn.Module) -> bool:
    cutoff = Fraction(evidence.cutoff)
    if _is_changed(layer):
        return False
    if evidence.by == "construction":
        return _closes(layer, cutoff)
    lam = _rationals(evidence.multipliers)
    if not lam or min(lam) < 0 or not any(lam):
        return False
    row, constant = _pulled_back(lam, layer)
    if evidence.by == "rationals":
        return not any(row) and constant > cutoff * sum(lam)
    padded = _is_padded(layer)
    return evidence.by == "box" and _least(row, constant, evidence.low, evidence.high, padded) > cutoff * sum(lam)


def _is_changed(layer: nn.Module) -> bool:
    """Whether something else than torch or this library says what the layer computes."""
    return bool(layer._forward_hooks) or layer.forward.__module__.partition(".")[0] not in ("torch", "neuronal")


def _rationals(values: Any) -> list[Fraction]:
    if values is None:
        return []
    return [Fraction(v) for v in (values.double().flatten().tolist() if isinstance(values, Tensor) else values)]


def _closes(layer: nn.Module, cutoff: Fraction) -> bool:
    """Whether a Farkas layer's weighted sum of biases is above the cutoff's share, in real numbers."""
    balance: Any = getattr(layer, "balance", None)
    if balance is None or balance.offsets is None:
        return False
    lam = _rationals(balance.multipliers)
    own, total = Fraction(balance.cutoff), sum(lam) + 1
    if min(lam) <= 0:
        return False
    if balance.rule == "softplus":
        # softplus is positive, so the margin alone is below the slack.
        return Fraction(balance.margin) + (own - cutoff) * total > 0
    weighted = sum(a * b for a, b in zip(lam, _rationals(balance.offsets), strict=True))
    return max(own * total, Fraction(balance.last.item()) + weighted) > cutoff * total


def _pulled_back(lam: list[Fraction], layer: nn.Module) -> tuple[list[Fraction], Fraction]:
    """lam'(W v + b) as a row on v and a constant, exactly."""
    if getattr(layer, "activation", None) == "relu":
        own: Any = layer
        return _through(lam, own.direction().view(own.weight.shape), own.offset, getattr(own, "groups", 1))
    own_layer: Any = layer
    plain: Any = own_layer.to_standard() if hasattr(layer, "to_standard") else layer
    constant = Fraction(0)
    for part in reversed(list(plain) if isinstance(plain, nn.Sequential) else [plain]):
        lam, more = _through(lam, part.weight, part.bias, getattr(part, "groups", 1))
        constant += more
    return lam, constant


def _through(lam: list[Fraction], weight: Tensor, bias: Tensor | None, groups: int) -> tuple[list[Fraction], Fraction]:
    rows = weight.detach().double().cpu()
    per_group = len(rows) // groups
    row: list[Fraction] = []
    for group in range(groups):
        part = rows[group * per_group : (group + 1) * per_group].flatten(1).tolist()
        shares = lam[group * per_group : (group + 1) * per_group]
        used = [(a, r) for a, r in zip(shares, part, strict=True) if a]
        row += [sum((a * Fraction(r[j]) for a, r in used), Fraction(0)) for j in range(rows[0].numel())]
    constant = Fraction(0)
    if bias is not None:
        constant = sum((a * b for a, b in zip(lam, _rationals(bias.detach()), strict=True)), Fraction(0))
    return row, constant


def _is_padded(layer: Any) -> bool:
    padding = getattr(layer, "padding", 0)
    return getattr(layer, "padding_mode", "") == "zeros" and padding not in (0, (0,), (0, 0), (0, 0, 0), "valid")


def _least(row: list[Fraction], constant: Fraction, low: Tensor, high: Tensor, padded: bool) -> Fraction:
    """The smallest value of row · v + constant on the box; where there is padding v may be zero as well."""
    for g, a, b in zip(row, _rationals(low), _rationals(high), strict=True):
        choices = [g * a, g * b, *([Fraction(0)] if padded else [])]
        constant += min(choices)
    return constant


# Networks


def _network_holds(evidence: Any, model: nn.Module) -> bool:
    program = lower(model, ((evidence.low + evidence.high) / 2).unsqueeze(0)).to(device="cpu")
    steps = {step.output: step for step in program.steps}
    bounds = _bounds(program, evidence.low, evidence.high)
    relus = [step for step in program.steps if isinstance(step.op, Kink) and step.op.is_relu]
    if len(relus) != len(evidence.layers):
        return False
    return all(
        _relu_holds(one, relu.inputs[0], steps, bounds, model) for one, relu in zip(evidence.layers, relus, strict=True)
    )


def _relu_holds(one: Any, value: int, steps: dict[int, Step], bounds: dict[int, Sides], model: nn.Module) -> bool:
    if one.by == "interval":
        low = bounds[value][0][0]
        low = low if len(low) == one.units else low.movedim(-1, 0)
        return bool((low.flatten(1) if low.dim() > 1 else low.unsqueeze(1)).amax(0).min() > one.cutoff)
    value = _without_what_is_positive(value, steps, bounds)
    if one.by == "construction":
        return _is_closed(value, steps, bounds, model, Fraction(one.cutoff)) is not None
    lam, constant = _rationals(one.multipliers), Fraction(0)
    total = sum(lam)
    if one.by != "box" or not lam or min(lam) < 0 or not total:
        return False
    scales: list[Step] = []
    while value in steps and isinstance(steps[value].op, Scale):
        scales.append(steps[value])
        value = steps[value].inputs[0]
    if value not in steps or not isinstance(op := steps[value].op, Dense | Convolution):
        return False
    for step in scales:
        scale, shift = (_per_unit(c, step.shape, isinstance(op, Dense)) for c in (step.op.scale, step.op.shift))  # type: ignore[union-attr]
        if scale is None or shift is None:
            return False
        constant += sum(a * b for a, b in zip(lam, shift, strict=True))
        lam = [a * b for a, b in zip(lam, scale, strict=True)]
    row, more = _through(lam, op.weight, op.shift, getattr(op, "groups", 1))
    low, high = (side[0] for side in bounds[steps[value].inputs[0]])
    if isinstance(op, Dense):
        low, high = low.reshape(-1, low.shape[-1]).amin(0), high.reshape(-1, low.shape[-1]).amax(0)
    else:
        size = op.weight[0, 0].numel()
        low = low.flatten(1).amin(1).repeat_interleave(size)
        high = high.flatten(1).amax(1).repeat_interleave(size)
    padded = isinstance(op, Convolution) and any(op.padding)
    # Batch norms are folded into the program's constants in float64: a few of its roundings are not ours to see.
    slack = Fraction(1, 10**12) * sum((abs(g) * Fraction(max(abs(a), abs(b))) for g, a, b in zip(
        row, low.tolist(), high.tolist(), strict=True)), Fraction(1))  # fmt: skip
    return _least(row, constant + more, low, high, padded) - slack > Fraction(one.cutoff) * total


def _per_unit(constant: Tensor | None, shape: tuple[int, ...], is_dense: bool) -> list[Fraction] | None:
    """The number a constant, spread over all values, holds at every position of a unit; None where it differs."""
    spread = (torch.zeros(()) if constant is None else constant).expand(1, *shape)[0]
    units = (spread.movedim(-1, 0) if is_dense else spread).reshape(shape[-1 if is_dense else 0], -1)
    return _rationals(units[:, 0]) if units.eq(units[:, :1]).all() else None


def _without_what_is_positive(value: int, steps: dict[int, Step], bounds: dict[int, Sides]) -> int:
    while value in steps and isinstance(op := steps[value].op, Sum) and op.factor == 1:
        one, two = steps[value].inputs
        if bounds[one][0].min() >= 0 and bounds[one][0].shape == bounds[value][0].shape:
            value = two
        elif bounds[two][0].min() >= 0 and bounds[two][0].shape == bounds[value][0].shape:
            value = one
        else:
            break
    return value


def _is_closed(
    value: int, steps: dict[int, Step], bounds: dict[int, Sides], model: nn.Module, cutoff: Fraction
) -> list[Fraction] | None:
    """Multipliers of the Farkas layer a value comes out of, if these promise an active unit there."""
    if value not in steps:
        return None
    step = steps[value]
    if isinstance(step.op, Sum) and step.op.factor == 1 and cutoff == 0:
        one, two = (_is_closed(i, steps, bounds, model, cutoff) for i in step.inputs)
        return one if one is not None and one == two else None
    layer: Any = model.get_submodule(step.path)
    if _is_changed(layer) or not _closes(layer, cutoff):
        return None
    return _rationals(layer.balance.multipliers)


def _bounds(program: Program, low: Tensor, high: Tensor) -> dict[int, Sides]:
    """Bounds of every value: positive and negative weights apart, sides moved out by far more than rounding."""
    known: dict[int, Sides] = {0: (low.double().unsqueeze(0), high.double().unsqueeze(0))}
    for step in program.steps:
        known[step.output] = _apart(step, [known[i] for i in step.inputs])
    return known


def _apart(step: Step, inputs: list[Sides]) -> Sides:
    op = step.op
    (a, b), *rest = inputs
    if isinstance(op, Affine):
        up, down = (op.linear(b) + op.absolute(b)) / 2, (op.linear(a) - op.absolute(a)) / 2
        top = up + down
        bottom = (op.linear(a) + op.absolute(a)) / 2 + (op.linear(b) - op.absolute(b)) / 2
        size = op.absolute(torch.maximum(a.abs(), b.abs()))
        shift = op.bias()
        sizes = op.bias_size()
        if shift is not None and sizes is not None:
            top, bottom, size = top + shift, bottom + shift, size + sizes
        return (bottom, top) if op.terms == 0 else (bottom - 1e-13 * op.terms * size, top + 1e-13 * op.terms * size)
    if isinstance(op, Kink):
        ends = torch.stack([op(a), op(b), op(torch.zeros_like(a).clamp(a, b))])
        size = (0.0 if op.is_relu else 1e-15) * ends.abs().amax(0)
        return ends.amin(0) - size, ends.amax(0) + size
    if isinstance(op, Maximum):
        return torch.maximum(a, rest[0][0]), torch.maximum(b, rest[0][1])
    if isinstance(op, Concat):
        return torch.cat([s[0] for s in inputs], op.dim), torch.cat([s[1] for s in inputs], op.dim)
    assert isinstance(op, Sum)
    both = torch.stack([op.factor * rest[0][0], op.factor * rest[0][1]])
    size = 1e-15 * (a.abs() + b.abs() + both.abs().sum(0))
    return a + both.amin(0) - size, b + both.amax(0) + size
