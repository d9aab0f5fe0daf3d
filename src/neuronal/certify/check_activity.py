"""Verifies certificates of activity of a network, ReLU by ReLU: boxes by intervals through the model's own forward.

It shares no code with those who make them: neither the units they read off a layer nor the program they lower a network to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from neuronal.certify.certificate import OTHER_STATEMENT, Certificate, require
from neuronal.certify.check_layer_activity import (
    box_of,
    closing_multipliers,
    dead_units_of,
    is_changed,
    least_on_box,
    pulled_through,
    rationals,
    require_multipliers,
)
from neuronal.certify.cloud import Cloud
from neuronal.certify.statement import network_activity
from neuronal.core.inference import call_on_copy

# Batch norms are put together in float64: a few of its roundings are not ours to see.
SLACK = Fraction(1, 10**12)


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
    low, high = box_of(evidence)
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
            output.made = Closed(closing_multipliers(layer, Fraction(0)))

    layers = [module for module in model.modules() if hasattr(module, "balance") and not is_changed(module)]
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
    for unit in dead_units_of(one, one.units, relu):
        require((high[unit] <= 0).all() or _is_dead(relu.made, unit, one.units), f"unit {unit} is not dead on the box")
    if one.verdict != "certified":
        require(one.by == "" and one.multipliers is None, "a layer that is not certified has a proof")
        return
    if one.by == "interval":
        require(one.multipliers is None and low.amax(0).min() > 0, "no unit is above zero on the whole box")
        return
    lam = rationals(one.multipliers)
    made = _without_what_is_positive(relu.made)
    if one.by == "construction":
        require(lam and lam == _promised(made), "no Farkas layer promises it with these multipliers")
        return
    require(one.by == "box", f"it is shown by {one.by!r}, which is nothing known")
    require_multipliers(lam, one.units)
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
    row, more = pulled_through(lam, made.weight, made.bias, options.get("groups", 1))
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
    slack = sum((abs(g) * r for g, r in zip(row, rationals(reach), strict=True)), Fraction(1)) * SLACK
    return least_on_box(row, constant + more, low, high, padded) - slack


def _is_dense(made: object) -> bool:
    while isinstance(made, Scaling):
        made = made.of
    return isinstance(made, Weights) and not made.is_convolution


def _per_unit(constant: Any, made: Scaling, is_dense: bool) -> list[Fraction] | None:
    """A constant as one number per unit; None where it differs from position to position."""
    spread = torch.as_tensor(constant, dtype=torch.float64).detach().cpu().expand(made.shape)[0]
    units = (spread.movedim(-1, 0) if is_dense else spread).reshape(made.shape[-1 if is_dense else 1], -1)
    return rationals(units[:, 0]) if units.eq(units[:, :1]).all() else None


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

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("relu", "relu_"):
            self.look(result.clone())
        return result
