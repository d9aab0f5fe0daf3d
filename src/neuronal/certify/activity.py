"""Activity of every ReLU layer of a network, on a box of inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from neuronal.certify.certificate import Certificate, Verdict
from neuronal.certify.evidence import LayerActivity, NetworkActivity
from neuronal.certify.intervals import Interval, intervals
from neuronal.certify.layer_activity import Box, by_construction, certify_layer, inside
from neuronal.certify.statement import network_activity
from neuronal.certify.units import Units, is_as_named, ungrouped, units_of
from neuronal.core.inference import call_on_copy, check_finite, evaluating
from neuronal.geometry.lowering import lower
from neuronal.geometry.program import Convolution, Dense, Kink, Program, Scale, Step, Sum
from neuronal.geometry.tracer import watching_relus
from neuronal.nn.farkas import FarkasLayer
from neuronal.nn.farkas_block import FarkasResidual
from neuronal.nn.standard import Plain, StandIn

ROWS = 256


def certify_activity(
    model: nn.Module,
    box: Box | None = None,
    *,
    cutoff: float | None = None,
    data: Tensor | None = None,
) -> Certificate:
    """Is at least one unit active (its pre-activation above ``cutoff``) for every input, in a layer or in every layer?

    Args:
        model: A layer (linear, convolutional, zero-bias, geometric, Farkas), asked about all its inputs or a box of them;
            or a piecewise-linear network, asked about every ReLU in it, for a box of the network's inputs.
        box: ``(low, high)``: numbers, or tensors shaped like one input (per channel for a convolution). For a network
            tensors, whose shape tells that of an input. Left out: every input, for a layer.
        cutoff: Of a layer: above it a unit is active; a Farkas layer's own if left out, else 0. In networks it is 0.
        data: Inputs, with a batch dimension, to tell which units none of them makes active.

    Returns:
        ``certified``: multipliers show it; for Farkas layers those they are built with. For convolutions it holds at every
        position, border included. ``refuted``: the witness, run through the model, leaves a layer without an active unit.
        ``unknown`` otherwise. The evidence (:class:`LayerActivity`, or :class:`NetworkActivity` with one per ReLU) says
        how each was shown, and which units are dead on the box and on the data, which are different questions: the first
        is proved and about every input, the second observed.
    """
    check_finite(model)
    if isinstance(model, Plain | StandIn | FarkasResidual):
        return certify_layer(model, box, cutoff=cutoff, data=data)
    if box is None:
        raise ValueError(
            "a network needs box=(low, high), tensors shaped like one of its inputs. Only layers go without."
        )
    if cutoff:
        raise ValueError(f"in a network units are active above 0, where ReLU bends, got cutoff={cutoff:g}.")
    low, high = _sides(box, data)
    program = lower(model, ((low + high) / 2).unsqueeze(0))
    found = list(_layers(model, program, low, high, 0.0))
    layers, dims = [layer for layer, _ in found], [dim for _, dim in found]
    if not layers:
        raise ValueError(f"{type(model).__name__} has no ReLU whose units could be counted.")
    if data is not None:
        layers = [replace(one, dead_on_data=dead) for one, dead in zip(layers, _dead(program, data, dims), strict=True)]
    candidates = _candidates(model, layers, low, high, data)
    witness, silent = _silent(model, candidates, dims)
    for i in silent:
        reason = "The witness leaves no unit of it active" + (
            " at one position." if "position" in layers[i].reason else "."
        )
        layers[i] = replace(layers[i], verdict="refuted", reason=reason, by="", multipliers=None, margin=None)
    verdicts = [layer.verdict for layer in layers]
    verdict: Verdict = next((v for v in ("refuted", "unknown") if v in verdicts), "certified")
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
    return Certificate(
        "activity",
        network_activity(len(layers)),
        verdict,
        "real",
        f"Of {len(layers)} layers {counts}.",
        witness,
        NetworkActivity(tuple(layers), low, high),
    )


def _sides(box: Box, data: Tensor | None) -> Interval:
    low, high = (torch.as_tensor(side, dtype=torch.float64).detach().cpu() for side in box)
    shape = torch.broadcast_shapes(low.shape, high.shape, *([] if data is None else [data.shape[1:]]))
    if not shape:
        raise ValueError(
            "box needs tensors shaped like one input of the network (or data to tell the shape), got numbers."
        )
    low, high = low.expand(shape).clone(), high.expand(shape).clone()
    if not (low.isfinite().all() and high.isfinite().all() and (low <= high).all()):
        raise ValueError("box needs finite sides with low <= high everywhere.")
    return low, high


# Proofs


def _layers(
    model: nn.Module, program: Program, low: Tensor, high: Tensor, cutoff: float
) -> Iterator[tuple[LayerActivity, int]]:
    """For every ReLU what its pre-activations are known to do, and the dimension that holds its units."""
    made: dict[int, tuple[Step, list[Interval]]] = {}
    for step, inputs, _ in intervals(program.to(device="cpu"), low, high):
        if isinstance(step.op, Kink) and step.op.is_layer:
            yield _layer(model, step, inputs[0], made, cutoff)
        made[step.output] = (step, inputs)


def _layer(
    model: nn.Module, relu: Step, before: Interval, made: dict[int, tuple[Step, list[Interval]]], cutoff: float
) -> tuple[LayerActivity, int]:
    source = _without_skips(relu.inputs[0], made)
    chain = _chain(source, made)
    # A matrix acts on the last dimension (tokens), all else has its units in the first behind the batch.
    dim = before[0].dim() - 1 if chain is not None and isinstance(chain[-1][0].op, Dense) else 1
    known = tuple(_units_first(side, dim)[0] for side in before)
    return _judged(model, relu, source, chain, known, made, cutoff), dim


def _judged(
    model: nn.Module,
    relu: Step,
    source: int,
    chain: list[tuple[Step, list[Interval]]] | None,
    before: tuple[Tensor, ...],
    made: dict[int, tuple[Step, list[Interval]]],
    cutoff: float,
) -> LayerActivity:
    lows, highs = before
    dead = tuple((highs.amax(1) <= cutoff).nonzero().flatten().tolist())
    place = " at every position" if lows.shape[1] > 1 else ""
    known = LayerActivity(relu.path, len(lows), "unknown", "", cutoff=cutoff, dead_on_box=dead)
    built = _built(model, source, made, cutoff)
    if built is not None:
        return replace(built, path=relu.path, dead_on_box=dead)
    least = lows.amax(0).min().item()
    if least > cutoff:
        reason = f"One unit is above the cutoff on the whole box{place}, by interval bounds."
        return replace(known, verdict="certified", reason=reason, by="interval", margin=least - cutoff)
    if chain is not None and (units := _folded([step for step, _ in chain])) is not None:
        found = inside(units, *_inputs(chain[-1][1][0], chain[-1][0], units), cutoff)
        if found.verdict == "certified":
            # The box of the network says it all.
            return replace(found, path=relu.path, dead_on_box=dead, low=None, high=None)
    return replace(known, reason=f"The bounds of its inputs leave room for no active unit{place}.")


def _without_skips(value: int, made: dict[int, tuple[Step, list[Interval]]]) -> int:
    """The value without what is added to it and never negative, such as a skip that comes out of a ReLU.

    If one of its units is active, so is the sum's.
    """
    while value in made and isinstance(made[value][0].op, Sum) and made[value][0].op.factor == 1:  # type: ignore[union-attr]
        step, sides = made[value]
        kept = [i for i in (1, 0) if (sides[1 - i][0] >= 0).all() and sides[i][0].shape == sides[1 - i][0].shape]
        if not kept:
            break
        value = step.inputs[kept[0]]
    return value


def _chain(value: int, made: dict[int, tuple[Step, list[Interval]]]) -> list[tuple[Step, list[Interval]]] | None:
    """The affine layer a value comes from, behind the scales on the way, nearest first."""
    chain = []
    while value in made:
        step, inputs = made[value]
        chain.append((step, inputs))
        if isinstance(step.op, Dense | Convolution):
            return chain
        if not isinstance(step.op, Scale):
            return None
        value = step.inputs[0]
    return None


def _folded(steps: list[Step]) -> Units | None:
    """A layer with the scales behind it put into its weights."""
    op = steps[-1].op
    assert isinstance(op, Dense | Convolution)
    weight = op.weight if isinstance(op, Dense) else ungrouped(op.weight, op.groups)
    patch = () if isinstance(op, Dense) else tuple(weight.shape[1:])
    rows, count = weight.flatten(1), len(weight)
    bias = torch.zeros(count, dtype=torch.float64) if op.shift is None else op.shift
    size = bias.abs()
    for step in reversed(steps[:-1]):
        assert isinstance(step.op, Scale)
        axis = 0 if patch else -1
        parts = [_per_unit(t, step.shape, axis) for t in (step.op.scale, step.op.bias(), step.op.bias_size())]
        scale, shift, extra = parts
        if scale is None or shift is None or extra is None:
            return None
        rows, bias, size = rows * scale.unsqueeze(1), bias * scale + shift, size * scale.abs() + extra
    is_padded = isinstance(op, Convolution) and any(op.padding)
    return Units(rows, bias, patch, is_padded, bias_size=size)


def _per_unit(constant: Tensor | None, shape: tuple[int, ...], axis: int) -> Tensor | None:
    """A constant beside values of this shape as one number per unit, which are along the axis; None if it is not that."""
    if constant is None:
        return torch.zeros(shape[axis], dtype=torch.float64)
    whole = constant.reshape(*[1] * (len(shape) + 1 - constant.dim()), *constant.shape)[0]
    return whole.flatten().expand(shape[axis]) if whole.numel() == whole.shape[axis] else None


def _inputs(interval: Interval, step: Step, units: Units) -> Interval:
    """The box of what a unit sees: of a patch, or of a vector; the widest over positions."""
    low, high = interval[0][0], interval[1][0]
    if not units.patch:
        return low.reshape(-1, low.shape[-1]).amin(0), high.reshape(-1, high.shape[-1]).amax(0)
    low, high = low.flatten(1).amin(1), high.flatten(1).amax(1)
    if units.is_padded:
        low, high = low.clamp(max=0), high.clamp(min=0)
    size = torch.Size(units.patch[1:]).numel()
    return low.repeat_interleave(size), high.repeat_interleave(size)


def _built(
    model: nn.Module, value: int, made: dict[int, tuple[Step, list[Interval]]], cutoff: float
) -> LayerActivity | None:
    """The promise of the Farkas layer whose very output the value is, or of two that balance alike and are added."""
    if value not in made:
        return None
    op = made[value][0].op
    if isinstance(op, Sum) and op.factor == 1:
        one, two = (_built(model, i, made, cutoff) for i in made[value][0].inputs)
        if one is None or two is None or not _alike(one, two):
            return None
        assert one.margin is not None
        assert two.margin is not None
        # Each weighted mean is the cutoff plus its margin, and so is their sum, once more.
        margin = cutoff + one.margin + two.margin
        return replace(one, margin=margin, radius=None) if margin > 0 else None
    layer = model.get_submodule(made[value][0].path)
    if not isinstance(layer, FarkasLayer | FarkasResidual) or not is_as_named(layer):
        return None
    return by_construction(units_of(layer), cutoff)


def _alike(one: LayerActivity, two: LayerActivity) -> bool:
    """Whether two layers have the same multipliers, so that these work for their sum."""
    a, b = one.multipliers, two.multipliers
    return isinstance(a, Tensor) and isinstance(b, Tensor) and torch.equal(a, b)


# Witnesses


def _candidates(
    model: nn.Module, layers: list[LayerActivity], low: Tensor, high: Tensor, data: Tensor | None
) -> Tensor:
    """Inputs of the box that may leave a layer silent: those of the data, corners, and what silences the first layer."""
    zero = torch.zeros_like(low)
    tried = [torch.maximum(torch.minimum(zero, high), low), low, high, (low + high) / 2]
    first = next((m for m in model.modules() if isinstance(m, Plain) and is_as_named(m)), None)
    if first is not None and layers[0].verdict == "unknown":
        flat = isinstance(first, nn.Linear)
        sides = (low.flatten(), high.flatten()) if flat else (low, high)
        if not flat or sides[0].numel() == first.in_features:
            found = certify_layer(first, sides).witness
            if found is not None and found.numel() == low.numel():
                tried.append(found[0].double().cpu().view(low.shape))
    x = torch.stack(tried)
    if data is not None:
        inner = data.double().cpu()
        keep = ((inner >= low) & (inner <= high)).flatten(1).all(1)
        x = torch.cat([x, inner[keep][: ROWS * 8]])
    return x


def _silent(model: nn.Module, x: Tensor, dims: list[int]) -> tuple[Tensor | None, list[int]]:
    """The first of the inputs that leaves a ReLU of the model itself without an active unit, and which ReLUs it leaves."""
    parameter = next(model.parameters())
    for rows in x.to(parameter).split(ROWS):
        seen: list[Tensor] = []
        with evaluating(model), watching_relus(model, lambda _, y, seen=seen: seen.append(y)):  # type: ignore[misc]
            call_on_copy(model, rows)
        if len(seen) != len(dims):
            return None, []  # ReLUs written as something else: the layers cannot be told apart
        pairs = zip(seen, dims, strict=True)
        quiet = torch.stack([(_units_first(y, dim) <= 0).all(1).any(1) for y, dim in pairs], 1)
        if quiet.any():
            row = int(quiet.any(1).nonzero()[0])
            return rows[row : row + 1].clone(), quiet[row].nonzero().flatten().tolist()
    return None, []


def _units_first(y: Tensor, dim: int) -> Tensor:
    """Rows, units, positions."""
    return y.movedim(dim, 1).reshape(len(y), y.shape[dim], -1)


def _dead(program: Program, data: Tensor, dims: list[int]) -> list[tuple[int, ...]]:
    """For every ReLU the units that no row of the data makes active, in real numbers."""
    relus = [step for step in program.steps if isinstance(step.op, Kink) and step.op.is_layer]
    dim_of = {step.output: dim for step, dim in zip(relus, dims, strict=True)}
    ever: dict[int, Tensor] = {}

    def look(step: Step, inputs: list[Tensor]) -> None:
        if step.output in dim_of:
            on = (_units_first(inputs[0], dim_of[step.output]) > 0).any(2).any(0)
            ever[step.output] = ever.get(step.output, torch.zeros_like(on)) | on

    for rows in data.double().cpu().split(ROWS):
        program(rows, look)
    return [tuple((~on).nonzero().flatten().tolist()) for on in ever.values()]
