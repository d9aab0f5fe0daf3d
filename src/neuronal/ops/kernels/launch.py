"""One launch for the parts of several layers: what it is given, and which program works on which part of which layer.

Everything but the tensors is known when a kernel is compiled, so that there are no tables in memory: one that is made
while torch records a CUDA graph would belong to that graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from torch import Tensor

MOST = 48
"""Layers of a launch: a kernel takes some 4,000 bytes of arguments, and every layer has up to nine pointers."""


def groups(lengths: Sequence[int]) -> list[list[int]]:
    """The layers of each launch, those whose programs take longest first."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    return [order[start : start + MOST] for start in range(0, len(order), MOST)]


def pointers(given: Sequence[Tensor | None], other: Sequence[Tensor], some: Sequence[int]) -> tuple[Tensor, ...]:
    """Those of some layers; where there is none, one of the same kind, which is not followed."""
    return tuple(other[i] if (one := given[i]) is None else one for i in some)


def starts(programs: Sequence[int]) -> tuple[int, ...]:
    """The first program of every layer, given how many each has; and behind them, how many there are."""
    return (0, *accumulate(programs))
