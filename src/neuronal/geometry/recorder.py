"""Watches a model compute and writes down, by a table of rules, what happens to its input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from neuronal.core.inference import is_random, memory
from neuronal.geometry.program import Copy, Op, Step

SUPPORTED = (
    "Linear, Conv1d to Conv3d, ReLU, LeakyReLU, PReLU, abs, clamp, max and average pooling (adaptive too), batch norm in "
    "evaluation, additions, multiplication by constants, flatten, reshape, slices, concatenation, padding, dropout in "
    "evaluation, and our zero-bias, geometric and Farkas layers"
)
ROWS = 2
# What may be done with a matrix whose rows are the positions of all inputs; see Note [Merged rows].
ON_MERGED = {"view", "_unsafe_view", "reshape", "addmm", "mm", "mean_field"}
# What torch itself does with the places of a maximum that nobody asked for.
SHAPES = {"squeeze", "unsqueeze"}


HIDDEN = "looks at the memory of a tensor that depends on the input in a way that is not seen (such as .data)"
STALE = "changes a tensor in place that is used under another view later"


class NotPiecewiseLinear(ValueError):
    """The network has a part no exact answer is known for. ``path`` is the module's, ``operation`` what it does."""

    def __init__(self, message: str, *, path: str, operation: str):
        super().__init__(message)
        self.path = path
        self.operation = operation


class Recorder(TorchDispatchMode):
    """Notes every operation on the input as steps, while the model computes as always."""

    def __init__(self, model: nn.Module, x: Tensor, rules: Mapping[str, Rule]):
        super().__init__()
        self.model, self.rules = model, rules
        self.running: list[str] = []
        self.steps: list[Step] = []
        self.count = 1
        self.shapes = {0: tuple(x.shape[1:])}
        self.known: dict[int, tuple[int, Tensor]] = {id(x): (0, x)}  # the tensor is held, so its id stays its own
        self.memories = {memory(x)}
        self.stale: set[int] = set()
        # Note [Merged rows]: torch multiplies inputs of shape (batch, positions, features) by a matrix after it has
        # made them one of shape (batch * positions, features). The value behind such a tensor keeps its three
        # dimensions here, and the tensor is in this set until it has them back.
        self.merged: set[int] = set()

    def number(self, value: object) -> int | None:
        return self.known[id(value)][0] if id(value) in self.known else None

    def returned(self, result: object) -> int:
        """The number of what the model returns."""
        number = self.number(result)
        if self._is_hidden(result):
            raise self.unsupported(HIDDEN)
        if number is None:
            what = "a constant" if isinstance(result, Tensor) else f"a {type(result).__name__}"
            raise self.unsupported(f"returns {what} instead of one tensor that depends on the input")
        if isinstance(result, Tensor) and not result.is_floating_point():
            raise self.unsupported("returns whole numbers")
        if id(result) in self.stale:
            raise self.unsupported(STALE)
        if id(result) in self.merged:
            raise self.unsupported("returns a tensor that mixes the rows of the batch")
        return number

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        inputs = [*args, *kwargs.values()]
        if is_random(func, args, kwargs):
            raise self.unsupported(f"draws random numbers ({func})")
        tensors = [t for a in inputs for t in (a if isinstance(a, list | tuple) else [a])]
        if any(map(self._is_hidden, tensors)):
            raise self.unsupported(HIDDEN)
        touched = [t for t in tensors if id(t) in self.known]
        if not touched:
            return result
        name = func.overloadpacket.__name__
        if any(id(t) in self.stale for t in touched):
            raise self.unsupported(STALE)
        if name in SHAPES and not any(t.is_floating_point() for t in touched):
            self.note(self.known[id(touched[0])][0], result)
            return result
        rule = self.rules.get(name) or self.rules.get(name.removesuffix("_"))
        if rule is None or not all(t.is_floating_point() for t in touched):
            raise self.unsupported(f"computes {func}")
        if name not in ON_MERGED and any(id(t) in self.merged for t in touched):
            raise self.unsupported(f"computes {func} of a tensor that mixes the rows of the batch")
        # What a solver reports of itself is for its warnings.
        self.note(rule(Call(self, func, args, kwargs, result)), result[:1] if name == "mean_field" else result)
        if func._schema.is_mutable:
            self._mark_aliases(result)
        return result

    def leaves(self, name: str, tensor: Tensor) -> None:
        """Numbers of a tensor leave torch, and what is done with them is not seen."""
        if id(tensor) in self.known or self._is_hidden(tensor):
            raise self.unsupported(f"takes numbers that depend on the input out of torch ({name})")

    def note(self, numbers: int | tuple[int, ...], result: Any) -> None:
        tensors = result if isinstance(result, list | tuple) else (result,)
        numbers = numbers if isinstance(numbers, tuple) else (numbers,)
        for number, tensor in zip(numbers, tensors, strict=False):
            self.known[id(tensor)] = (number, tensor)
            self.memories.add(memory(tensor))
        # The places of a maximum depend on the input too, and nothing may be done with whole numbers.
        self.known |= {id(t): (numbers[0], t) for t in tensors[len(numbers) :] if not t.is_floating_point()}

    def _is_hidden(self, value: object) -> bool:
        """Whether a tensor nobody recorded looks at the memory of one that depends on the input, such as ``x.data``."""
        return isinstance(value, Tensor) and id(value) not in self.known and memory(value) in self.memories

    def _mark_aliases(self, changed: Tensor) -> None:
        memory = changed.untyped_storage().data_ptr()
        for key, (_, tensor) in self.known.items():
            if tensor is not changed and tensor.untyped_storage().data_ptr() == memory:
                self.stale.add(key)

    def add(self, op: Op, *inputs: int, shape: Sequence[int]) -> int:
        """One more step; its value's number."""
        path = self.running[-1] if self.running else ""
        self.steps.append(Step(op, inputs, self.count, path, tuple(shape)))
        self.shapes[self.count] = tuple(shape)
        self.count += 1
        return self.count - 1

    def unsupported(self, what: str) -> NotPiecewiseLinear:
        path = self.running[-1] if self.running else ""
        module = self.model.get_submodule(path)
        name = f"{type(module).__name__} at '{path}'" if path else type(module).__name__
        return NotPiecewiseLinear(f"{name} {what}. Supported: {SUPPORTED}.", path=path, operation=what)


