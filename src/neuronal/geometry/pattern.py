"""Which side of every bend an input is on: the pattern that determines the affine map the network equals there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from neuronal.geometry.lowering import lower, own_kind
from neuronal.geometry.program import Kink, Maximum, Program, Step, side

# A batch of about this many bytes stays near the processor on its way through the network.
BATCH = 2**23


@dataclass(frozen=True)
class Bend:
    """A place in the network that bends: the module's ``path``, what it compares, and how many comparisons it makes.

    ``kind`` is ``"sign"`` (1 where the number is positive; at exactly 0 the bit is 0) or ``"winner"`` (1 where the first
    of two is the larger; of two equal ones the second wins). A pool is a tournament and has several bends.
    """

    path: str
    kind: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        return -(-prod(self.shape) // 8)


@dataclass(frozen=True, eq=False)
class Patterns:
    """The patterns of some inputs, one row each.

    Attributes:
        bits: Eight comparisons to a byte; every bend starts with a byte of its own. ``(inputs, bytes)``.
        hashes: A number for each row; equal patterns have equal ones, and different ones hardly ever. int64.
        bends: What the bits are, in order.
    """

    bits: Tensor
    hashes: Tensor
    bends: tuple[Bend, ...]

    def __len__(self) -> int:
        return len(self.bits)

    def unpacked(self) -> list[Tensor]:
        """The comparisons of each bend as booleans, ``(inputs, *shape)``."""
        ends = np.cumsum([bend.num_bytes for bend in self.bends]).tolist()
        parts = np.split(self.bits.numpy(), ends[:-1], axis=1) if ends else []
        return [
            torch.from_numpy(np.unpackbits(part, axis=1, count=prod(bend.shape)).astype(bool)).view(-1, *bend.shape)
            for part, bend in zip(parts, self.bends, strict=True)
        ]

    def groups(self) -> list[Tensor]:
        """The rows of every pattern that occurs, in the order of their first. Costs a sort of the hashes."""
        order = torch.argsort(self.hashes, stable=True)
        _, sizes = torch.unique_consecutive(self.hashes[order], return_counts=True)
        found = [group for bucket in order.split(sizes.tolist()) for group in self._equal(bucket)]
        return sorted(found, key=lambda group: int(group[0]))

    def _equal(self, bucket: Tensor) -> list[Tensor]:
        """Rows of one hash, taken apart where the patterns differ all the same."""
        groups = []
        while len(bucket) > 1:
            same = (self.bits[bucket] == self.bits[bucket[0]]).all(1)
            groups.append(bucket[same])
            bucket = bucket[~same]
        return [*groups, bucket] if len(bucket) else groups


def activation_pattern(model: nn.Module, x: Tensor) -> Patterns:
    """Which units are on and which pool inputs win, for every row of ``x``, in the model's own precision.

    Two inputs with one pattern lie in one linear region: the network is one and the same affine map on the whole segment
    between them. Signs alone would not do where there is max-pooling.

    Law:
        Equal patterns, equal affine maps (tests/geometry/test_pattern.py).
    """
    return patterns(lower(model, x), [x], own_kind(model, x[:1]).dtype)


def group_by_pattern(model: nn.Module, inputs: Tensor | Iterable[Any]) -> list[Tensor]:
    """Indices of the inputs that share a pattern, one tensor for each pattern that occurs, in the order of their first.

    One forward pass, and for every input an eighth of a byte for each comparison is kept. Equality is that of the
    patterns, not of their hashes.

    Args:
        inputs: A tensor, or batches of inputs (a loader): tensors, or tuples that start with one.
    """
    batches = [inputs] if isinstance(inputs, Tensor) else (_input(batch) for batch in inputs)
    iterator = iter(batches)
    first = next(iterator, None)
    if first is None or not len(first):
        return []
    program, dtype = lower(model, first), own_kind(model, first[:1]).dtype
    return patterns(program, _with_first(first, iterator), dtype).groups()


def _input(batch: Any) -> Tensor:
    x = batch[0] if isinstance(batch, list | tuple) else batch
    if not isinstance(x, Tensor):
        raise TypeError(f"Batches need to be tensors or to start with one, got {type(x).__name__}.")
    return x


def _with_first(first: Tensor, rest: Iterable[Tensor]) -> Iterable[Tensor]:
    yield first
    yield from rest


def bends_of(program: Program) -> tuple[Bend, ...]:
    """The places in the network that bend, in order."""
    return tuple(
        Bend(step.path, "winner" if isinstance(step.op, Maximum) else "sign", step.shape) for step in program.kinks()
    )


def patterns(program: Program, batches: Iterable[Tensor], dtype: torch.dtype = torch.float64) -> Patterns:
    """The patterns of all rows of all batches."""
    program = program.to(dtype)
    bends = bends_of(program)
    size = max(1, BATCH // (program.width() * torch.finfo(dtype).bits // 8))
    with torch.no_grad():
        rows = [_packed(program, part) for batch in batches for part in batch.split(size)]
    width = sum(bend.num_bytes for bend in bends)
    bits = np.concatenate(rows) if rows else np.empty((0, width), np.uint8)
    return Patterns(torch.from_numpy(bits), torch.from_numpy(_hashes(bits)), bends)


def _packed(program: Program, x: Tensor) -> NDArray[np.uint8]:
    """One pass of a few rows."""
    found: list[NDArray[np.uint8]] = [np.empty((len(x), 0), np.uint8)]

    def look(step: Step, inputs: list[Tensor]) -> None:
        if isinstance(step.op, Kink | Maximum):
            found.append(np.packbits(side(step.op, *inputs).flatten(1).cpu().numpy(), axis=1))

    program(x.detach().to(program.device, program.dtype), look)
    return np.concatenate(found, axis=1)


def _hashes(bits: NDArray[np.uint8]) -> NDArray[np.int64]:
    """A 64-bit number per row: words times random odd numbers, folded, times another, summed."""
    words = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    words[:, : bits.shape[1]] = bits
    draw = np.random.default_rng(0)
    first, second = draw.integers(0, 2**64, (2, words.shape[1] // 8), dtype=np.uint64) | np.uint64(1)
    total = np.zeros(len(bits), np.uint64)
    for rows in range(0, len(bits), 1024):  # near the processor
        mixed = words[rows : rows + 1024].view(np.uint64) * first
        mixed ^= mixed >> np.uint64(32)
        total[rows : rows + 1024] = (mixed * second).sum(1, dtype=np.uint64)
    return total.view(np.int64)
