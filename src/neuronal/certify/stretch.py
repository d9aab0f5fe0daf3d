"""How much every step of a program can stretch distances, and what it rounds.

Distances are measured in the 2-norm. For a matrix of non-negative numbers that norm is at most the square root of the
largest row sum times the largest column sum (Schur), and so it is for one with smaller absolute values.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt

import torch
from torch import Tensor

from neuronal.certify.bounds import OWN, gamma
from neuronal.certify.norms import SPARE, convolution_norm, matrix_norm
from neuronal.geometry.program import Affine, Concat, Convolution, Copy, Dense, Kink, Maximum, Op, Smooth, Sum, evaluate


@dataclass(frozen=True, eq=False)
class Stretch:
    """A value that is computed from the network's input, and how it depends on it.

    Attributes:
        value: As computed here, in float64, with a batch dimension of 1.
        constant: How much distances grow at most, from the network's input up to here.
        error: The distance to the value of the real-valued network, at most.
        source: Where every number is the largest of some of an earlier value, or zero: that value.
        places: Which numbers these are, counted from 1: tensors shaped like ``value``, 0 for none.
    """

    value: Tensor
    constant: float
    error: float
    source: Stretch | None = None
    places: tuple[Tensor, ...] = ()


def stretched(op: Op, given: list[Stretch]) -> Stretch:
    """The result of a step."""
    first = given[0]
    if isinstance(op, Smooth):
        value, off = op.apply(first.value)
        return Stretch(value, first.constant * op.constant * SPARE, (first.error * op.constant + off) * SPARE)
    value = evaluate(op, *(one.value for one in given))
    if isinstance(op, Copy | Maximum):
        return _picked(op, given, value)
    if isinstance(op, Concat):
        return _side_by_side(value, given)
    if isinstance(op, Sum):
        other, scale = given[1], abs(op.factor)
        off = 2 * OWN * (value.norm() + scale * other.value.norm()).item()
        error = first.error + scale * other.error + off
        return Stretch(value, (first.constant + scale * other.constant) * SPARE, error * SPARE)
    if isinstance(op, Kink):
        factor = max(1.0, op.slope.abs().max().item())
        off = 0.0 if op.is_exact else 2 * OWN * value.norm().item()
    else:
        factor, sizes, bias = _norm(op, first.value), op.absolute(first.value.abs()), op.bias_size()
        off = 2 * gamma(op.terms + 8, OWN) * (sizes if bias is None else sizes + bias).norm().item()
    return Stretch(value, first.constant * factor * SPARE, (first.error * factor + off) * SPARE)


def _norm(op: Affine, x: Tensor) -> float:
    """An upper bound of how much a linear part stretches distances."""
    with torch.enable_grad():
        ones = torch.ones_like(x).requires_grad_()
        rows = op.absolute(ones)
        (columns,) = torch.autograd.grad(rows.sum(), ones)
    schur = sqrt(rows.max().item() * columns.max().item())
    if isinstance(op, Dense):
        return min(schur, matrix_norm(op.weight))
    if isinstance(op, Convolution):
        return min(schur, convolution_norm(op.weight, op.stride, op.groups, op.dilation))
    return schur


def _side_by_side(value: Tensor, given: list[Stretch]) -> Stretch:
    """Of values whose numbers do not add up: distances are at most those of all of them together."""
    return Stretch(value, hypot(*(s.constant for s in given)) * SPARE, hypot(*(s.error for s in given)) * SPARE)


def _picked(op: Copy | Maximum, given: list[Stretch], value: Tensor) -> Stretch:
    """A number moves as far as one of those it is the largest of, so it counts how often each of these is used."""
    sources, places = zip(*map(_places, given), strict=True)
    if any(source is not sources[0] for source in sources):
        return _side_by_side(value, given)
    if isinstance(op, Copy):
        taken = tuple(op.linear(one) for one in places[0])
    else:
        taken = tuple(one.expand(value.shape) for some in places for one in some)
    # The same number twice in one set counts once.
    of_each = torch.stack([one.flatten() for one in taken]).long().sort(0).values
    is_new = torch.cat([torch.ones_like(of_each[:1], dtype=torch.bool), of_each[1:] != of_each[:-1]])
    uses = of_each[is_new].bincount(minlength=2)[1:]
    factor = sqrt(uses.max().item()) * SPARE
    return Stretch(value, sources[0].constant * factor, sources[0].error * factor, sources[0], taken)


def _places(given: Stretch) -> tuple[Stretch, tuple[Tensor, ...]]:
    if given.source is not None:
        return given.source, given.places
    x = given.value
    return given, (torch.arange(1, x.numel() + 1, dtype=x.dtype, device=x.device).view(x.shape),)
