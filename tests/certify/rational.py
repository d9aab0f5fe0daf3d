"""The answer in exact fractions, for stacks of linear layers and kinks: nothing here rounds."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from torch import Tensor, nn

Vector = list[Fraction]


def exact(values: Tensor) -> Vector:
    return [Fraction(v) for v in values.double().flatten().tolist()]


def forward(model: nn.Sequential, x: Vector) -> Vector:
    for layer in model:
        if isinstance(layer, nn.Linear):
            rows = [exact(row) for row in layer.weight]
            shift = exact(layer.bias) if layer.bias is not None else [Fraction(0)] * len(rows)
            x = [sum((w * v for w, v in zip(row, x, strict=True)), b) for row, b in zip(rows, shift, strict=True)]
        elif isinstance(layer, nn.Hardtanh):
            x = [min(max(v, Fraction(layer.min_val)), Fraction(layer.max_val)) for v in x]
        elif isinstance(layer, nn.LeakyReLU):
            x = [max(v, Fraction(0)) + Fraction(layer.negative_slope) * min(v, Fraction(0)) for v in x]
        else:
            assert isinstance(layer, nn.ReLU)
            x = [max(v, Fraction(0)) for v in x]
    return x


def breakpoints(model: nn.Sequential, a: Vector, b: Vector) -> list[Fraction]:
    """Every t at which a unit is zero, found layer by layer: between two of the points so far all is affine."""
    points = [Fraction(0), Fraction(1)]
    for depth, layer in enumerate(model):
        if not isinstance(layer, nn.ReLU):
            continue
        found = []
        for s, t in pairwise(points):
            low, high = (forward(model[:depth], mix(a, b, p)) for p in (s, t))
            found += [s + (t - s) * u / (u - v) for u, v in zip(low, high, strict=True) if u * v < 0]
        points = sorted({*points, *found})
    return points


def mix(a: Vector, b: Vector, t: Fraction) -> Vector:
    return [(1 - t) * p + t * q for p, q in zip(a, b, strict=True)]


def lowest_margin(model: nn.Sequential, a: Vector, b: Vector, label: int) -> Fraction:
    """The least lead of the class on the segment, exactly: it is attained at a breakpoint or crossing of two others."""
    lows = []
    for t in breakpoints(model, a, b):
        scores = forward(model, mix(a, b, t))
        lows.append(min(scores[label] - s for c, s in enumerate(scores) if c != label))
    return min(lows)
