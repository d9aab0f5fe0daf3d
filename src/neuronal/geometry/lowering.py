"""Any module made of piecewise-linear parts -> its :class:`Program`.

The model runs once, in evaluation mode, on two rows; every operation that touches the input is written down as steps.
What depends on parameters alone (a geometric layer's directions, a Farkas layer's last row) is computed by the model
itself and enters as a constant. Afterwards the program is compared with the model on other inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from neuronal.geometry.program import (
    Affine,
    Average,
    Concat,
    Convolution,
    Copy,
    Dense,
    Kink,
    Maximum,
    Op,
    Program,
    Scale,
    Step,
    Sum,
)
from neuronal.geometry.trace import evaluating, places

SUPPORTED = (
    "Linear, Conv1d to Conv3d, ReLU, LeakyReLU, PReLU, abs, clamp, max and average pooling (adaptive too), batch norm in "
    "evaluation, additions, multiplication by constants, flatten, reshape, slices, concatenation, padding, dropout in "
    "evaluation, and our zero-bias, geometric and Farkas layers"
)
ROWS = 2


class NotPiecewiseLinear(ValueError):
    """The network has a part no exact answer is known for. ``path`` is the module's, ``operation`` what it does."""

    def __init__(self, message: str, *, path: str, operation: str):
        super().__init__(message)
        self.path = path
        self.operation = operation


def lower(model: nn.Module, x: Tensor) -> Program:
    """The program of ``model`` for inputs shaped like the rows of ``x``; constants are held in float64.

    Costs two forward passes of a few rows. The real-valued network the program stands for has the weights the model
    uses, as it computes them in its own precision.

    Raises:
        NotPiecewiseLinear: A part is not supported; the message names the module and what is supported.
    """
    if x.dim() < 2 or not len(x):
        raise ValueError(f"Inputs need a batch dimension in front and at least one row, got shape {tuple(x.shape)}.")
    parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
    device = x.device if parameter is None else parameter.device
    dtype = torch.get_default_dtype() if parameter is None else parameter.dtype
    rows = x[:1].detach().to(device, dtype).repeat(ROWS, *[1] * (x.dim() - 1))
    recorder = _Recorder(model, rows)
    with evaluating(model), places(model) as running:
        recorder.running = running
        with recorder:
            result = model(rows)
        number = recorder.number(result)
        if number is None:
            what = "a constant" if isinstance(result, Tensor) else f"a {type(result).__name__}"
            raise recorder.unsupported(f"returns {what} instead of one tensor that depends on the input")
        program = Program(_with_frees(recorder.steps, number), number, tuple(rows.shape[1:]), dtype, device)
        _compare(model, program.to(torch.float64), rows)
    return program.to(torch.float64)


