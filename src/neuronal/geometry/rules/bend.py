"""Operations that bend: kinks and maxima."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from neuronal.geometry.program import Copy, Kink, Maximum, Scale
from neuronal.geometry.recorder import Call, Rule


def _kink(slope: Callable[[Call], float | Tensor], *, is_layer: bool = False) -> Rule:
    return lambda call: call.add(Kink(call.like(slope(call)), is_layer=is_layer), call.value())


def _threshold(call: Call) -> int:
    if call["threshold"] != 0 or call["value"] != 0:
        raise call.refuse("which jumps unless threshold and value are 0")
    return call.add(Kink(call.like(0.0)), call.value())


def _clamp(call: Call) -> int:
    low = call.arguments.get("min", call.arguments.get("min_val"))
    high = call.arguments.get("max", call.arguments.get("max_val"))
    value = call.value()
    if low is not None:
        value = _larger_than(call, value, low)
    if high is not None:
        flipped = call.add(Scale(call.like(-1.0), terms=0), value)
        value = call.add(Scale(call.like(-1.0), terms=0), _larger_than(call, flipped, -high))
    return value


def _larger_than(call: Call, value: int, bound: float | Tensor) -> int:
    """max(x, c) = c + relu(x - c)."""
    c, one = call.like(bound), call.like(1.0)
    above = call.add(Kink(call.like(0.0)), call.add(Scale(one, -c), value))
    return call.add(Scale(one, c), above)


def _maximum(call: Call) -> int:
    sign = -1.0 if call.name == "minimum" else 1.0
    numbers = [call.tracer.number(call[name]) for name in ("self", "other")]
    if None in numbers:
        raise call.refuse("with a constant; clamp does that")
    sides = [n for n in numbers if n is not None]
    if sign < 0:
        sides = [call.add(Scale(call.like(sign), terms=0), side) for side in sides]
    top = call.add(Maximum(), *sides)
    return top if sign > 0 else call.add(Scale(call.like(sign), terms=0), top)


def _reduced_maximum(call: Call) -> int:
    if "dim" not in call.arguments:
        raise call.refuse("over the batch too")
    dims = call["dim"] if isinstance(call["dim"], list | tuple) else [call["dim"]]
    call.keeps_batch(*dims)
    rank, value, shape = call["self"].dim(), call.value(), list(call["self"].shape[1:])
    for dim in dims:
        size = shape[dim % rank - 1]
        shape[dim % rank - 1] = 1
        value = _tournament(call, value, dim % rank, [[i] for i in range(size)], shape)
    final = call.shape
    return value if call["keepdim"] else call.add(Copy(lambda x: x.reshape(len(x), *final)), value)


def _max_pool(call: Call) -> int:
    value, shape, rank = call.value(), list(call["self"].shape[1:]), len(call["kernel_size"])
    size = call["kernel_size"]
    for i in range(rank):
        dim = len(shape) - rank + i
        windows = _windows(
            shape[dim], call.shape[dim], size[i], (call["stride"] or size)[i], call["padding"][i], call["dilation"][i]
        )
        shape[dim] = call.shape[dim]
        value = _tournament(call, value, dim + 1, windows, shape)
    return value


def _adaptive_max_pool(call: Call) -> int:
    value, shape, rank = call.value(), list(call["self"].shape[1:]), len(call["output_size"])
    for dim in range(len(shape) - rank, len(shape)):
        n, out = shape[dim], call.shape[dim]
        windows = [list(range(o * n // out, -(-(o + 1) * n // out))) for o in range(out)]
        shape[dim] = out
        value = _tournament(call, value, dim + 1, _across(windows), shape)
    return value


def _windows(n: int, out: int, size: int, stride: int, padding: int, dilation: int) -> list[list[int]]:
    """For each place in the window, the input index every output reads there; padding reads the next real place again.

    So every place keeps its own in the tournament, and what is compared there is what a checker that pads compares.
    """
    windows = [range(o * stride - padding, o * stride - padding + size * dilation, dilation) for o in range(out)]
    inside = [[i for i in window if 0 <= i < n] for window in windows]
    return _across([[min(max(i, w[0]), w[-1]) for i in window] for window, w in zip(windows, inside, strict=True)])


def _across(windows: list[list[int]]) -> list[list[int]]:
    """Windows of unequal length -> their first members, second members ...; short ones repeat their last."""
    longest = max(map(len, windows))
    return [[window[min(j, len(window) - 1)] for window in windows] for j in range(longest)]


def _tournament(call: Call, value: int, dim: int, choices: list[list[int]], shape: Sequence[int]) -> int:
    # Each player with the indices it is the largest of.
    players = [
        (call.add(_take(dim, indices), value, shape=shape), [frozenset([i]) for i in indices]) for indices in choices
    ]
    while len(players) > 1:
        pairs = []
        for (a, of_a), (b, of_b) in zip(players[::2], players[1::2], strict=False):
            sure = torch.tensor([int(p >= q) or -int(p < q) for p, q in zip(of_a, of_b, strict=True)])
            known = sure.view(-1, *[1] * (len(shape) - dim)) if sure.any() else None
            both = [p | q for p, q in zip(of_a, of_b, strict=True)]
            pairs.append((call.add(Maximum(known), a, b, shape=shape), both))
        players = pairs + players[len(pairs) * 2 :]
    return players[0][0]


def _take(dim: int, indices: list[int]) -> Copy:
    """The entries at ``indices`` along ``dim``: a strided view where these are evenly spaced."""
    steps = {b - a for a, b in pairwise(indices)}
    if len(steps) <= 1 and (step := steps.pop() if steps else 1) > 0:
        part = (*[slice(None)] * dim, slice(indices[0], indices[-1] + 1, step))
        return Copy(lambda x: x[part])
    index = torch.tensor(indices)
    return Copy(lambda x: x.index_select(dim, index.to(x.device)))


BEND: dict[str, Rule] = {
    "relu": _kink(lambda call: 0.0, is_layer=True),
    "leaky_relu": _kink(lambda call: float(call["negative_slope"])),
    "_prelu_kernel": _kink(lambda call: call["weight"]),
    "abs": _kink(lambda call: -1.0),
    "threshold": _threshold,
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "hardtanh": _clamp,
    "maximum": _maximum,
    "minimum": _maximum,
    "amax": _reduced_maximum,
    "max": _reduced_maximum,
    **{f"max_pool{n}d": _max_pool for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": _max_pool for n in (2, 3)},
    **{f"adaptive_max_pool{n}d": _adaptive_max_pool for n in (1, 2, 3)},
}
