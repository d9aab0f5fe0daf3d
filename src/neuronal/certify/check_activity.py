"""Verifies certificates of activity: multipliers in rational numbers, boxes by intervals through the model's own forward.

It shares no code with those who make them: neither the units they read off a layer nor the program they lower a network to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from neuronal.certify.certificate import OTHER_STATEMENT, Certificate, require
from neuronal.certify.cloud import Cloud
from neuronal.certify.statement import layer_activity, network_activity
from neuronal.core.inference import call_on_copy

# Batch norms are put together in float64: a few of its roundings are not ours to see.
SLACK = Fraction(1, 10**12)


# A layer


def check_layer(certificate: Certificate, layer: nn.Module) -> None:
    """Raises ``NotConfirmed`` unless the multipliers prove it, or the witness silences the layer."""
    evidence = certificate.evidence
    require(not _is_changed(layer), "the layer has hooks, or a forward of its own")
    require(isinstance(evidence.cutoff, int | float) and isfinite(evidence.cutoff), "its cutoff is no number")
    matrix = _Matrix(layer)
    require(evidence.units == matrix.units and type(evidence.units) is int, "the layer has another number of units")
    words = {"in_box": evidence.low is not None, "at_positions": bool(matrix.patch)}
    require(certificate.statement == layer_activity(evidence.units, evidence.cutoff, **words), OTHER_STATEMENT)
    require(
        certificate.promise == "real" and evidence.verdict == certificate.verdict, "its evidence says something else"
    )
    box = None if evidence.low is None and evidence.high is None else _box(evidence, (matrix.columns,))
    for unit in _dead(evidence, matrix.units, box):
        assert box is not None
        row, constant = matrix.pulled_back([Fraction(int(i == unit)) for i in range(matrix.units)])
        most = -_least([-v for v in row], -constant, *box, matrix.is_padded)
        require(most <= Fraction(evidence.cutoff), f"unit {unit} is not dead on the box")
    if certificate.verdict == "refuted":
        require(evidence.by == "" and evidence.multipliers is None, "it is refuted and has a proof")
        _require_silence(layer, certificate.witness, evidence.cutoff, box, matrix)
        return
    require(certificate.witness is None, "it is certified and has a witness against it")
    cutoff, lam = Fraction(evidence.cutoff), _rationals(evidence.multipliers)
    if evidence.by == "construction":
        require(lam == _closing(layer, cutoff), "the layer does not promise it with these multipliers")
        return
    _require_multipliers(lam, matrix.units)
    row, constant = matrix.pulled_back(lam)
    if evidence.by == "box" and box is not None:
        require(_least(row, constant, *box, matrix.is_padded) > cutoff * sum(lam), "its multipliers do not prove it")
    else:
        require(evidence.by == "rationals", f"it is shown by {evidence.by!r}, which is nothing known")
        require(not any(row) and constant > cutoff * sum(lam), "its multipliers do not cancel the weights")


class _Matrix:
    """What the units of a layer compute of their inputs, in rational numbers."""

    def __init__(self, layer: Any):
        self.layer = layer
        if hasattr(layer, "channels") and hasattr(layer, "widen"):  # closes a sum; every position by itself
            self.columns, self.patch, self.is_padded = layer.channels, (layer.channels, 1, 1), False
            self.units = layer.balance.num_free + 1
            return
        is_matrix = hasattr(layer, "in_features")
        self.units = layer.out_features if is_matrix else layer.out_channels
        self.patch = () if is_matrix else (layer.in_channels, *layer.kernel_size)
        self.columns = layer.in_features if is_matrix else prod(self.patch)
        padding = getattr(layer, "padding", 0)
        none = (0, (0,), (0, 0), (0, 0, 0), "valid")
        self.is_padded = getattr(layer, "padding_mode", "") == "zeros" and padding not in none

    def pulled_back(self, lam: list[Fraction]) -> tuple[list[Fraction], Fraction]:
        """lam'(W v + b) as a row on v and a constant, exactly."""
        layer = self.layer
        if hasattr(layer, "channels") and hasattr(layer, "widen"):
            free = _rationals(layer.balance.multipliers)
            row = [lam[i] - lam[-1] * free[i] for i in range(len(free))] + [Fraction(0)] * (self.columns - len(free))
            biases = _rationals(layer.balance.bias.detach())
            return row, sum((a * b for a, b in zip(lam, biases, strict=True)), Fraction(0))
        if getattr(layer, "activation", None) == "relu":
            return _through(lam, layer.direction().view(layer.weight.shape), layer.offset, getattr(layer, "groups", 1))
        plain: Any = layer.to_standard() if hasattr(layer, "to_standard") else layer
        constant = Fraction(0)
        for part in reversed(list(plain) if isinstance(plain, nn.Sequential) else [plain]):
            lam, more = _through(lam, part.weight, part.bias, getattr(part, "groups", 1))
            constant += more
        return lam, constant


