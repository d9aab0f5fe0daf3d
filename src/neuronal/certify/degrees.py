r"""The degree calculus: what scaling the input does to every value inside a network.

A value has degree d when it becomes :math:`s^d` times itself as the input becomes :math:`s` times itself, for every
:math:`s > 0`. Sums and maxima need equal degrees, products add them, and a function that knows nothing of scaling (tanh)
gives degree 0 for degree 0 and no degree for any other. A constant has degree 0; zero and infinity have every degree.

Here: what a rule sees and says. The rules themselves are in :mod:`neuronal.certify.degree_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from torch import Tensor

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


class Call:
    """One operation as a rule sees it."""

    def __init__(
        self,
        name: str,
        arguments: dict[str, Any],
        degree_of: Callable[[Any], Fraction | None],
        breaks: Callable[[str, str], None],
        notes_zero: Callable[[], None],
    ):
        self.name, self.arguments = name, arguments
        self._degree_of, self.breaks, self.notes_zero = degree_of, breaks, notes_zero
        self._asked: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def depends(self, value: Any) -> bool:
        """Whether a value depends on the input."""
        return self._degree_of(value) is not None

    def degree(self, name: str = "self") -> Fraction:
        """The degree of an argument; constants have 0."""
        self._asked.add(name)
        return self._degree_of(self[name]) or NONE

    def forgotten(self) -> list[str]:
        """Arguments that scale and that the rule did not ask about."""
        names = [name for name, value in self.arguments.items() if any(map(self._degree_of, _flat([value])))]
        return [name for name in names if name not in self._asked]

    def inputs(self) -> list[Fraction]:
        """Degrees of all arguments that depend on the input."""
        return [d for d in map(self._degree_of, _flat(self.arguments.values())) if d is not None]

    def join(self, *names: str, kind: str = "constant", reason: str = "") -> Fraction:
        """The one degree of all these arguments (lists of values too); None and neutral constants do not count."""
        self._asked.update(names)
        values = [v for v in _flat(self[n] for n in names) if v is not None]
        degrees = [d for d in map(self._degree_of, values) if d is not None]
        constants = [v for v in values if not self.depends(v)]
        highest = max(degrees)
        if len(set(degrees)) > 1:
            low, high = (show(d) for d in (min(degrees), highest))
            self.breaks(reason or f"puts together values of degree {high} and {low} ({self.name})", "mixed")
        elif highest != 0:
            wrong = [c for c in constants if not is_neutral(c)]
            if wrong:
                size = f" ({wrong[0]:g})" if isinstance(wrong[0], int | float) else ""
                self.breaks(
                    reason or f"sets a constant{size} beside a value of degree {show(highest)} ({self.name})", kind
                )
            elif any(isinstance(c, Tensor) for c in constants):
                self.notes_zero()
        return highest


def _flat(values: Iterable[Any]) -> list[Any]:
    return [v for a in values for v in (a if isinstance(a, list | tuple) else [a])]


def is_neutral(constant: Any) -> bool:
    """Whether a constant has every degree: zeros and infinities do."""
    if isinstance(constant, Tensor):
        return bool(((constant == 0) | constant.isinf()).all())
    return bool(constant == 0 or abs(constant) == float("inf"))


def show(degree: Fraction) -> str:
    return str(degree)