def _compare(model: nn.Module, program: Program, rows: Tensor) -> None:
    """Our own mistakes only: a program that says something else than the model must never leave this file."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(ROWS + 1, *rows.shape[1:], generator=generator, dtype=torch.float64)
    size = max(rows.abs().max().item(), 1e-3)
    x = (noise * size).to(rows)
    want, got = model(x).double(), program(x.double())
    # A network with narrow precision may be far from its real-valued self; a misread step is off by order 1.
    tolerance = 1e3 * torch.finfo(rows.dtype).eps * max(want.abs().max().item(), got.abs().max().item(), 1e-30)
    if want.shape != got.shape or not (want - got).abs().max() <= tolerance:
        raise NotPiecewiseLinear(
            f"{type(model).__name__} was not understood: its steps, put together again, give another output. A module "
            "that keeps state between calls, draws random numbers or mixes the rows of a batch does that.",
            path="",
            operation="",
        )


def _with_frees(steps: list[Step], output: int) -> tuple[Step, ...]:
    """Steps in order, without those nobody reads, each with the values that are not needed after it."""
    needed, kept = {output}, []
    for step in reversed(steps):
        if step.output in needed:
            frees = tuple(i for i in dict.fromkeys(step.inputs) if i not in needed)
            needed.update(step.inputs)
            kept.append(replace(step, frees=frees))
    return tuple(reversed(kept))


class _Recorder(TorchDispatchMode):
    """Notes every operation on the input as steps, while the model computes as always."""

    def __init__(self, model: nn.Module, x: Tensor):
        super().__init__()
        self.model = model
        self.running: list[str] = []
        self.steps: list[Step] = []
        self.count = 1
        self.known: dict[int, tuple[int, Tensor]] = {id(x): (0, x)}  # the tensor is held, so its id stays its own
        self.stale: set[int] = set()

    def number(self, value: object) -> int | None:
        return self.known[id(value)][0] if id(value) in self.known else None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        inputs = [*args, *kwargs.values()]
        touched = [t for a in inputs for t in (a if isinstance(a, list | tuple) else [a]) if id(t) in self.known]
        if not touched:
            return result
        name = func.overloadpacket.__name__
        if any(id(t) in self.stale for t in touched):
            raise self.unsupported("changes a tensor in place that is used under another view later")
        rule = RULES.get(name) or RULES.get(name.removesuffix("_"))
        if rule is None or not all(t.is_floating_point() for t in touched):
            raise self.unsupported(f"computes {func}")
        in_place = name.endswith("_") and not name.startswith("_")
        self.note(rule(Call(self, func, args, kwargs, result)), result)
        if in_place:
            self._mark_aliases(args[0])
        return result

    def note(self, numbers: int | tuple[int, ...], result: Any) -> None:
        tensors = result if isinstance(result, list | tuple) else (result,)
        for number, tensor in zip(numbers if isinstance(numbers, tuple) else (numbers,), tensors, strict=False):
            self.known[id(tensor)] = (number, tensor)

    def _mark_aliases(self, changed: Tensor) -> None:
        memory = changed.untyped_storage().data_ptr()
        for key, (_, tensor) in self.known.items():
            if tensor is not changed and tensor.untyped_storage().data_ptr() == memory:
                self.stale.add(key)

    def add(self, op: Op, *inputs: int, shape: Sequence[int]) -> int:
        """One more step; its value's number."""
        path = self.running[-1] if self.running else ""
        self.steps.append(Step(op, inputs, self.count, path, tuple(shape)))
        self.count += 1
        return self.count - 1

    def unsupported(self, what: str) -> NotPiecewiseLinear:
        path = self.running[-1] if self.running else ""
        module = self.model.get_submodule(path)
        name = f"{type(module).__name__} at '{path}'" if path else type(module).__name__
        return NotPiecewiseLinear(f"{name} {what}. Supported: {SUPPORTED}.", path=path, operation=what)


class Call:
    """One operation as a rule sees it: its arguments, its result, and the way to add steps."""

    def __init__(self, recorder: _Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any):
        names = [a.name for a in func._schema.arguments]
        self.recorder, self.func = recorder, func
        self.arguments = {a.name: a.default_value for a in func._schema.arguments}
        self.arguments |= dict(zip(names, args, strict=False)) | kwargs
        first = result[0] if isinstance(result, list | tuple) else result
        self.shape: tuple[int, ...] = tuple(first.shape[1:])
        self.result = result

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def value(self, name: str = "self") -> int:
        number = self.recorder.number(self[name])
        if number is None:
            raise self.refuse()
        return number

    def constant(self, name: str) -> Any:
        if self.recorder.number(self[name]) is not None:
            raise self.refuse()
        return self[name]

    def add(self, op: Op, *inputs: int, shape: Sequence[int] | None = None) -> int:
        return self.recorder.add(op, *inputs, shape=self.shape if shape is None else shape)

    def refuse(self, why: str = "") -> NotPiecewiseLinear:
        return self.recorder.unsupported(f"computes {self.func}" + (f" ({why})" if why else ""))

    def like(self, value: float | Tensor) -> Tensor:
        """A constant that broadcasts over a batch of this call's operands; numbers become tensors in float64."""
        if not isinstance(value, Tensor):
            return torch.tensor(value, dtype=torch.float64)
        if value.dim() > len(self.shape) and value.shape[0] != 1:
            raise self.refuse("with a constant for each row of the batch")
        return value.double()

    def keeps_batch(self, *dims: int) -> None:
        """Refuses an operation along the batch dimension."""
        rank = self["self"].dim()
        if any(dim % rank == 0 for dim in dims):
            raise self.refuse("along the batch")


