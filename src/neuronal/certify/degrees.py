r"""The degree calculus: what scaling the input does to every value inside a network.

A value has degree d when it becomes :math:`s^d` times itself as the input becomes :math:`s` times itself, for every
:math:`s > 0`. Sums and maxima need equal degrees, products add them, and a function that knows nothing of scaling (tanh)
gives degree 0 for degree 0 and no degree for any other. A constant has degree 0; zero and infinity have every degree.

Here: what a rule sees and says. The rules themselves are in :mod:`neuronal.certify.degree_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from torch import Tensor, nn

from neuronal.certify.evidence import Break, Degree
from neuronal.core.inference import Arguments, memory
from neuronal.geometry.tracer import Operation, Tracer, flat, tensors

NONE, ONE = Fraction(0), Fraction(1)

REPAIRS = {
    "bias": "use bias=False, or neuronal.convert(model, 'zero_bias')",
    "batch_norm": "neuronal.convert(model, 'zero_bias', batch_norm='scale_only') keeps its factor alone",
    "batch": "use a norm whose statistics are those of one row",
    "eps": "set eps to 0, or leave it out",
    "constant": "leave the constant out",
    "mixed": "bring both to the same degree: leave out the norm in the branch, or put one behind the sum",
    "activation": "use nn.ReLU or nn.LeakyReLU",
    "softmax": "leave the softmax to the loss: the class is the same without it",
    "attention": "give queries and keys unit length, so that their products do not depend on scale",
    "coupling": "set the coupling to 0, or use neuronal.convert(model, 'zero_bias')",
    "control": "compute the same for every input",
    "random": "leave it out in evaluation",
    "state": "keep nothing from call to call in evaluation",
    "operation": "leave it out, or put a norm with eps = 0 before it",
}
# Operations whose result has only the shape of their input.
SHAPED = {"zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"}
SHAPED |= {"new_zeros", "new_ones", "new_full", "new_empty", "new_empty_strided"}
# Operations that fill nothing in: what is written there first decides the degree.
UNFILLED = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}


class Call(Operation):
    """One operation as a rule sees it, and the way to ask for degrees."""

    def __init__(self, tracer: DegreeTracer, func: Any, args: Sequence[Any], kwargs: Arguments):
        super().__init__(tracer, func, args, kwargs)
        self.depends, self.breaks, self.notes_zero = tracer.depends, tracer.refuse, tracer.notes_zero
        self._degree_of = tracer.degree_of
        self._asked: set[str] = set()
        self.empty: dict[int, bool] = {}  # by the constant tensors it writes to

    def degree(self, name: str = "self") -> Fraction:
        """The degree of an argument; constants have 0."""
        self._asked.add(name)
        return self._degree_of(self[name]) or NONE

    def forgotten(self) -> list[str]:
        """Arguments that scale and that the rule did not ask about."""
        names = [name for name, value in self.arguments.items() if any(map(self._degree_of, flat([value])))]
        return [name for name in names if name not in self._asked]

    def inputs(self) -> list[Fraction]:
        """Degrees of all arguments that depend on the input."""
        return [d for d in map(self._degree_of, flat(self.arguments.values())) if d is not None]

    def join(self, *names: str, kind: str = "constant", reason: str = "") -> Fraction:
        """The one degree of all these arguments (lists of values too); None and neutral constants do not count."""
        self._asked.update(names)
        values = [v for v in flat(self[n] for n in names) if v is not None]
        degrees = [d for d in map(self._degree_of, values) if d is not None]
        constants = [v for v in values if not self.depends(v)]
        highest = max(degrees)
        if len(set(degrees)) > 1:
            self.breaks(reason or f"puts together values of degree {highest} and {min(degrees)} ({self.name})", "mixed")
        elif highest != 0:
            wrong = [c for c in constants if not is_neutral(c)]
            if wrong:
                size = f" ({wrong[0]:g})" if isinstance(wrong[0], int | float) else ""
                self.breaks(reason or f"sets a constant{size} beside a value of degree {highest} ({self.name})", kind)
            elif any(isinstance(c, Tensor) for c in constants):
                self.notes_zero()
        return highest


def is_neutral(constant: Any) -> bool:
    """Whether a constant has every degree: zeros and infinities do."""
    if isinstance(constant, Tensor):
        return bool(((constant == 0) | constant.isinf()).all())
    return bool(constant == 0 or abs(constant) == float("inf"))


Degrees = Fraction | tuple[Fraction | None, ...]
"""Of an operation's one result, or of each of several; None for one that counts as a constant."""
Rule = Callable[[Call], Degrees]


