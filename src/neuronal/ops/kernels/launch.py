"""One launch for the parts of several layers: what it is given, and which program works on which part of which layer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
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


@lru_cache(maxsize=256)
def owners(programs: tuple[int, ...], device: torch.device) -> Tensor:
    """For every program its layer and its number there, ``(2, programs)``, given how many each layer has."""
    layer = torch.repeat_interleave(torch.arange(len(programs)), torch.tensor(programs))
    number = torch.cat([torch.arange(count) for count in programs])
    return torch.stack([layer, number]).to(torch.int32).to(device)


@lru_cache(maxsize=256)
def numbers(columns: tuple[tuple[float, ...], ...], device: torch.device, dtype: torch.dtype = torch.int32) -> Tensor:
    """Numbers of every layer, ``(kinds, layers)``."""
    return torch.tensor(columns, dtype=dtype, device=device)
