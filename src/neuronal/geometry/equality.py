"""Whether two programs compute the same function, seen by their steps and not by examples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from neuronal.geometry.program import Copy, Dense, Op, Program, Scale

Source = tuple[int, Tensor]
"""An earlier value, and for every number its place in that value, counted from 1; 0 for a zero."""


def are_equal(one: Program, other: Program) -> bool:
    """True if both take the same steps on the same numbers, whatever way these were copied in between.

    One forward pass each, of one row.
    """
    return all(_equal(a, b) for a, b in zip_longest(_steps(one), _steps(other)))


def _steps(program: Program) -> Iterator[tuple[Op | None, list[Source]]]:
    """Every step that computes and what it reads, and at the end what is returned.

    torch adds a bias inside of a matrix product or after it, as its input lies in memory: here always after it.
    """
    live, count = {0: (0, _places(program.shape))}, 0
    for step in program.steps:
        sources, op = [live[i] for i in step.inputs], step.op
        if isinstance(op, Copy):
            value, places = sources[0]
            live[step.output] = value, op.linear(places)
        else:
            if isinstance(op, Dense) and op.shift is not None:
                yield replace(op, shift=None), sources
                op, sources = Scale(torch.ones_like(op.shift[0]), op.shift), [(count := count + 1, _places(step.shape))]
            yield op, sources
            count += 1
            live[step.output] = count, _places(step.shape)
        for i in step.frees:
            del live[i]
    yield None, [live[program.output]]


def _places(shape: tuple[int, ...]) -> Tensor:
    return torch.arange(1.0, math.prod(shape) + 1, dtype=torch.float64).view(1, *shape)


def _equal(one: Any, other: Any) -> bool:
    """Equality of steps and of everything they hold, every digit of constants included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, partial):
        return _equal((one.func, one.args, one.keywords), (other.func, other.args, other.keywords))
    if is_dataclass(one):
        return all(_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    return bool(one == other)