class DegreeTracer(Tracer):
    """Gives every memory that depends on the input a degree, while the model computes as always.

    Views share memory and therefore the degree; what is written into a memory must have the degree it has, unless all of
    it is overwritten.
    """

    operation = Call

    def __init__(self, model: nn.Module, x: Tensor, rule: Rule):
        super().__init__(model, x)
        self.rule = rule
        self.steps: list[Degree] = []
        self.breaks: list[Break] = []
        self.zeros: list[str] = []
        self.is_random = False  # draws random numbers
        self.degrees = {memory(x): ONE}
        self.unfilled: dict[int, Tensor] = {}
        self.state = {memory(t) for t in [*model.parameters(), *model.buffers()]}

    def degree_of(self, value: Any) -> Fraction | None:
        """The degree of a value that depends on the input; None for others."""
        return self.degrees[memory(value)] if self.depends(value) else None

    def refuse(self, reason: str, kind: str) -> None:
        self.is_random |= kind == "random"
        found = Break(self.path, self.module, reason, REPAIRS[kind])
        if found not in self.breaks:
            self.breaks.append(found)

    def notes_zero(self) -> None:
        if self.place not in self.zeros:
            self.zeros.append(self.place)

    def before(self, call: Call) -> None:
        targets = call.targets()
        call.empty = {id(t): self._is_empty(t) for t in targets if not self.depends(t)}
        if any(memory(t) in self.state for t in targets):
            self.refuse(f"changes a parameter or buffer ({call.func.overloadpacket.__name__})", "state")

    def skip(self, call: Call) -> None:
        if call.name in UNFILLED:
            self.unfilled[memory(call.result)] = call.result
        for target in call.targets():
            self.unfilled.pop(memory(target), None)

    def visit(self, call: Call) -> None:
        outputs = tensors([call.result])
        is_view = not call.is_mutable and outputs and all(map(self.depends, outputs))
        if is_view or call.name in SHAPED:
            if call.name in UNFILLED:
                self.unfilled[memory(call.result)] = call.result
            return
        # A constant that was written into is seen as it was before: zero or not.
        call.arguments |= {n: float(not call.empty[id(v)]) for n, v in call.arguments.items() if id(v) in call.empty}
        degrees = self.rule(call)
        many = degrees if isinstance(degrees, tuple) else (degrees,) * max(len(outputs), 1)
        self.steps.append(Degree(self.path, call.name, many[0] or NONE))
        for tensor, degree in zip(outputs, many, strict=False):
            if degree is not None:
                self._note(tensor, degree if tensor.is_floating_point() or tensor.is_complex() else NONE, call.empty)

    def _is_empty(self, t: Tensor) -> bool:
        """Whether the whole memory behind a constant tensor holds zeros, or nothing yet: then it has every degree."""
        whole = t.new_empty(0).set_(t.untyped_storage())
        return memory(t) in self.unfilled or not whole.any()

    def _note(self, tensor: Tensor, degree: Fraction, empty: dict[int, bool]) -> None:
        before = self.degree_of(tensor)
        is_part = tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()
        if before is None and memory(tensor) in self.state:
            self.refuse("writes a value that depends on the input into a parameter or buffer", "state")
        elif is_part and before not in (None, degree):
            self.refuse(f"writes degree {degree} into a tensor of degree {before}", "mixed")
        elif is_part and before is None and degree != 0 and not empty.get(id(tensor), True):
            self.refuse(f"writes degree {degree} into a constant tensor", "constant")
        self.remember(tensor)
        self.degrees[memory(tensor)] = degree
