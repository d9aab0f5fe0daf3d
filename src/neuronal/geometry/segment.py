"""A network along a straight line between two inputs: every point where it bends, and its outputs there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise

import torch
from torch import Tensor, nn

from neuronal.core.precision import all_digits
from neuronal.geometry.lowering import as_batch, lower
from neuronal.geometry.program import Kink, Maximum, Program, Step, bent, evaluate, follow

# A part of this many bytes stays near the processor on its way through the network; larger ones are slower.
PART = 2**22
# A GPU wants to have much to do at once: there a part is as large as memory allows, with one waiting at every bend and
# this many more being worked on; but small enough for the number of its entries, which torch counts in 31 bits.
WORKED_ON, LARGEST_PART = 8, 2**31
# Python itself runs on one thread at a time, and more of them would wait for it.
WORKERS = 4
PRECISIONS = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Switch:
    """At ``t`` the largest output changes from class ``before`` to class ``after``."""

    t: float
    before: int
    after: int


@dataclass(frozen=True, eq=False)
class Pieces:
    r"""A network on the segment :math:`(1 - t)\, a + t\, b`, which is affine between neighbouring breakpoints.

    Attributes:
        t: The breakpoints, increasing, from 0 to 1, in float64.
        outputs: The network's outputs there, one row each.
    """

    t: Tensor
    outputs: Tensor

    @property
    def count(self) -> int:
        """Number of pieces."""
        return len(self.t) - 1

    def at(self, t: Tensor) -> Tensor:
        """Outputs anywhere on the segment, for a vector of values of ``t`` from 0 to 1."""
        t = t.to(self.t)
        left = (torch.searchsorted(self.t, t, right=True) - 1).clamp(0, self.count - 1)
        start, stop = self.t[left], self.t[left + 1]
        weight = ((t - start) / (stop - start)).to(self.outputs).view(-1, *[1] * (self.outputs.dim() - 1))
        return torch.lerp(self.outputs[left], self.outputs[left + 1], weight)

    def switches(self) -> tuple[Switch, ...]:
        """Where the predicted class changes, in order; between equal outputs the lower class is predicted."""
        best = self.outputs.argmax(1)
        found: list[Switch] = []
        for i in torch.nonzero(best[:-1] != best[1:]).flatten().tolist():
            for switch in self._inside(i, int(best[i]), int(best[i + 1])):
                if found and found[-1].t == switch.t:  # one touched the other, or three met
                    switch = Switch(switch.t, found.pop().before, switch.after)
                if switch.before != switch.after:
                    found.append(switch)
        return tuple(found)

    def _inside(self, i: int, now: int, last: int) -> Iterator[Switch]:
        """The upper envelope of straight lines: who overtakes next, until the class at the end leads."""
        (t, end), (start, stop) = self.t[i : i + 2].tolist(), self.outputs[i : i + 2].double()
        slope = stop - start
        while now != last:
            faster = slope > slope[now]
            reach = torch.where(faster, (start[now] - start) / (slope - slope[now]), torch.inf).clamp(0, 1)
            first = torch.nonzero(reach == reach.min()).flatten()
            # Of several that overtake together the fastest leads.
            after = int(first[slope[first].argmax()]) if faster.any() and reach.min() < 1 else last
            yield Switch(t + min(reach.min().item(), 1.0) * (end - t), now, after)
            now = after


def segment_pieces(
    model: nn.Module, a: Tensor, b: Tensor, *, memory: int = 2**30, dtype: torch.dtype = torch.float64
) -> Pieces:
    """All breakpoints of ``model`` between the inputs ``a`` and ``b``, with its outputs there.

    Every ReLU (or other kink) that switches and every pool whose winner changes on the way gives one breakpoint.

    Args:
        a: Where the segment starts: one input, with or without a batch dimension of 1 in front.
        b: Where it ends.
        memory: Bytes that values inside the network may take; larger segments are walked in parts.
        dtype: ``torch.float32`` takes half the time, with six digits instead of thirteen.

    Raises:
        NotPiecewiseLinear: The model has a part that is not piecewise linear.

    Reference:
        Sotoudeh & Thakur, Computing Linear Restrictions of Neural Networks, NeurIPS 2019, arXiv:1908.06214 (ExactLine).
    """
    if a.shape != b.shape:
        raise ValueError(f"Both ends need one shape, got {tuple(a.shape)} and {tuple(b.shape)}.")
    a, b = as_batch(model, a), as_batch(model, b)
    return pieces(lower(model, a), a, b, memory=memory, dtype=dtype)[0]


def pieces(
    program: Program, a: Tensor, b: Tensor, *, memory: int = 2**30, dtype: torch.dtype = torch.float64
) -> list[Pieces]:
    """The pieces of each of the segments from a row of ``a`` to the same row of ``b``.

    Args:
        memory: Bytes that values inside the network may take, up to a small factor for the work on them. At least the
            two ends of a piece are held at every bend of the network.
        dtype: Precision of the values; the breakpoints themselves are in float64.
    """
    if a.shape != b.shape or tuple(a.shape[1:]) != program.shape:
        raise ValueError(
            f"Both ends need the shape (segments, {', '.join(map(str, program.shape))}), "
            f"got {tuple(a.shape)} and {tuple(b.shape)}."
        )
    if dtype not in PRECISIONS:
        raise ValueError(f"dtype needs to be torch.float32 or torch.float64, got {dtype}.")
    if memory <= 0:
        raise ValueError(f"memory needs to be a positive number of bytes, got {memory}.")
    a, b = (x.detach().to(program.device, dtype) for x in (a, b))
    if not (torch.isfinite(a).all() and torch.isfinite(b).all()):
        raise ValueError("Both ends need finite numbers, got NaN or infinity.")
    walk = _Walk(program.to(dtype), memory)
    with torch.no_grad(), all_digits(program.device), _workers(program.device) as (pool, count):
        # Each worker has its share of the memory.
        parts = list(walk.parts(a, b, memory // count))
        if pool is None or len(parts) == 1:
            done = [points for part in parts for points in walk.run(0, part, memory // count, pool)]
        else:
            done = [*chain.from_iterable(pool.map(lambda part: list(walk.run(0, part, memory // count)), parts))]
    return _sorted_out(done, walk.output, len(a)) if done else []


@contextmanager
def _workers(device: torch.device) -> Iterator[tuple[Executor | None, int]]:
    """Threads that walk parts side by side, and how many; none where torch has one thread or the work is elsewhere.

    Parts are small, and threads inside every operation on them would wait for each other most of the time.
    """
    threads = torch.get_num_threads()
    if threads == 1 or device.type != "cpu":
        yield None, 1
        return
    count = min(threads, WORKERS)
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool, count
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class _Points:
    """Points of several segments, one after the other, each at its ``t``; and the values alive there, by number.

    Values may have more rows than there are points; nobody looks at those.
    """

    segment: Tensor
    t: Tensor
    values: dict[int, Tensor]


@dataclass(frozen=True)
class _Places:
    """Where the next points are: ``weight`` of the way from point ``left`` to the one after it. 0 keeps the point."""

    left: Tensor
    weight: Tensor
    t: Tensor

    def __len__(self) -> int:
        return len(self.t)

    def parts(self, size: int) -> Iterator[_Places]:
        """Parts of at most ``size`` and about equal size; a small rest would cost as much time as a full part."""
        pieces = len(self) - 1
        count = -(-pieces // (size - 1))
        for start, stop in pairwise(i * pieces // count for i in range(count + 1)):
            part = slice(start, stop + 1)
            yield _Places(self.left[part], self.weight[part], self.t[part])


class _Stretch:
    """Steps between two bends of the network, with the first of the two; ``width`` bytes are alive for a point."""

    def __init__(self, steps: tuple[Step, ...], sizes: dict[int, int]):
        """``sizes`` are those of the values alive at the start; afterwards of those at the end."""
        self.steps = steps
        self.width = sum(sizes.values())
        for step in steps:
            sizes[step.output] = math.prod(step.shape)
            self.width = max(self.width, sum(sizes.values()))
            for number in step.frees:
                del sizes[number]

    def bent(self, values: dict[int, Tensor]) -> Tensor:
        """What changes its sign where the first step bends: a row for every point."""
        step = self.steps[0]
        assert isinstance(step.op, Kink | Maximum)
        return bent(step.op, *(values[number] for number in step.inputs)).flatten(1)

    def __call__(self, values: dict[int, Tensor]) -> dict[int, Tensor]:
        return follow(self.steps, dict(values), lambda step, inputs: evaluate(step.op, *inputs))


class _Walk:
    """Takes points through the network; where it bends between two of them, one more is put there.

    Every bend is looked at once, with all points there are, so nothing is found twice. When the points become too many
    they go on in parts, the first to its end before the second starts. While it is on its way the points it was made of
    wait, and what is left of the memory is less: at most one part waits at every bend.
    """

    def __init__(self, program: Program, memory: int = 2**30):
        bends = [i for i, step in enumerate(program.steps) if isinstance(step.op, Kink | Maximum)]
        bounds = [0, *bends, len(program.steps)]
        sizes = {0: math.prod(program.shape)}
        self.stretches = [_Stretch(program.steps[i:j], sizes) for i, j in pairwise(bounds)]
        self.output = program.output
        self.item = torch.finfo(program.dtype).bits // 8
        self.part = part_size(program.device, memory, len(self.stretches))

    def parts(self, a: Tensor, b: Tensor, memory: int) -> Iterator[_Points]:
        """Segments in groups whose ends fit."""
        size = max(1, self._size(0, memory) // 2)
        for start in range(0, len(a), size):
            ends = torch.stack([a[start : start + size], b[start : start + size]], 1).flatten(0, 1)
            segment = torch.arange(start, start + len(ends) // 2, device=a.device).repeat_interleave(2)
            t = torch.tensor([0.0, 1.0], dtype=torch.float64, device=a.device).repeat(len(ends) // 2)
            yield _Points(segment, t, {0: ends})

    def run(self, number: int, points: _Points, memory: int, pool: Executor | None = None) -> Iterator[_Points]:
        """The finished points, in order, from the stretch ``number`` on. Neighbouring parts share a point.

        ``pool`` takes the parts of the first division; what these are divided into stays with the worker.
        """
        for stretch in self.stretches[number:-1]:
            points = replace(points, values=stretch(points.values))
            number += 1
            size = self._size(number, memory)
            places = _places(points, self.stretches[number].bent(points.values)[: len(points.t)])
            if len(places) > size:
                left = memory - self.item * sum(value.numel() for value in points.values.values())
                start, spread = partial(self._go_on, number, points, left), map if pool is None else pool.map
                for done in spread(start, places.parts(size)):
                    yield from done
                return
            if len(places) > len(points.t):
                points = _moved(points, places)
        yield replace(points, values={self.output: self.stretches[-1](points.values)[self.output][: len(points.t)]})

    def _go_on(self, number: int, points: _Points, memory: int, part: _Places) -> list[_Points]:
        return list(self.run(number, _moved(points, part), memory))

    def _size(self, number: int, memory: int) -> int:
        """How many points go through a stretch together."""
        return max(2, min(self.part, memory // 4) // (self.item * self.stretches[number].width))


def part_size(device: torch.device, memory: int, bends: int) -> int:
    """Bytes that go through the network together."""
    return PART if device.type == "cpu" else min(LARGEST_PART, memory // (bends + WORKED_ON))


def rounded(count: int, device: torch.device) -> int:
    """Rows to compute for so many points: on a GPU of few sizes, as cuDNN makes a plan for each that it has not seen."""
    step = 1 << max(0, count.bit_length() - 4)
    return count if device.type == "cpu" else -(-count // step) * step


def _places(points: _Points, z: Tensor) -> _Places:
    """The points there are and, between neighbours of one segment, those where a column of ``z`` becomes zero."""
    is_on = z > 0
    left, column = torch.nonzero(is_on[1:] != is_on[:-1], as_tuple=True)
    start, stop = z[left, column], z[left + 1, column]
    # A unit that is exactly zero at a point bends there, where there is a point already.
    real = (start != 0) & (stop != 0) & (points.segment[left] == points.segment[left + 1])
    left, start, stop = left[real], start[real], stop[real]
    weight = start / (start - stop)
    t = points.t[left] + weight.double() * (points.t[left + 1] - points.t[left])
    order = torch.argsort(t, stable=True)
    order = order[torch.argsort(left[order], stable=True)]
    left, weight, t = left[order], weight[order], t[order]
    new = (t > points.t[left]) & (t < points.t[left + 1])
    new[1:] &= (t[1:] > t[:-1]) | (left[1:] != left[:-1])
    return _merged(points.t, left[new], weight[new], t[new])


def _merged(old: Tensor, left: Tensor, weight: Tensor, t: Tensor) -> _Places:
    """Old points and new ones, in order."""
    count = torch.arange(len(old), device=old.device)
    is_new = torch.zeros(len(old) + len(t), dtype=torch.bool, device=old.device)
    is_new[left + 1 + torch.arange(len(t), device=old.device)] = True
    places = _Places(
        torch.empty_like(is_new, dtype=torch.long), weight.new_zeros(len(is_new)), old.new_empty(len(is_new))
    )
    places.left[is_new], places.left[~is_new] = left, count
    places.weight[is_new] = weight
    places.t[is_new], places.t[~is_new] = t, old
    return places


def _moved(points: _Points, places: _Places) -> _Points:
    """The values at other places, by interpolation: they are affine between neighbouring points."""
    new = torch.nonzero(places.weight).flatten()
    left, weight = places.left[new], places.weight[new]
    further = rounded(len(places), places.t.device) - len(places)
    every = torch.cat([places.left, places.left[-1:].expand(further)]) if further else places.left

    def move(value: Tensor) -> Tensor:
        moved = value[every]
        moved[new] = torch.lerp(value[left], value[left + 1], weight.view(-1, *[1] * (value.dim() - 1)))
        return moved

    return _Points(points.segment[places.left], places.t, {k: move(value) for k, value in points.values.items()})


def _sorted_out(parts: list[_Points], output: int, count: int) -> list[Pieces]:
    """Parts in order -> the pieces of each segment; the points parts share are there once."""
    segment = torch.cat([part.segment for part in parts])
    t = torch.cat([part.t for part in parts])
    outputs = torch.cat([part.values[output] for part in parts])
    once = torch.ones_like(segment, dtype=torch.bool)
    once[1:] = (t[1:] != t[:-1]) | (segment[1:] != segment[:-1])
    sizes = torch.bincount(segment[once], minlength=count).tolist()
    return [Pieces(*both) for both in zip(t[once].split(sizes), outputs[once].split(sizes), strict=True)]
