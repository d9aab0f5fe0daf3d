"""Is at least one unit of a layer active for every input? With multipliers as proof, or an input that silences the layer."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import torch
from torch import Tensor, nn

from neuronal.certify.bounds import OWN
from neuronal.certify.certificate import Certificate
from neuronal.certify.evidence import LayerActivity
from neuronal.certify.multipliers import (
    exact_multipliers,
    is_exact,
    lower_bound,
    propose,
    propose_everywhere,
)
from neuronal.certify.statement import layer_activity
from neuronal.certify.units import Units, units_of
from neuronal.core.inference import call_on_copy, evaluating

Box = tuple[Tensor | float, Tensor | float]
# Sides of the boxes an input that silences a layer is looked for in, when no box is given.
SEARCHED = (1.0, 1e3, 1e6)


def certify_layer(
    layer: nn.Module, box: Box | None = None, *, cutoff: float | None = None, data: Tensor | None = None
) -> Certificate:
    """The answer of :func:`neuronal.certify.activity.certify_activity` for a single layer."""
    units = units_of(layer)
    if cutoff is None:
        cutoff = getattr(getattr(layer, "balance", None), "cutoff", 0.0)
    place = " at every position" if units.patch else ""
    statement = layer_activity(len(units.bias), cutoff, in_box=box is not None, at_positions=bool(units.patch))
    if box is None:
        found, witness = everywhere(units, cutoff), None
    else:
        low, high = (_side(units, side) for side in box)
        if not (low <= high).all():
            raise ValueError("box needs low <= high everywhere, got a side that is not.")
        found, witness = inside(units, *_patch_box(units, low, high), cutoff), None
    if found.verdict == "unknown":
        witness = _silencing_input(layer, units, box, cutoff)
    if witness is not None:
        reason = "The witness, run through the layer, makes no unit active" + (" at one position." if place else ".")
        found = replace(found, verdict="refuted", reason=reason, by="", multipliers=None, margin=None)
    if data is not None:
        found = replace(found, dead_on_data=_dead_on(layer, data, cutoff))
    return Certificate("activity", statement, found.verdict, "real", found.reason, witness, found)


# Proofs


def everywhere(units: Units, cutoff: float) -> LayerActivity:
    """Proof without a box: by construction, or by multipliers that cancel the weights exactly."""
    weight, bias = units.weight.numpy(), units.bias.numpy()
    known = LayerActivity("", len(bias), "unknown", "", cutoff=cutoff)
    built = by_construction(units, cutoff)
    if built is not None:
        return built
    proposed = propose_everywhere(weight, bias)
    if proposed is None:
        return replace(known, reason="The solver found no multipliers that cancel the weights.")
    exact = exact_multipliers(weight, proposed)
    if exact is not None and is_exact(weight, bias, exact, cutoff):
        total = sum(exact)
        margin = float(sum(v * Fraction(float(b)) for v, b in zip(exact, bias, strict=True)) / total) - cutoff
        reason = "Multipliers cancel the weights exactly, checked in rationals."
        return replace(
            known, verdict="certified", reason=reason, by="rationals", multipliers=tuple(exact), margin=margin
        )
    radius = _radius(units, torch.from_numpy(proposed), cutoff)
    reason = "No multipliers were found that cancel the weights exactly."
    if radius:
        reason += f" Those found cancel them nearly, which is enough while no input exceeds {radius:.3g}: give a box."
    return replace(known, reason=reason, radius=radius)


def by_construction(units: Units, cutoff: float) -> LayerActivity | None:
    """A Farkas layer's own multipliers cancel its weights in real numbers, whatever the weights are."""
    closing = units.closing
    if units.multipliers is None or closing is None or not (units.multipliers > 0).all():
        return None
    total = units.multipliers.sum().item()
    above = (closing.cutoff - cutoff) * total
    margin = (closing.slack - closing.error + above - 1e-12 * abs(above)) / total
    if not margin > 0:
        return None
    radius = _radius(units, units.multipliers, cutoff)
    reason = (
        "By construction: the last row is minus the weighted sum of the others. With the rows as rounded in memory, for "
        f"inputs up to {radius:.3g}."
    )
    return LayerActivity(
        "",
        len(units.bias),
        "certified",
        reason,
        by="construction",
        multipliers=units.multipliers,
        margin=margin,
        cutoff=cutoff,
        radius=radius,
    )


def inside(units: Units, low: Tensor, high: Tensor, cutoff: float) -> LayerActivity:
    """Proof on a box of the layer's inputs (of a patch of them)."""
    weight, bias = units.weight.numpy(), units.bias.numpy()
    sides = low.numpy(), high.numpy()
    size = None if units.bias_size is None else units.bias_size.numpy()
    known = LayerActivity("", len(bias), "unknown", "", low=low, high=high, cutoff=cutoff)
    known = replace(known, dead_on_box=_dead_on_box(units, low, high, cutoff))
    tried = [] if units.multipliers is None else [units.multipliers.numpy()]
    if not tried or lower_bound(weight, bias, tried[0], *sides, size) <= cutoff:
        proposal = propose(weight, bias, *sides)
        tried = tried if proposal is None else [proposal.multipliers, *tried]
    for multipliers in tried:
        margin = lower_bound(weight, bias, multipliers, *sides, size) - cutoff
        if margin > 0:
            found = torch.from_numpy(multipliers)
            reason = "The weighted mean of the units is above the cutoff on the whole box, rounding included."
            return replace(known, verdict="certified", reason=reason, by="box", multipliers=found, margin=margin)
    built = by_construction(units, cutoff)
    if built is not None:
        return replace(built, low=low, high=high, dead_on_box=known.dead_on_box)
    return replace(known, reason="No multipliers were found that keep the weighted mean of the units above the cutoff.")


