"""Writes down, by a table of rules, what a model does to its input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.core.inference import Arguments, memory
from neuronal.geometry.program import Copy, Op, Step
from neuronal.geometry.tracer import Operation, Tracer

SUPPORTED = (
    "Linear, Conv1d to Conv3d, ReLU, LeakyReLU, PReLU, abs, clamp, max and average pooling (adaptive too), batch norm in "
    "evaluation, additions, multiplication by constants, flatten, reshape, slices, concatenation, padding, dropout in "
    "evaluation, and our zero-bias, geometric and Farkas layers"
)
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


class Call(Operation):
    """One operation as a rule sees it, and the way to add steps."""

    tracer: Recorder

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the result, or the first of several, without the batch."""
        first = self.result[0] if isinstance(self.result, list | tuple) else self.result
        return tuple(first.shape[1:])

    def rest(self) -> Arguments:
        """All arguments but the tensor the operation is about."""
        return {name: value for name, value in self.arguments.items() if name != "self"}

    def value(self, name: str = "self") -> int:
        number = self.tracer.number(self[name])
        if number is None:
            raise self.refuse()
        return number

    def spread(self, tensor: Tensor) -> int:
        """The value behind an operand, broadcast to the size of the result."""
        number = self.tracer.number(tensor)
        if number is None or self.result.dim() != tensor.dim():
            raise self.refuse("which mixes the rows of the batch")
        shape = self.shape
        return number if tensor.shape[1:] == shape else self.add(Copy(lambda x: x.expand(len(x), *shape)), number)

    def constant(self, name: str) -> Any:
        """An argument that must not depend on the input; of a tensor, a copy in float64."""
        value = self[name]
        if self.tracer.number(value) is not None:
            raise self.refuse()
        return value.detach().to(torch.float64, copy=True) if isinstance(value, Tensor) else value

    def add(self, op: Op, *inputs: int, shape: Sequence[int] | None = None) -> int:
        return self.tracer.add(op, *inputs, shape=self.shape if shape is None else shape)

    def refuse(self, why: str = "") -> NotPiecewiseLinear:
        return self.tracer.unsupported(f"computes {self.func}" + (f" ({why})" if why else ""))

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


class Recorder(Tracer):
    """Notes every operation on the input as steps, while the model computes as always."""

    operation = Call

    def __init__(self, model: nn.Module, x: Tensor, rules: Mapping[str, Rule]):
        super().__init__(model, x)
        self.rules = rules
        self.steps: list[Step] = []
        self.rows, self.shapes = len(x), [tuple(x.shape[1:])]  # of every value
        self.known: dict[int, tuple[int, Tensor]] = {id(x): (0, x)}  # the tensor is held, so its id stays its own
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

    def visit(self, call: Call) -> None:
        if any(map(self._is_hidden, call.tensors())):
            raise self.unsupported(HIDDEN)
        touched = [t for t in call.tensors() if id(t) in self.known]
        if any(id(t) in self.stale for t in touched):
            raise self.unsupported(STALE)
        is_float = all(t.is_floating_point() for t in touched)
        if call.name in SHAPES and not call.is_mutable and not any(t.is_floating_point() for t in touched):
            self.note(self.known[id(touched[0])][0], call.result)
            return
        rule = self.rules.get(call.name)
        if rule is None or not is_float:
            raise call.refuse()
        if any(id(t) in self.merged for t in touched) and (call.is_mutable or call.name not in ON_MERGED):
            raise self.unsupported(f"computes {call.func} of a tensor that mixes the rows of the batch")
        # What a solver reports of itself is for its warnings.
        self.note(rule(call), call.result[:1] if call.name == "mean_field" else call.result)
        for target in call.targets():
            self.stale |= {key for key, (_, t) in self.known.items() if t is not target and memory(t) == memory(target)}

    def refuse(self, reason: str, kind: str) -> None:
        raise self.unsupported(reason)

    def note(self, numbers: int | tuple[int, ...], result: Any) -> None:
        results = result if isinstance(result, list | tuple) else (result,)
        numbers = numbers if isinstance(numbers, tuple) else (numbers,)
        # The places of a maximum depend on the input too, and nothing may be done with whole numbers.
        places = [(numbers[0], t) for t in results[len(numbers) :] if not t.is_floating_point()]
        for number, tensor in [*zip(numbers, results, strict=False), *places]:
            self.known[id(tensor)] = (number, tensor)
            self.remember(tensor)

    def _is_hidden(self, value: object) -> bool:
        """Whether a tensor nobody recorded looks at the memory of one that depends on the input, such as ``x.data``."""
        return id(value) not in self.known and self.depends(value)

    def add(self, op: Op, *inputs: int, shape: Sequence[int]) -> int:
        """One more step; its value's number."""
        self.steps.append(Step(op, inputs, len(self.shapes), self.path, tuple(shape)))
        self.shapes.append(tuple(shape))
        return len(self.shapes) - 1

    def unsupported(self, what: str) -> NotPiecewiseLinear:
        return NotPiecewiseLinear(f"{self.place} {what}. Supported: {SUPPORTED}.", path=self.path, operation=what)