def _require_silence(layer: Any, x: Any, cutoff: float, box: Sequence[Tensor] | None, matrix: _Matrix) -> None:
    """The witness, an input of the box in the layer's own precision, leaves a position without an active unit."""
    own: Tensor = next(layer.parameters())
    require(isinstance(x, Tensor) and x.dtype == own.dtype and x.isfinite().all(), "it has no witness of its precision")
    require(len(x) == 1 and x.dim() == (len(matrix.patch) + 1 if matrix.patch else 2), "its witness is not one input")
    if box is not None:
        # The box of a patch has one interval per channel, the widest.
        low, high = (side.view(x.shape[1], -1) for side in box)
        inside = x[0].double().cpu().reshape(x.shape[1], -1)
        held = (inside >= low.amin(1, keepdim=True)) & (inside <= high.amax(1, keepdim=True))
        require(held.all(), "its witness is not in the box")
    z = call_on_copy(layer, x)
    active = z != 0 if getattr(layer, "activation", None) == "relu" else z.double() > cutoff
    require(not active.any(dim=1).all(), "its witness leaves no position without an active unit")


def _box(evidence: Any, shape: tuple[int, ...] | None = None) -> tuple[Tensor, Tensor]:
    """Both sides in float64, if they are a box."""
    low, high = evidence.low, evidence.high
    require(isinstance(low, Tensor) and isinstance(high, Tensor), "its box has no sides")
    require(low.is_floating_point() and high.is_floating_point(), "its box has sides that are not numbers")
    low, high = low.double().cpu(), high.double().cpu()
    require(low.shape == high.shape and (shape is None or low.shape == shape), "its box has another shape")
    require(low.isfinite().all() and high.isfinite().all() and (low <= high).all(), "its box has no inside")
    return low, high


def _dead(evidence: Any, units: int, box: object) -> tuple[int, ...]:
    dead = () if evidence.dead_on_box is None else evidence.dead_on_box
    named = isinstance(dead, tuple) and all(type(i) is int and 0 <= i < units for i in dead)
    require(named and (box is not None or evidence.dead_on_box is None), "its dead units are none")
    return tuple(dead)


def _is_changed(layer: nn.Module) -> bool:
    """Whether something else than torch or this library says what the layer computes."""
    return bool(layer._forward_hooks or layer._forward_pre_hooks) or layer.forward.__module__.partition(".")[0] not in (
        "torch",
        "neuronal",
    )


def _rationals(values: Any) -> list[Fraction]:
    if values is None:
        return []
    return [
        Fraction(v) for v in (values.detach().double().flatten().tolist() if isinstance(values, Tensor) else values)
    ]


def _require_multipliers(lam: list[Fraction], units: int) -> None:
    require(len(lam) == units and min(lam) >= 0 and any(lam), "its multipliers are not one per unit, or negative")