class Call:
    """One operation as a rule sees it: its arguments, its result, and the way to add steps."""

    def __init__(self, recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any):
        names = [a.name for a in func._schema.arguments]
        self.recorder, self.func = recorder, func
        self.name = func.overloadpacket.__name__.removesuffix("_")
        self.arguments = {a.name: a.default_value for a in func._schema.arguments}
        self.arguments |= dict(zip(names, args, strict=False)) | kwargs
        first = result[0] if isinstance(result, list | tuple) else result
        self.shape: tuple[int, ...] = tuple(first.shape[1:])
        self.result = result

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def rest(self) -> dict[str, Any]:
        """All arguments but the tensor the operation is about."""
        return {name: value for name, value in self.arguments.items() if name != "self"}

    def value(self, name: str = "self") -> int:
        number = self.recorder.number(self[name])
        if number is None:
            raise self.refuse()
        return number

    def spread(self, tensor: Tensor) -> int:
        """The value behind an operand, broadcast to the size of the result."""
        number = self.recorder.number(tensor)
        if number is None or self.result.dim() != tensor.dim():
            raise self.refuse("which mixes the rows of the batch")
        shape = self.shape
        return number if tensor.shape[1:] == shape else self.add(Copy(lambda x: x.expand(len(x), *shape)), number)

    def constant(self, name: str) -> Any:
        """An argument that must not depend on the input; of a tensor, a copy in float64."""
        value = self[name]
        if self.recorder.number(value) is not None:
            raise self.refuse()
        return value.detach().to(torch.float64, copy=True) if isinstance(value, Tensor) else value

    def add(self, op: Op, *inputs: int, shape: Sequence[int] | None = None) -> int:
        return self.recorder.add(op, *inputs, shape=self.shape if shape is None else shape)

    def refuse(self, why: str = "") -> NotPiecewiseLinear:
        return self.recorder.unsupported(f"computes {self.func}" + (f" ({why})" if why else ""))

    def like(self, value: float | Tensor) -> Tensor:
        """A constant that broadcasts over a batch of this call's operands, in float64."""
        if not isinstance(value, Tensor):
            return torch.tensor(value, dtype=torch.float64)
        if value.dim() > len(self.shape) and value.shape[0] != 1:
            raise self.refuse("with a constant for each row of the batch")
        return value.detach().to(torch.float64, copy=True)

    def keeps_batch(self, *dims: int) -> None:
        """Refuses an operation along the batch dimension."""
        rank = self["self"].dim()
        if any(dim % rank == 0 for dim in dims):
            raise self.refuse("along the batch")


Rule = Callable[[Call], int | tuple[int, ...]]
