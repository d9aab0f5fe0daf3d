"""Verifies certificates of activity of one layer: multipliers in rational numbers, and what they give on a box.

It shares no code with those who make them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isfinite, prod
from typing import Any

from torch import Tensor, nn

from neuronal.certify.certificate import OTHER_STATEMENT, Certificate, require
from neuronal.certify.statement import layer_activity
from neuronal.core.inference import call_on_copy


def check_layer(certificate: Certificate, layer: nn.Module) -> None:
    """Raises ``NotConfirmed`` unless the multipliers prove it, or the witness silences the layer."""
    evidence = certificate.evidence
    require(not is_changed(layer), "the layer has hooks, or a forward of its own")
    require(isinstance(evidence.cutoff, int | float) and isfinite(evidence.cutoff), "its cutoff is no number")
    matrix = _Matrix(layer)
    require(evidence.units == matrix.units and type(evidence.units) is int, "the layer has another number of units")
    words = {"in_box": evidence.low is not None, "at_positions": bool(matrix.patch)}
    require(certificate.statement == layer_activity(evidence.units, evidence.cutoff, **words), OTHER_STATEMENT)
    require(
        certificate.promise == "real" and evidence.verdict == certificate.verdict, "its evidence says something else"
    )
    box = None if evidence.low is None and evidence.high is None else box_of(evidence, (matrix.columns,))
    for unit in dead_units_of(evidence, matrix.units, box):
        assert box is not None
        row, constant = matrix.pulled_back([Fraction(int(i == unit)) for i in range(matrix.units)])
        most = -least_on_box([-v for v in row], -constant, *box, matrix.is_padded)
        require(most <= Fraction(evidence.cutoff), f"unit {unit} is not dead on the box")
    if certificate.verdict == "refuted":
        require(evidence.by == "" and evidence.multipliers is None, "it is refuted and has a proof")
        _require_silence(layer, certificate.witness, evidence.cutoff, box, matrix)
        return
    require(certificate.witness is None, "it is certified and has a witness against it")
    cutoff, lam = Fraction(evidence.cutoff), rationals(evidence.multipliers)
    if evidence.by == "construction":
        require(lam == closing_multipliers(layer, cutoff), "the layer does not promise it with these multipliers")
        return
    require_multipliers(lam, matrix.units)
    row, constant = matrix.pulled_back(lam)
    if evidence.by == "box" and box is not None:
        require(
            least_on_box(row, constant, *box, matrix.is_padded) > cutoff * sum(lam), "its multipliers do not prove it"
        )
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
            free = rationals(layer.balance.multipliers)
            row = [lam[i] - lam[-1] * free[i] for i in range(len(free))] + [Fraction(0)] * (self.columns - len(free))
            biases = rationals(layer.balance.bias.detach())
            return row, sum((a * b for a, b in zip(lam, biases, strict=True)), Fraction(0))
        if getattr(layer, "activation", None) == "relu":
            return pulled_through(
                lam, layer.direction().view(layer.weight.shape), layer.offset, getattr(layer, "groups", 1)
            )
        plain: Any = layer.to_standard() if hasattr(layer, "to_standard") else layer
        constant = Fraction(0)
        for part in reversed(list(plain) if isinstance(plain, nn.Sequential) else [plain]):
            lam, more = pulled_through(lam, part.weight, part.bias, getattr(part, "groups", 1))
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


def box_of(evidence: Any, shape: tuple[int, ...] | None = None) -> tuple[Tensor, Tensor]:
    """Both sides in float64, if they are a box."""
    low, high = evidence.low, evidence.high
    require(isinstance(low, Tensor) and isinstance(high, Tensor), "its box has no sides")
    require(low.is_floating_point() and high.is_floating_point(), "its box has sides that are not numbers")
    low, high = low.double().cpu(), high.double().cpu()
    require(low.shape == high.shape and (shape is None or low.shape == shape), "its box has another shape")
    require(low.isfinite().all() and high.isfinite().all() and (low <= high).all(), "its box has no inside")
    return low, high


def dead_units_of(evidence: Any, units: int, box: object) -> tuple[int, ...]:
    dead = () if evidence.dead_on_box is None else evidence.dead_on_box
    named = isinstance(dead, tuple) and all(type(i) is int and 0 <= i < units for i in dead)
    require(named and (box is not None or evidence.dead_on_box is None), "its dead units are none")
    return tuple(dead)


def is_changed(layer: nn.Module) -> bool:
    """Whether something else than torch or this library says what the layer computes."""
    return bool(layer._forward_hooks or layer._forward_pre_hooks) or layer.forward.__module__.partition(".")[0] not in (
        "torch",
        "neuronal",
    )


def rationals(values: Any) -> list[Fraction]:
    if values is None:
        return []
    return [
        Fraction(v) for v in (values.detach().double().flatten().tolist() if isinstance(values, Tensor) else values)
    ]


def require_multipliers(lam: list[Fraction], units: int) -> None:
    require(len(lam) == units and min(lam) >= 0 and any(lam), "its multipliers are not one per unit, or negative")


def closing_multipliers(layer: nn.Module, cutoff: Fraction) -> list[Fraction] | None:
    """The multipliers of a Farkas layer whose weighted sum of biases is above the cutoff's share, in real numbers."""
    balance: Any = getattr(layer, "balance", None)
    if balance is None or balance.offsets is None:
        return None
    lam = rationals(balance.multipliers)
    own, total = Fraction(balance.cutoff), sum(lam) + 1
    if min(lam) <= 0:
        return None
    if balance.rule == "softplus":
        # softplus is positive, so the margin alone is below the slack.
        holds = Fraction(balance.margin) + (own - cutoff) * total > 0
    else:
        weighted = sum(a * b for a, b in zip(lam, rationals(balance.offsets), strict=True))
        holds = max(own * total, Fraction(balance.last.item()) + weighted) > cutoff * total
    return [*lam, Fraction(1)] if holds else None


def pulled_through(
    lam: list[Fraction], weight: Tensor, bias: Tensor | None, groups: int
) -> tuple[list[Fraction], Fraction]:
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
        constant = sum((a * b for a, b in zip(lam, rationals(bias), strict=True)), Fraction(0))
    return row, constant


def least_on_box(row: list[Fraction], constant: Fraction, low: Tensor, high: Tensor, padded: bool) -> Fraction:
    """The smallest value of row · v + constant on the box; where there is padding v may be zero as well."""
    for g, a, b in zip(row, rationals(low), rationals(high), strict=True):
        choices = [g * a, g * b, *([Fraction(0)] if padded else [])]
        constant += min(choices)
    return constant