def _closing(layer: nn.Module, cutoff: Fraction) -> list[Fraction] | None:
    """The multipliers of a Farkas layer whose weighted sum of biases is above the cutoff's share, in real numbers."""
    balance: Any = getattr(layer, "balance", None)
    if balance is None or balance.offsets is None:
        return None
    lam = _rationals(balance.multipliers)
    own, total = Fraction(balance.cutoff), sum(lam) + 1
    if min(lam) <= 0:
        return None
    if balance.rule == "softplus":
        # softplus is positive, so the margin alone is below the slack.
        holds = Fraction(balance.margin) + (own - cutoff) * total > 0
    else:
        weighted = sum(a * b for a, b in zip(lam, _rationals(balance.offsets), strict=True))
        holds = max(own * total, Fraction(balance.last.item()) + weighted) > cutoff * total
    return [*lam, Fraction(1)] if holds else None


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
        constant = sum((a * b for a, b in zip(lam, _rationals(bias), strict=True)), Fraction(0))
    return row, constant


def _least(row: list[Fraction], constant: Fraction, low: Tensor, high: Tensor, padded: bool) -> Fraction:
    """The smallest value of row · v + constant on the box; where there is padding v may be zero as well."""
    for g, a, b in zip(row, _rationals(low), _rationals(high), strict=True):
        choices = [g * a, g * b, *([Fraction(0)] if padded else [])]
        constant += min(choices)
    return constant


# A network


@dataclass(frozen=True)
class Weights:
    """A value is a linear layer or a convolution of another one, with these bounds."""

    low: Tensor
    high: Tensor
    weight: Tensor
    bias: Tensor | None
    options: dict[str, Any]

    @property
    def is_convolution(self) -> bool:
        return self.weight.dim() > 2


@dataclass(frozen=True)
class Scaling:
    """A value of this shape is another one, times a constant, plus a constant."""

    of: object
    scale: Any
    shift: Any
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Sum:
    """A value is the sum of two, each with how it was made, and whether it is never negative."""

    parts: tuple[tuple[object, bool], ...]


@dataclass(frozen=True)
class Closed:
    """A value is the very output of a Farkas layer, with its multipliers and whether these promise an active unit."""

    multipliers: list[Fraction] | None


@dataclass(frozen=True)
class Rectified:
    """A ReLU: bounds of its input, and how that was made."""

    low: Tensor
    high: Tensor
    made: object

    @property
    def dim(self) -> int:
        """The dimension that holds units: a matrix acts on the last one (tokens), all else on that behind the batch."""
        made = self.made
        while isinstance(made, Scaling) or (isinstance(made, Sum) and _with_what_counts(made) is not None):
            made = made.of if isinstance(made, Scaling) else _with_what_counts(made)
        is_matrix = isinstance(made, Weights) and not made.is_convolution
        return self.low.dim() - 1 if is_matrix else 1


class Traced(Cloud):
    """An interval for every number, that knows how it was made and whether it is never negative."""

    def __init__(self, rows: Sequence[Tensor], radius: Tensor, relus: list[Rectified]):
        super().__init__(rows, radius, 0.0)
        self.relus, self.is_nonnegative = relus, False
        self.made: object = None

    def like(self, rows: Sequence[Tensor], radius: Tensor) -> Cloud:
        return Traced(rows, radius, self.relus)

    def become(self, other: Cloud) -> Cloud:
        self.made, self.is_nonnegative = other.made, other.is_nonnegative
        return super().become(other)

    def note(self, how: str, *parts: Any) -> Cloud:
        x = parts[0]
        if how == "positions":
            self.is_nonnegative = x.is_nonnegative
        elif how == "weights":
            self.made = Weights(x.low(), x.high(), *parts[1:])
        elif how == "scaling":
            self.made = Scaling(x.made, parts[1], parts[2], tuple(self.radius.shape))
            grows = all(bool((torch.as_tensor(constant) >= 0).all()) for constant in parts[1:])
            self.is_nonnegative = x.is_nonnegative and grows
        elif how == "sum":
            if parts[2] == 1:
                self.made = Sum(tuple((one.made, one.is_nonnegative and one.shape == self.shape) for one in parts[:2]))
                self.is_nonnegative = all(one.is_nonnegative for one in parts[:2])
        elif how == "relu":
            self.relus.append(Rectified(x.low(), x.high(), x.made))
            self.is_nonnegative = True
        return self


