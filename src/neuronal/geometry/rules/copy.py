"""Operations that move numbers around without changing them."""

from __future__ import annotations

from neuronal.geometry.program import Concat, Copy
from neuronal.geometry.recorder import Call, Rule


def _view(call: Call) -> int:
    batch, merged = call.tracer.rows, call.tracer.merged
    if call.result.dim() == 0 or len(call.result) % batch:
        raise call.refuse("which mixes the rows of the batch")
    shape = call.shape
    if len(call.result) != batch:  # see Note [Merged rows] in recorder.py
        merged.add(id(call.result))
        shape = (len(call.result) // batch, *shape)
    value = call.value()
    if call.tracer.shapes[value] == shape:  # only rows and positions were merged, or told apart again
        return value
    return call.add(Copy(lambda x: x.reshape(len(x), *shape)), value, shape=shape)


def _expand(call: Call) -> int:
    return call.spread(call["self"])


def _same(call: Call) -> int:
    return call.value()


def _same_precision(call: Call) -> int:
    if call.result.dtype != call["self"].dtype:
        raise call.refuse("which changes the precision")
    return call.value()


def _permute(call: Call) -> int:
    dims = tuple(call["dims"])
    if dims[0] != 0:
        raise call.refuse("which moves the batch")
    return call.add(Copy(lambda x: x.permute(dims)), call.value())


def _again(call: Call) -> int:
    """Done by the operation itself."""
    func, rest = call.func, call.rest()
    return call.add(Copy(lambda x: func(x, **rest)), call.value())


def _along(*names: str) -> Rule:
    """Along dimensions other than the batch, done by the operation itself."""

    def rule(call: Call) -> int:
        rank = max(call["self"].dim(), call.result.dim())
        for name in names:
            dims = call[name] if isinstance(call[name], list | tuple) else [call[name]]
            if any(dim % rank == 0 for dim in dims):
                raise call.refuse("along the batch")
        return _again(call)

    return rule


def _squeeze(call: Call) -> int | tuple[int, ...]:
    """Of one dimension, or of all that have size 1."""
    return _along("dim")(call) if "dim" in call.arguments else _view(call)


def _pad(call: Call) -> int:
    if call["value"] != 0 or len(call["pad"]) >= 2 * call["self"].dim():
        raise call.refuse("with something other than zeros around each row")
    return _again(call)


def _cat(call: Call) -> int:
    rank = call.result.dim()
    if call["dim"] % rank == 0:
        raise call.refuse("along the batch")
    numbers = [call.tracer.number(t) for t in call["tensors"]]
    if None in numbers:
        raise call.refuse("of the input with a constant")
    return call.add(Concat(call["dim"] % rank), *(n for n in numbers if n is not None))


def _stack(call: Call) -> int:
    dim = call["dim"] % call.result.dim()
    numbers = [call.tracer.number(t) for t in call["tensors"]]
    if dim == 0 or None in numbers:
        raise call.refuse("along the batch, or of the input with a constant")
    shape = (*call.shape[: dim - 1], 1, *call.shape[dim:])
    layers = [call.add(Copy(lambda x: x.unsqueeze(dim)), n, shape=shape) for n in numbers if n is not None]
    return call.add(Concat(dim), *layers)


def _split(call: Call) -> tuple[int, ...]:
    call.keeps_batch(call["dim"])
    func, rest, value = call.func, call.rest(), call.value()

    def part(i: int) -> Copy:
        return Copy(lambda x: func(x, **rest)[i])

    return tuple(call.add(part(i), value, shape=tensor.shape[1:]) for i, tensor in enumerate(call.result))


COPY: dict[str, Rule] = {
    "view": _view,
    "_unsafe_view": _view,
    "reshape": _view,
    "expand": _expand,
    "clone": _same,
    "alias": _same,
    "detach": _same,
    "contiguous": _same,
    "lift_fresh": _same,
    "_to_copy": _same_precision,
    "permute": _permute,
    "transpose": _along("dim0", "dim1"),
    "unsqueeze": _along("dim"),
    "squeeze": _squeeze,
    "select": _along("dim"),
    "slice": _along("dim"),
    "flip": _along("dims"),
    **{f"{kind}_pad{n}d": _again for kind in ("reflection", "replication") for n in (1, 2, 3)},
    "constant_pad_nd": _pad,
    "channel_shuffle": _again,
    "native_channel_shuffle": _again,
    "pixel_shuffle": _again,
    "pixel_unshuffle": _again,
    "cat": _cat,
    "stack": _stack,
    "split": _split,
    "split_with_sizes": _split,
    "unbind": _split,
    "chunk": _split,
}
