"""From a box of inputs to a box around every value of a network: interval arithmetic, rounding included."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from neuronal.certify.bounds import OWN, gamma
from neuronal.geometry.program import Affine, Concat, Kink, Maximum, Program, Step, Sum

Interval = tuple[Tensor, Tensor]


def intervals(program: Program, low: Tensor, high: Tensor) -> Iterator[tuple[Step, list[Interval], Interval]]:
    """Every step of a program with the intervals of its inputs and of its result.

    ``low`` and ``high`` are shaped like one input, in float64. A value computed in real numbers from an input of the box
    lies inside its interval: what our own arithmetic rounds is added to the sides.
    """
    live: dict[int, Interval] = {0: (low.unsqueeze(0), high.unsqueeze(0))}
    for step in program.steps:
        inputs = [live[i] for i in step.inputs]
        live[step.output] = _apply(step, inputs)
        yield step, inputs, live[step.output]
        for i in step.frees:
            del live[i]


def _apply(step: Step, inputs: list[Interval]) -> Interval:
    op = step.op
    if isinstance(op, Affine):
        return _affine(op, *inputs[0])
    if isinstance(op, Kink):
        return _kink(op, *inputs[0])
    if isinstance(op, Maximum):
        return torch.maximum(inputs[0][0], inputs[1][0]), torch.maximum(inputs[0][1], inputs[1][1])
    if isinstance(op, Concat):
        return torch.cat([low for low, _ in inputs], op.dim), torch.cat([high for _, high in inputs], op.dim)
    assert isinstance(op, Sum)
    (a, b), (c, d) = inputs
    c, d = (c * op.factor, d * op.factor) if op.factor >= 0 else (d * op.factor, c * op.factor)
    return _outwards(a + c, b + d, a.abs() + b.abs() + c.abs() + d.abs())


def _affine(op: Affine, low: Tensor, high: Tensor) -> Interval:
    if op.terms == 0:
        return (op.linear(low), op.linear(high)) if _keeps_order(op) else (op.linear(high), op.linear(low))
    centre, radius = (low + high) / 2, (high - low) / 2
    # The halves are rounded too, and products of the weights with them.
    size = op.absolute(torch.maximum(low.abs(), high.abs()))
    bias = op.bias_size()
    size = size if bias is None else size + bias
    middle, spread = op(centre), op.absolute(radius) + 4 * gamma(op.terms + 8, OWN) * size
    return middle - spread, middle + spread


def _keeps_order(op: Affine) -> bool:
    """Copies do; the one other step without rounding turns signs."""
    scale = getattr(op, "scale", None)
    return scale is None or bool((scale >= 0).all())


def _kink(op: Kink, low: Tensor, high: Tensor) -> Interval:
    ends = torch.stack([op(low), op(high)])
    bottom, top = ends.amin(0), ends.amax(0)
    # A slope below 0 turns around at 0, which may lie inside.
    inside = (low < 0) & (high > 0)
    bottom, top = torch.where(inside, bottom.clamp(max=0), bottom), torch.where(inside, top.clamp(min=0), top)
    return (bottom, top) if op.is_exact else _outwards(bottom, top, ends.abs().amax(0))


def _outwards(low: Tensor, high: Tensor, size: Tensor) -> Interval:
    error = 4 * OWN * size
    return low - error, high + error