def check_network(certificate: Certificate, model: nn.Module) -> None:
    """Raises ``NotConfirmed`` unless every proof in the evidence holds, and the witness silences what it is said to."""
    evidence = certificate.evidence
    layers = evidence.layers
    require(isinstance(layers, tuple) and layers, "it is about no layer")
    require(certificate.statement == network_activity(len(layers)), OTHER_STATEMENT)
    require(certificate.promise == "real", "it is about real numbers only")
    low, high = _box(evidence)
    verdicts = {one.verdict for one in layers}
    wanted = {"certified"} if certificate.verdict == "certified" else {"certified", "refuted", "unknown"}
    require(verdicts <= wanted and certificate.verdict in verdicts, "its layers say something else")
    relus = _traced(model, low, high)
    require(len(relus) == len(layers), f"the model has {len(relus)} ReLUs, it speaks of {len(layers)}")
    for one, relu in zip(layers, relus, strict=True):
        _require_layer(one, relu)
    if certificate.verdict == "certified":
        require(certificate.witness is None, "it is certified and has a witness against it")
    else:
        _require_silences(model, certificate.witness, layers, relus, low, high)


def _traced(model: nn.Module, low: Tensor, high: Tensor) -> list[Rectified]:
    """Every ReLU of the model, in the order they run."""
    parameter = next((p for p in model.parameters() if p.is_floating_point()), low)
    low, high = (side.to(parameter.device).unsqueeze(0) for side in (low, high))
    centre = (low + high) / 2
    # Whatever the middle rounds to, both sides are this close to it.
    radius = torch.maximum(high - centre, centre - low) * (1 + 1e-15)
    relus: list[Rectified] = []
    with _farkas_outputs(model):
        model(Traced([centre], radius, relus))
    return relus


