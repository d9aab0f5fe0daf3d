"""Memory that is used again: on a CPU, fresh memory costs more than what is computed in it."""

from __future__ import annotations

import threading
from itertools import accumulate
from math import prod
from operator import mul

import torch
from torch import Tensor

# Larger pieces are given back after use: so much memory at most stays taken, per name.
_KEPT_BYTES = 1 << 23


class Workspace:
    """Named pieces of memory, handed out again and again."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """An uninitialised tensor on the device of ``like``; it is good until the name is taken again."""
        dtype = dtype or like.dtype
        key, size = (name, dtype, like.device), prod(shape)
        kept = self._kept.get(key)
        if kept is None or kept.numel() < size:
            # Also for later calls outside of inference mode, which could not write to a tensor made inside.
            with torch.inference_mode(False):
                kept = torch.empty(size, dtype=dtype, device=like.device)
            # Streams of a GPU may run at the same time, and its allocator keeps memory anyway.
            if like.device.type == "cpu" and kept.nbytes <= _KEPT_BYTES:
                self._kept[key] = kept
        strides = tuple(accumulate(shape[:0:-1], mul, initial=1))[::-1]
        return kept.as_strided(shape, strides)


_own = threading.local()


def workspace(name: str) -> Workspace:
    """The workspace of this name that belongs to the current thread."""
    spaces: dict[str, Workspace] = _own.__dict__.setdefault("spaces", {})
    return spaces.setdefault(name, Workspace())


def release() -> None:
    """Gives back what the current thread has kept; the next solve takes it anew."""
    _own.__dict__.pop("spaces", None)