def _radius(units: Units, multipliers: Tensor, cutoff: float) -> float:
    """Up to which |x| the multipliers prove activity of the layer with its weights as they are."""
    weight, bias, lam = units.weight.numpy(), units.bias.numpy(), multipliers.numpy()

    def holds(radius: float) -> bool:
        side = torch.full((weight.shape[1],), radius, dtype=torch.float64).numpy()
        return lower_bound(weight, bias, lam, -side, side) > cutoff

    if not holds(0.0):
        return 0.0
    low, high = 0.0, 1e-6
    while holds(high) and high < 1e300:
        low, high = high, high * 16
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _dead_on_box(units: Units, low: Tensor, high: Tensor, cutoff: float) -> tuple[int, ...]:
    """Units whose largest value on the box does not exceed the cutoff, rounding included."""
    most = units.weight.clamp(min=0) @ high + units.weight.clamp(max=0) @ low + units.bias
    reach = torch.maximum(low.abs(), high.abs())
    error = 4 * (len(low) + 8) * OWN * (units.weight.abs() @ reach + units.bias.abs())
    return tuple((most + error <= cutoff).nonzero().flatten().tolist())


# Boxes


def _side(units: Units, side: Tensor | float) -> Tensor:
    """One side of the box: a number per input of a linear layer, per channel (and position) of a convolution."""
    side = torch.as_tensor(side, dtype=torch.float64).detach().cpu()
    if not side.isfinite().all():
        raise ValueError("box needs finite sides. Leave it out to ask about every input.")
    count = units.patch[0] if units.patch else units.weight.shape[1]
    positions = len(units.patch[1:])
    whole = side.view(-1, *[1] * positions) if side.dim() < 2 else side
    if whole.shape[0] not in (1, count) or whole.dim() != 1 + positions:
        raise ValueError(
            f"box needs sides that fit one input of {count} features or channels, got shape {tuple(side.shape)}."
        )
    return whole.expand(count, *whole.shape[1:])


def _patch_box(units: Units, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The box of all patches: per channel the widest over positions, and zero where the border is padded."""
    if not units.patch:
        return low, high
    low, high = low.flatten(1).amin(1), high.flatten(1).amax(1)
    if units.is_padded:
        low, high = low.clamp(max=0), high.clamp(min=0)
    size = torch.Size(units.patch[1:]).numel()
    return low.repeat_interleave(size), high.repeat_interleave(size)


# Refutations


def _silencing_input(layer: nn.Module, units: Units, box: Box | None, cutoff: float) -> Tensor | None:
    """An input, inside the box, that the layer itself answers with no active unit; None if none was found."""
    if box is not None:
        low, high = (_side(units, side) for side in box)
        for x in _candidates(units, low, high):
            image = _placed(layer, units, x, low, high)
            if is_silent(layer, image, cutoff):
                return image
        return None
    for radius in SEARCHED:
        found = _silencing_input(layer, units, (-radius, radius), cutoff)
        if found is not None:
            return found
    return None


def _candidates(units: Units, low: Tensor, high: Tensor) -> list[Tensor]:
    sides = _patch_box(replace(units, is_padded=False), low, high)
    proposal = propose(units.weight.numpy(), units.bias.numpy(), *(side.numpy() for side in sides))
    zero = torch.zeros_like(sides[0]).clamp(*sides)
    return [zero] if proposal is None else [torch.from_numpy(proposal.x), zero]


def _placed(layer: nn.Module, units: Units, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The input that shows a patch in its middle; a box with positions gives its size."""
    parameter = next(layer.parameters())
    if units.patch:
        dilation = getattr(layer, "dilation", (1,) * (len(units.patch) - 1))
        extent = [d * (k - 1) + 1 for d, k in zip(dilation, units.patch[1:], strict=True)]
        size = low.shape[1:] if max(low.shape[1:]) > 1 else extent
        starts = [max((n - e) // 2, 0) for n, e in zip(size, extent, strict=True)]
        spots = tuple(slice(s, s + e, d) for s, e, d in zip(starts, extent, dilation, strict=True))
        image = torch.zeros(units.patch[0], *size, dtype=torch.float64)
        if image[(slice(None), *spots)].shape == units.patch:
            image[(slice(None), *spots)] = x.view(units.patch)
        x = image
    inner = torch.maximum(torch.minimum(x, high), low).to(parameter.dtype)
    # Rounded to the layer's precision a side may lie just outside the box.
    step = torch.full_like(inner, torch.inf)
    inner = torch.where(inner.double() < low, torch.nextafter(inner, step), inner)
    return torch.where(inner.double() > high, torch.nextafter(inner, -step), inner).unsqueeze(0).to(parameter.device)


def is_silent(layer: nn.Module, x: Tensor, cutoff: float) -> bool:
    """Whether the layer, run on one input, has a position at which no unit is above the cutoff."""
    with evaluating(layer):
        z = call_on_copy(layer, x)
    if getattr(layer, "activation", None) == "relu":
        z = (z != 0).to(z.dtype) + cutoff  # the ReLU is inside; what is not zero was active
    return bool((z.amax(1) <= cutoff).any())


def _dead_on(layer: nn.Module, data: Tensor, cutoff: float) -> tuple[int, ...]:
    with evaluating(layer):
        z = call_on_copy(layer, data.to(next(layer.parameters())))
    active = z != 0 if getattr(layer, "activation", None) == "relu" else z > cutoff
    dims = [d for d in range(active.dim()) if d != (active.dim() - 1 if isinstance(layer, nn.Linear) else 1)]
    return tuple((~active.any(dim=dims)).nonzero().flatten().tolist())
