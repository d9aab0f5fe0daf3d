"""A piecewise-linear network as a list of steps: affine maps, sums, kinks and maxima, and nothing else.

Every analysis (patterns, segments, bounds) follows this list with its own rule for each kind of step.
Values have a batch dimension in front; steps never mix the rows of a batch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

# See Note [Float64 on the CPU].
WINDOWS, FEW = 2**23, 25
V = TypeVar("V")
CONVOLUTIONS = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}


class Affine(ABC):
    """y = W x + b, applied to every row of a batch.

    ``terms`` is the largest number of roundings one output can suffer on its way, in any order of summation:
    products, additions and the bias. 0 means that the step copies and is exact in every precision.
    """

    terms: int

    @abstractmethod
    def linear(self, x: Tensor) -> Tensor:
        """W x."""

    @abstractmethod
    def absolute(self, x: Tensor) -> Tensor:
        """abs(W) x, which turns a radius around x into one around W x."""

    def bias(self) -> Tensor | None:
        """b, in a shape that broadcasts over a batch of outputs; None when it is zero."""
        return None

    def bias_size(self) -> Tensor | None:
        """What rounding of the bias is measured by: abs(b), or more where b is itself a difference."""
        b = self.bias()
        return None if b is None else b.abs()

    def __call__(self, x: Tensor) -> Tensor:
        b = self.bias()
        return self.linear(x) if b is None else self.linear(x) + b

    def map_tensors(self, move: Callable[[Tensor], Tensor]) -> Affine:
        """The same step with every constant moved (to another precision or device)."""
        return replace(self, **_moved(self, move))  # type: ignore[type-var]


@dataclass(frozen=True, eq=False)
class Dense(Affine):
    """A matrix on the last dimension: ``weight`` is (outputs, inputs)."""

    weight: Tensor
    shift: Tensor | None = None

    @property
    def terms(self) -> int:  # type: ignore[override]
        return self.weight.shape[1] + 1

    def linear(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)

    def absolute(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.abs())

    def bias(self) -> Tensor | None:
        return self.shift

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.shift)


@dataclass(frozen=True, eq=False)
class Convolution(Affine):
    """A convolution with zero padding in 1, 2 or 3 dimensions."""

    weight: Tensor
    shift: Tensor | None
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def terms(self) -> int:  # type: ignore[override]
        return self.weight[0].numel() + 1

    def _convolve(self, x: Tensor, weight: Tensor, shift: Tensor | None) -> Tensor:
        convolution = CONVOLUTIONS[weight.dim()]
        rest = (weight, shift, self.stride, self.padding, self.dilation, self.groups)
        if x.dtype != torch.float64 or x.device.type != "cpu":
            return convolution(x, *rest)
        # Note [Float64 on the CPU]: torch writes the windows of the whole batch into one matrix first, which is several
        # times slower when that is not near the processor; and for few positions it is faster with channels last.
        positions = math.prod(-(-n // step) for n, step in zip(x.shape[2:], self.stride, strict=True))
        rows = max(1, WINDOWS // (8 * weight[0].numel() * self.groups * positions))
        if weight.dim() == 4 and positions <= FEW:
            x = x.contiguous(memory_format=torch.channels_last)
        parts = [convolution(part, *rest).contiguous() for part in x.split(rows)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def linear(self, x: Tensor) -> Tensor:
        return self._convolve(x, self.weight, None)

    def absolute(self, x: Tensor) -> Tensor:
        return self._convolve(x, self.weight.abs(), None)

    def bias(self) -> Tensor | None:
        return None if self.shift is None else self.shift.view(-1, *[1] * (self.weight.dim() - 2))

    def __call__(self, x: Tensor) -> Tensor:
        return self._convolve(x, self.weight, self.shift)


@dataclass(frozen=True, eq=False)
class Scale(Affine):
    """y = scale * x + shift, elementwise; both broadcast over a batch. Batch norm in evaluation is one of these.

    ``size`` bounds the parts ``shift`` was put together from, where these are larger than the shift itself.
    """

    scale: Tensor
    shift: Tensor | None = None
    size: Tensor | None = None
    terms: int = 2

    def linear(self, x: Tensor) -> Tensor:
        return x * self.scale

    def absolute(self, x: Tensor) -> Tensor:
        return x * self.scale.abs()

    def bias(self) -> Tensor | None:
        return self.shift

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.scale if self.shift is None else torch.addcmul(self.shift, x, self.scale)

    def bias_size(self) -> Tensor | None:
        return super().bias_size() if self.size is None else self.size


@dataclass(frozen=True, eq=False)
class Average(Affine):
    """Means and sums over windows or dimensions: linear, with no negative weight."""

    apply: Callable[[Tensor], Tensor]
    terms: int

    def linear(self, x: Tensor) -> Tensor:
        return self.apply(x)

    def absolute(self, x: Tensor) -> Tensor:
        return self.apply(x)


@dataclass(frozen=True, eq=False)
class Copy(Affine):
    """Every output is one of the inputs, or zero: reshapes, slices, permutations, padding."""

    apply: Callable[[Tensor], Tensor]
    terms: int = 0

    def linear(self, x: Tensor) -> Tensor:
        return self.apply(x)

    def absolute(self, x: Tensor) -> Tensor:
        return self.apply(x)


@dataclass(frozen=True)
class Sum:
    """a + factor * b of two values, which may broadcast: residual connections."""

    factor: float = 1.0


@dataclass(frozen=True)
class Concat:
    """Values joined along ``dim``, which is never the batch."""

    dim: int


@dataclass(frozen=True, eq=False)
class Kink:
    """x where x > 0, slope * x elsewhere: ReLU (slope 0), LeakyReLU, PReLU, abs (slope -1).

    ``slope`` broadcasts over a batch. ``is_layer``: it is a ReLU of the model itself, and not a part of another operation
    such as a clamp.
    """

    slope: Tensor
    is_layer: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        return x.relu() if self.is_relu else torch.where(x > 0, x, x * self.slope)

    @cached_property
    def is_relu(self) -> bool:
        return not self.slope.any()

    @property
    def is_exact(self) -> bool:
        """Whether the step rounds in no precision: slopes 0, 1 and -1."""
        return bool(((self.slope == 0) | (self.slope.abs() == 1)).all())

    def map_tensors(self, move: Callable[[Tensor], Tensor]) -> Kink:
        return Kink(move(self.slope), self.is_layer)


@dataclass(frozen=True, eq=False)
class Maximum:
    """The larger of two values, elementwise. Pooling is a tournament of these.

    ``sure``, which broadcasts over a batch: 1 where the first is never smaller, whatever the input, -1 where the second is
    not, as in windows that reach over the border; 0 elsewhere. None: nothing is known.
    """

    sure: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Smooth:
    """Another map of one value: two results are at most ``constant`` times as far apart as their inputs, in the 2-norm.

    Only programs lowered with ``smooth=True`` have such steps, and they are not piecewise linear. ``apply`` gives the
    result and a bound on how far all of it is from the exact one, in the 2-norm.
    """

    apply: Callable[[Tensor], tuple[Tensor, float]]
    constant: float

    def __call__(self, x: Tensor) -> Tensor:
        return self.apply(x)[0]


Op = Affine | Sum | Concat | Kink | Maximum | Smooth


@dataclass(frozen=True)
class Step:
    """``output`` = op(``inputs``), values being numbered; ``path`` is the module it comes from.

    ``frees`` are the values no later step reads. ``shape`` is that of the output without the batch.
    """

    op: Op
    inputs: tuple[int, ...]
    output: int
    path: str
    shape: tuple[int, ...]
    frees: tuple[int, ...] = ()


Look = Callable[[Step, list[Tensor]], None]


@dataclass(frozen=True)
class Program:
    """The network, step by step. Value 0 is the input, of ``shape`` without the batch; ``output`` is the result's."""

    steps: tuple[Step, ...]
    output: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def __call__(self, x: Tensor, look: Look | None = None) -> Tensor:
        """The network's own answer, computed step by step. Costs what a forward pass of the network costs.

        ``look(step, inputs)`` is called before every step.
        """

        def apply(step: Step, inputs: list[Tensor]) -> Tensor:
            if look is not None:
                look(step, inputs)
            return evaluate(step.op, *inputs)

        return follow(self.steps, {0: x}, apply)[self.output]

    def to(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Program:
        """The same program with its constants in another precision or place."""

        def move(t: Tensor) -> Tensor:
            return t.to(device=device or t.device, dtype=(dtype or t.dtype) if t.is_floating_point() else t.dtype)

        steps = tuple(
            replace(step, op=step.op.map_tensors(move)) if isinstance(step.op, Affine | Kink) else step
            for step in self.steps
        )
        return replace(
            self, steps=steps, dtype=dtype or self.dtype, device=torch.device(device) if device else self.device
        )

    def width(self) -> int:
        """Numbers that are alive at once for one row, at most."""
        sizes = {0: math.prod(self.shape)}
        most = sizes[0]
        for step in self.steps:
            sizes[step.output] = math.prod(step.shape)
            most = max(most, sum(sizes.values()))
            for i in step.frees:
                del sizes[i]
        return most

    def kinks(self) -> Iterator[Step]:
        """The steps that bend: kinks and maxima, in order."""
        return (step for step in self.steps if isinstance(step.op, Kink | Maximum))


def follow(steps: Iterable[Step], live: dict[int, V], apply: Callable[[Step, list[V]], V]) -> dict[int, V]:
    """Values of any kind through steps, each by ``apply(step, inputs)``; ``live`` are those there are, then those left."""
    for step in steps:
        live[step.output] = apply(step, [live[i] for i in step.inputs])
        for i in step.frees:
            del live[i]
    return live


def evaluate(op: Op, *values: Tensor) -> Tensor:
    """One step on plain tensors."""
    if isinstance(op, Sum):
        return torch.add(values[0], values[1], alpha=op.factor)
    if isinstance(op, Concat):
        return torch.cat(values, dim=op.dim)
    if isinstance(op, Maximum):
        return torch.maximum(*values)
    return op(values[0])


def bent(op: Kink | Maximum, *values: Tensor) -> Tensor:
    """What decides at a bend by its sign: the number itself, or of two the first minus the second."""
    return values[0] - values[1] if isinstance(op, Maximum) else values[0]


def side(op: Kink | Maximum, *values: Tensor) -> Tensor:
    """Which side of a bend is taken. Compared, not subtracted: of two numbers that differ, the difference may vanish."""
    return values[0] > (values[1] if isinstance(op, Maximum) else 0)


def held(op: Kink | Maximum, side: Tensor, *values: Tensor) -> Tensor:
    """A bend as if it were on this side everywhere: affine."""
    return torch.where(side, values[0], values[1] if isinstance(op, Maximum) else values[0] * op.slope)


def _moved(step: Affine, move: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    return {name: move(value) for name, value in vars(step).items() if isinstance(value, Tensor)}