Rule = Callable[[Call], int | tuple[int, ...]]
RULES: dict[str, Rule] = {}


def _for(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


# Affine maps


@_for("addmm")
def _addmm(call: Call) -> int:
    weight, bias = call.constant("mat2"), call.constant("self")
    if bias.dim() != 1:
        raise call.refuse("with a bias for each row of the batch")
    return call.add(Dense(weight.t().double() * call["alpha"], bias.double() * call["beta"]), call.value("mat1"))


@_for("mm")
def _mm(call: Call) -> int:
    return call.add(Dense(call.constant("mat2").t().double()), call.value())


@_for("convolution")
def _convolution(call: Call) -> int:
    if call["transposed"]:
        raise call.refuse("transposed")
    weight, bias = call.constant("weight"), call.constant("bias")
    step = Convolution(
        weight.double(),
        None if bias is None else bias.double(),
        tuple(call["stride"]),
        tuple(call["padding"]),
        tuple(call["dilation"]),
        call["groups"],
    )
    return call.add(step, call.value("input"))


@_for("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit_no_training")
def _batch_norm(call: Call) -> int:
    if call.arguments.get("training"):
        raise call.refuse("with the statistics of the batch; a norm without running statistics has no others")
    mean, var = call["running_mean"].double(), call["running_var"].double()
    weight, bias = call.constant("weight"), call.constant("bias")
    eps = call["eps"] if "eps" in call.arguments else call["epsilon"]
    scale = (var + eps).rsqrt() * (1.0 if weight is None else weight.double())
    bias = torch.zeros_like(mean) if bias is None else bias.double()
    wide = (-1, *[1] * (len(call.shape) - 1))
    moved = mean * scale
    # Deployed: five roundings in the scale and its product, six on the shift's way.
    step = Scale(scale.view(wide), (bias - moved).view(wide), (bias.abs() + moved.abs()).view(wide), terms=8)
    return call.add(step, call.value("input"))


@_for("mul", "div")
def _scaled(call: Call) -> int:
    one, other = call["self"], call["other"]
    is_div = call.func.overloadpacket.__name__.startswith("div")
    if is_div and call.arguments.get("rounding_mode") is not None:
        raise call.refuse("with rounding")
    if call.recorder.number(one) is None:
        if is_div:
            raise call.refuse()
        one, other = other, one
    if call.recorder.number(other) is not None:
        raise call.refuse("of two values that both depend on the input")
    factor = call.like(other)
    return call.add(Scale(1 / factor if is_div else factor), call.recorder.known[id(one)][0])


@_for("neg")
def _neg(call: Call) -> int:
    return call.add(Scale(call.like(-1.0), terms=0), call.value())


@_for("add", "sub", "rsub")
def _sum(call: Call) -> int:
    one, other, factor = call["self"], call["other"], float(call["alpha"])
    name = call.func.overloadpacket.__name__.removesuffix("_")
    factor = -factor if name == "sub" else factor
    if name == "rsub":
        return _affine_sum(call, other, one, -factor)
    return _affine_sum(call, one, other, factor)


def _affine_sum(call: Call, one: Any, other: Any, factor: float) -> int:
    a, b = call.recorder.number(one), call.recorder.number(other)
    if a is not None and b is not None:
        return call.add(Sum(factor), a, b)
    if a is not None:
        return call.add(Scale(call.like(1.0), call.like(other) * factor), a)
    assert b is not None
    return call.add(Scale(call.like(factor), call.like(one)), b)


@_for("mean", "sum")
def _mean(call: Call) -> int:
    dims = call.arguments.get("dim")
    if dims is None or not len(dims):
        raise call.refuse("over the batch too")
    call.keeps_batch(*dims)
    sizes = call["self"].shape
    terms = 1
    for dim in dims:
        terms *= sizes[dim]
    reduce = torch.mean if call.func.overloadpacket.__name__ == "mean" else torch.sum
    keep = call["keepdim"]
    return call.add(Average(lambda x: reduce(x, dim=dims, keepdim=keep), terms + 1), call.value())


@_for("avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def _average_pool(call: Call) -> int:
    func = call.func
    rest = {name: value for name, value in call.arguments.items() if name != "self"}
    if "kernel_size" in rest:
        terms = torch.Size(rest["kernel_size"]).numel()
    else:
        sizes = call["self"].shape[-len(rest["output_size"]) :]
        terms = 1
        for size, out in zip(sizes, rest["output_size"], strict=True):
            terms *= -(-size // out) + 1
    return call.add(Average(lambda x: func(x, **rest), terms + 1), call.value())


# Copies


@_for("view", "_unsafe_view", "reshape")
def _view(call: Call) -> int:
    if call.result.shape[0] != ROWS:
        raise call.refuse("which mixes the rows of the batch")
    shape = call.shape
    return call.add(Copy(lambda x: x.reshape(len(x), *shape)), call.value())


@_for("expand")
def _expand(call: Call) -> int:
    if call.result.dim() != call["self"].dim():
        raise call.refuse("which mixes the rows of the batch")
    shape = call.shape
    return call.add(Copy(lambda x: x.expand(len(x), *shape)), call.value())


@_for("clone", "alias", "detach", "contiguous", "lift_fresh")
def _same(call: Call) -> int:
    return call.value()


@_for("_to_copy")
def _same_precision(call: Call) -> int:
    if call.result.dtype != call["self"].dtype:
        raise call.refuse("which changes the precision")
    return call.value()


@_for("permute")
def _permute(call: Call) -> int:
    dims = tuple(call["dims"])
    if dims[0] != 0:
        raise call.refuse("which moves the batch")
    return call.add(Copy(lambda x: x.permute(dims)), call.value())


def _along(*names: str) -> Rule:
    """Copies along dimensions other than the batch, done again by the operation itself."""

    def rule(call: Call) -> int:
        for name in names:
            dims = call[name] if isinstance(call[name], list | tuple) else [call[name]]
            rank = max(call["self"].dim(), call.result.dim())
            if any(dim % rank == 0 for dim in dims):
                raise call.refuse("along the batch")
        return call.add(_again(call), call.value())

    return rule


def _again(call: Call) -> Affine:
    func = call.func
    rest = {name: value for name, value in call.arguments.items() if name != "self"}
    return Copy(lambda x: func(x, **rest))


RULES |= {
    "transpose": _along("dim0", "dim1"),
    "unsqueeze": _along("dim"),
    "squeeze": _along("dim"),
    "select": _along("dim"),
    "slice": _along("dim"),
    "flip": _along("dims"),
}


@_for(*(f"{kind}_pad{n}d" for kind in ("reflection", "replication") for n in (1, 2, 3)))
def _pad_with_copies(call: Call) -> int:
    return call.add(_again(call), call.value())


@_for("constant_pad_nd")
def _pad(call: Call) -> int:
    if call["value"] != 0 or len(call["pad"]) >= 2 * call["self"].dim():
        raise call.refuse("with something other than zeros around each row")
    return call.add(_again(call), call.value())


@_for("cat")
def _cat(call: Call) -> int:
    tensors, rank = call["tensors"], call.result.dim()
    if call["dim"] % rank == 0:
        raise call.refuse("along the batch")
    numbers = [call.recorder.number(t) for t in tensors]
    if None in numbers:
        raise call.refuse("of the input with a constant")
    return call.add(Concat(call["dim"] % rank), *(n for n in numbers if n is not None))


@_for("split", "split_with_sizes", "unbind", "chunk")
def _split(call: Call) -> tuple[int, ...]:
    call.keeps_batch(call["dim"])
    func = call.func
    rest = {name: value for name, value in call.arguments.items() if name != "self"}
    value = call.value()

    def part(i: int) -> Copy:
        return Copy(lambda x: func(x, **rest)[i])

    return tuple(call.add(part(i), value, shape=tensor.shape[1:]) for i, tensor in enumerate(call.result))


# Kinks and maxima


@_for("relu")
def _relu(call: Call) -> int:
    return call.add(Kink(call.like(0.0)), call.value())


@_for("leaky_relu")
def _leaky_relu(call: Call) -> int:
    return call.add(Kink(call.like(float(call["negative_slope"]))), call.value())


@_for("_prelu_kernel")
def _prelu(call: Call) -> int:
    return call.add(Kink(call.like(call.constant("weight"))), call.value())


@_for("abs")
def _abs(call: Call) -> int:
    return call.add(Kink(call.like(-1.0)), call.value())


@_for("threshold")
def _threshold(call: Call) -> int:
    if call["threshold"] != 0 or call["value"] != 0:
        raise call.refuse("which jumps unless threshold and value are 0")
    return call.add(Kink(call.like(0.0)), call.value())


@_for("clamp", "clamp_min", "clamp_max", "hardtanh")
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


@_for("maximum", "minimum")
def _maximum(call: Call) -> int:
    sign = -1.0 if call.func.overloadpacket.__name__ == "minimum" else 1.0
    numbers = [call.recorder.number(call[name]) for name in ("self", "other")]
    if None in numbers:
        raise call.refuse("with a constant; clamp does that")
    sides = [n for n in numbers if n is not None]
    if sign < 0:
        sides = [call.add(Scale(call.like(sign), terms=0), side) for side in sides]
    top = call.add(Maximum(), *sides)
    return top if sign > 0 else call.add(Scale(call.like(sign), terms=0), top)


@_for("amax", "max")
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


@_for("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d", "max_pool2d", "max_pool3d")
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


@_for("adaptive_max_pool2d", "adaptive_max_pool3d", "adaptive_max_pool1d")
def _adaptive_max_pool(call: Call) -> int:
    value, shape, rank = call.value(), list(call["self"].shape[1:]), len(call["output_size"])
    for dim in range(len(shape) - rank, len(shape)):
        n, out = shape[dim], call.shape[dim]
        windows = [list(range(o * n // out, -(-(o + 1) * n // out))) for o in range(out)]
        shape[dim] = out
        value = _tournament(call, value, dim + 1, _across(windows), shape)
    return value


def _windows(n: int, out: int, size: int, stride: int, padding: int, dilation: int) -> list[list[int]]:
    """For each place in the window, the input index every output reads there; padding reads a real neighbour again."""
    starts = [o * stride - padding for o in range(out)]
    return _across([[i for i in range(s, s + size * dilation, dilation) if 0 <= i < n] for s in starts])


def _across(windows: list[list[int]]) -> list[list[int]]:
    """Windows of unequal length -> their first members, second members ...; short ones repeat their last."""
    longest = max(map(len, windows))
    return [[window[min(j, len(window) - 1)] for window in windows] for j in range(longest)]


def _tournament(call: Call, value: int, dim: int, choices: list[list[int]], shape: Sequence[int]) -> int:
    players = [call.add(_take(dim, indices), value, shape=shape) for indices in choices]
    while len(players) > 1:
        pairs = [call.add(Maximum(), a, b, shape=shape) for a, b in zip(players[::2], players[1::2], strict=False)]
        players = pairs + players[len(pairs) * 2 :]
    return players[0]


def _take(dim: int, indices: list[int]) -> Copy:
    """The entries at ``indices`` along ``dim``: a strided view where these are evenly spaced."""
    steps = {b - a for a, b in pairwise(indices)}
    if len(steps) <= 1 and (step := steps.pop() if steps else 1) > 0:
        part = (*[slice(None)] * dim, slice(indices[0], indices[-1] + 1, step))
        return Copy(lambda x: x[part])
    index = torch.tensor(indices)
    return Copy(lambda x: x.index_select(dim, index.to(x.device)))
