"""A set of inputs sent through a model's own ``forward``: what the checkers use instead of the makers' bounds.

A :class:`Cloud` stands for a tensor. It holds the tensor's values at the vertices of a simplex and a radius, in float64:
at barycentric coordinates lam the value is within ``radius`` of ``sum_i lam_i rows[i]``. (Balls have a cloud of their
own: ``globe.py``.) Every torch function the model calls has one plain rule in ``cloud_rules.py``. Slow and simple on
purpose; it shares no code with ``bounds.py`` and ``ball.py``.

Rounding: with n roundings for one number, g = gamma_n(2^-53) for this file's own arithmetic plus gamma_n(2^-24) if the
statement is about the float32 network. A linear rule adds g (|W| (max |value| + radius) + |b|) to |W| radius.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

# What a model may ask of a tensor without seeing its numbers.
SHAPE = (
    "shape",
    "dtype",
    "device",
    "layout",
    "ndim",
    "requires_grad",
    "is_cuda",
    "is_mps",
    "is_sparse",
    "is_quantized",
)
ASKED = ("size", "dim", "numel", "is_floating_point", "is_complex", "stride", "get_device")
OWN, FLOAT32 = 2.0**-53, 2.0**-24
UP = 1 + 1e-9  # sums of non-negative numbers lose less than this
TINY = 1e-37


class NoRule(TypeError):
    """The model does something that no rule here is about."""


class Cloud:
    """Looks like a float tensor with a batch of one to the model that computes with it."""

    has_corners = True  # rows are values, and not changes

    def __init__(self, rows: Sequence[Tensor], radius: Tensor, unit: float):
        """``unit`` is the unit roundoff of the deployed network, 0 for the real-valued one."""
        self._rows, self.radius, self.unit = list(rows), radius, unit
        self.origin: tuple[Cloud, Tensor, Any] | None = None
        # How often the memory it shares with its views was changed in place, and how often it was when this was made.
        self.changes, self.seen = [0], 0

    @property
    def rows(self) -> list[Tensor]:
        if self.seen != self.changes[0]:
            raise NoRule("The checker has no rule for a tensor that was changed in place under another view.")
        return self._rows

    def become(self, other: Cloud) -> Cloud:
        """Changed in place: this tensor under every name it has; views of it may not be used any more."""
        self._rows, self.radius, self.origin = other.rows, other.radius, other.origin
        self.changes[0] += 1
        self.seen = self.changes[0]
        return self

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        name = func.__name__.removesuffix("_") if not func.__name__.startswith("__") else func.__name__
        result = _by_rule(name, *args, **(kwargs or {}))
        is_in_place = name != func.__name__ or (kwargs or {}).get("inplace")
        return args[0].become(result) if is_in_place else result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in SHAPE + ASKED:
            return getattr(self.radius, name)
        if name in ("T", "mT"):
            return _by_rule(name, self)
        if not callable(getattr(Tensor, name, None)):
            raise NoRule(f"The checker has no rule for the attribute {name}.")
        return lambda *args, **kwargs: self.__torch_function__(getattr(Tensor, name), (), (self, *args), kwargs)

    def __add__(self, other: Any) -> Cloud:
        return _by_rule("add", self, other)

    def __sub__(self, other: Any) -> Cloud:
        return _by_rule("sub", self, other)

    def __rsub__(self, other: Any) -> Cloud:
        return _by_rule("__rsub__", self, other)

    def __mul__(self, other: Any) -> Cloud:
        return _by_rule("mul", self, other)

    def __truediv__(self, other: Any) -> Cloud:
        return _by_rule("div", self, other)

    def __neg__(self) -> Cloud:
        return _by_rule("neg", self)

    def __getitem__(self, index: Any) -> Cloud:
        return _by_rule("__getitem__", self, index)

    def __len__(self) -> int:
        return len(self.radius)

    def _refuse(self, *_: object) -> Any:
        raise NoRule("The checker has no rule for numbers that leave torch, or decide what is computed.")

    __bool__ = __float__ = __int__ = __index__ = __iter__ = __contains__ = __array__ = __reduce_ex__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __pow__ = __matmul__ = __setitem__ = __dlpack__ = _refuse
    __hash__ = object.__hash__

    def note(self, how: str, *parts: Any) -> Cloud:
        """Told how this value was made; whoever wants to know overrides it."""
        return self

    __radd__, __rmul__ = __add__, __mul__

    def __iadd__(self, other: Any) -> Cloud:
        return self.become(_by_rule("add", self, other))

    def __isub__(self, other: Any) -> Cloud:
        return self.become(_by_rule("sub", self, other))

    def __imul__(self, other: Any) -> Cloud:
        return self.become(_by_rule("mul", self, other))

    def __itruediv__(self, other: Any) -> Cloud:
        return self.become(_by_rule("div", self, other))

    def like(self, rows: Sequence[Tensor], radius: Tensor) -> Cloud:
        """Another value over the same set."""
        return Cloud(rows, radius, self.unit)

    def linear_in(
        self,
        parents: Sequence[Cloud],
        linear: Callable[..., Tensor],
        absolute: Callable[..., Tensor],
        shift: Any,
        error: Any,
    ) -> Cloud:
        """Told that this is linear(*parents) + shift, up to ``error``; whoever wants to know overrides it."""
        return self

    def bent_from(
        self, parents: Sequence[Cloud], slope: Any, low: Tensor, high: Tensor, longer: Tensor, *, is_layer: bool
    ) -> Cloud:
        """Told that this is a kink, or the larger of two, which the sign of something in [low, high] decides.

        ``longer``: where the line with slope 1 is taken below it, and elsewhere the one with slope 0; both are.
        """
        return self

    def range(self) -> tuple[Tensor, Tensor]:
        """What decides at a bend lies between these."""
        return self.low(), self.high()

    def moved(self, linear: Callable[[Tensor], Tensor], shift: Any = 0.0) -> list[Tensor]:
        """The rows of linear(value) + shift."""
        return [linear(row) + shift for row in self.rows]

    def ends(self) -> tuple[Tensor, Tensor]:
        """The smallest and the largest value, without the radius."""
        rows = torch.stack(self.rows)
        return rows.amin(0), rows.amax(0)

    @property
    def size_bound(self) -> Tensor:
        """At least the absolute value anywhere in the cloud."""
        low, high = self.ends()
        return torch.maximum(low.abs(), high.abs()) + self.radius

    def low(self) -> Tensor:
        return self.ends()[0] - self.radius * UP - 4 * OWN * self.size_bound

    def high(self) -> Tensor:
        return self.ends()[1] + self.radius * UP + 4 * OWN * self.size_bound

    def affine(
        self, linear: Callable[[Tensor], Tensor], absolute: Callable[[Tensor], Tensor], shift: Any, terms: int
    ) -> Cloud:
        """linear(value) + shift, with ``terms`` roundings; ``absolute`` is the linear part with absolute weights.

        Ours are a few more than those of the network that is meant: constants that a rule computes, and the rows. What
        sums of the radius and of the error lose is in ``UP``.
        """
        n, deployed = terms + 8, terms + 4
        g = n * OWN / (1 - n * OWN) + deployed * self.unit / (1 - deployed * self.unit)
        size = absolute(self.size_bound) + abs(shift)
        # Products of numbers that are not zero may be too small for the network's arithmetic.
        error = g * size + n * torch.where(size > 0, TINY, 0.0)
        result = self.like(self.moved(linear, shift), (absolute(self.radius) + error) * UP)
        return result.linear_in([self], linear, absolute, shift, error)


def _by_rule(name: str, *args: Any, **kwargs: Any) -> Cloud:
    """What the rule for a torch function makes of clouds."""
    # Rules are made of clouds, so they are looked up when a model computes.
    from neuronal.certify.cloud_rules import RULES

    if name not in RULES:
        raise NoRule(f"The checker has no rule for {name}.")
    result: Cloud = RULES[name](*args, **kwargs)
    return result