@contextmanager
def _farkas_outputs(model: nn.Module) -> Iterator[None]:
    """Inside: the output of each Farkas layer is known as such."""

    def mark(layer: nn.Module, _: Any, output: Any) -> None:
        if isinstance(output, Traced):
            output.made = Closed(_closing(layer, Fraction(0)))

    layers = [module for module in model.modules() if hasattr(module, "balance") and not _is_changed(module)]
    handles = [layer.register_forward_hook(mark) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _require_layer(one: Any, relu: Rectified) -> None:
    """What is said of one ReLU holds."""
    dim = relu.dim
    low, high = (side[0].movedim(dim - 1, 0).reshape(side.shape[dim], -1) for side in (relu.low, relu.high))
    require(one.units == len(low) and type(one.units) is int, f"a ReLU has {len(low)} units, it speaks of {one.units}")
    require(one.cutoff == 0, "units of networks are active above 0")
    require(one.low is None and one.high is None, "a layer of a network has no box of its own")
    for unit in _dead(one, one.units, relu):
        require((high[unit] <= 0).all() or _is_dead(relu.made, unit, one.units), f"unit {unit} is not dead on the box")
    if one.verdict != "certified":
        require(one.by == "" and one.multipliers is None, "a layer that is not certified has a proof")
        return
    if one.by == "interval":
        require(one.multipliers is None and low.amax(0).min() > 0, "no unit is above zero on the whole box")
        return
    lam = _rationals(one.multipliers)
    made = _without_what_is_positive(relu.made)
    if one.by == "construction":
        require(lam and lam == _promised(made), "no Farkas layer promises it with these multipliers")
        return
    require(one.by == "box", f"it is shown by {one.by!r}, which is nothing known")
    _require_multipliers(lam, one.units)
    sums = _weighted_sum(made, lam)
    require(sums is not None, "its multipliers are not those of a linear layer")
    assert sums is not None
    require(sums > 0, "its multipliers do not prove it")


def _without_what_is_positive(made: object) -> object:
    """How a value was made, without what is added to it and never negative: one active unit of it is one of the sum."""
    while isinstance(made, Sum) and (rest := _with_what_counts(made)) is not None:
        made = rest
    return made


def _with_what_counts(made: Sum) -> object | None:
    (one, one_is_positive), (other, other_is_positive) = made.parts
    return other if one_is_positive else one if other_is_positive else None


def _promised(made: object) -> list[Fraction] | None:
    """Multipliers of the Farkas layer a value comes out of, or of two that are added and balance alike."""
    if isinstance(made, Closed):
        return made.multipliers
    if isinstance(made, Sum):
        one, other = (_promised(part) for part, _ in made.parts)
        return one if one is not None and one == other else None
    return None


def _weighted_sum(made: object, lam: list[Fraction]) -> Fraction | None:
    """Less than lam'z anywhere on the box, z being made by a linear layer and scales behind it; None if it is not."""
    constant = Fraction(0)
    while isinstance(made, Scaling):
        parts = [_per_unit(part, made, _is_dense(made)) for part in (made.scale, made.shift)]
        if parts[0] is None or parts[1] is None:
            return None
        constant += sum((a * b for a, b in zip(lam, parts[1], strict=True)), Fraction(0))
        lam = [a * b for a, b in zip(lam, parts[0], strict=True)]
        made = made.of
    if not isinstance(made, Weights):
        return None
    options = made.options
    row, more = _through(lam, made.weight, made.bias, options.get("groups", 1))
    low, high = made.low[0], made.high[0]
    if made.is_convolution:
        size = made.weight[0, 0].numel()
        low = low.flatten(1).amin(1).repeat_interleave(size)
        high = high.flatten(1).amax(1).repeat_interleave(size)
    else:
        low, high = low.reshape(-1, low.shape[-1]).amin(0), high.reshape(-1, high.shape[-1]).amax(0)
    padding = options.get("padding", 0)
    padded = made.is_convolution and padding not in (0, (0,), (0, 0), (0, 0, 0), "valid")
    reach = torch.maximum(low.abs(), high.abs())
    slack = sum((abs(g) * r for g, r in zip(row, _rationals(reach), strict=True)), Fraction(1)) * SLACK
    return _least(row, constant + more, low, high, padded) - slack


def _is_dense(made: object) -> bool:
    while isinstance(made, Scaling):
        made = made.of
    return isinstance(made, Weights) and not made.is_convolution


def _per_unit(constant: Any, made: Scaling, is_dense: bool) -> list[Fraction] | None:
    """A constant as one number per unit; None where it differs from position to position."""
    spread = torch.as_tensor(constant, dtype=torch.float64).detach().cpu().expand(made.shape)[0]
    units = (spread.movedim(-1, 0) if is_dense else spread).reshape(made.shape[-1 if is_dense else 1], -1)
    return _rationals(units[:, 0]) if units.eq(units[:, :1]).all() else None


def _is_dead(made: object, unit: int, units: int) -> bool:
    """Whether a unit is at most zero on the box, by its own weights in rationals."""
    least = _weighted_sum(made, [Fraction(-int(i == unit)) for i in range(units)])
    return least is not None and least >= 0


def _require_silences(
    model: nn.Module, x: Any, layers: Sequence[Any], relus: list[Rectified], low: Tensor, high: Tensor
) -> None:
    """The witness, in the box and of the model's precision, leaves each refuted layer a position with no active unit."""
    parameter = next((p for p in model.parameters() if p.is_floating_point()), low)
    require(isinstance(x, Tensor) and x.dtype == parameter.dtype, "it has no witness of the model's precision")
    require(x.shape == (1, *low.shape), "its witness is not one input")
    # Sides are rounded to the model's precision.
    inside = (x[0] >= low.to(x)) & (x[0] <= high.to(x))
    require(inside.all(), "its witness is not in the box")
    seen: list[Tensor] = []
    with _Relus(seen.append):
        call_on_copy(model, x)
    require(len(seen) == len(layers), "the model has another number of ReLUs")
    for one, y, relu in zip(layers, seen, relus, strict=True):
        if one.verdict == "refuted":
            quiet = (y[0].movedim(relu.dim - 1, 0) <= 0).all(0)
            require(quiet.any(), "its witness leaves no position of a refuted layer without an active unit")


class _Relus(TorchDispatchMode):
    """Sees what every ReLU gives, whoever calls it."""

    def __init__(self, look: Callable[[Tensor], None]):
        super().__init__()
        self.look = look

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("relu", "relu_"):
            self.look(result.clone())
        return result
