"""The affine map a network equals around an input: every bend held on the side it is on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from neuronal.geometry.lowering import lower
from neuronal.geometry.program import Affine, Kink, Maximum, Program, Step, bent, evaluate, follow, held, side


@dataclass(frozen=True, eq=False)
class AffineMap:
    r""":math:`y = W x + b`, one map for each of several inputs; the network itself in the linear region of each.

    Attributes:
        weight: :math:`W`, ``(inputs, *output shape, *input shape)``.
        bias: :math:`b`, ``(inputs, *output shape)``.
    """

    weight: Tensor
    bias: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Each map at its own row of ``x``."""
        x = x.to(self.weight).flatten(1)
        weight = self.weight.view(*self.bias.shape, -1).flatten(1, -2)
        return torch.baddbmm(self.bias.flatten(1).unsqueeze(2), weight, x.unsqueeze(2)).view(self.bias.shape)


def affine_map(model: nn.Module, x: Tensor) -> AffineMap:
    """The affine map ``model`` equals around each row of ``x``, in float64.

    On a boundary between regions it is that of the side the pattern names: off at exactly zero, and of two equal
    numbers in a pool the second. Costs one backward pass for every output and holds one map for each row.

    Law:
        Equal patterns, equal maps (tests/geometry/test_pattern.py).
    """
    program = lower(model, x)
    region = region_of(program, x.detach().to(program.device, torch.float64))
    zero = torch.zeros(len(x), *program.shape, dtype=torch.float64, device=program.device)
    with torch.enable_grad():
        v = zero.clone().requires_grad_()
        y = region.linear(v).flatten(1)
        rows = [torch.autograd.grad(y[:, i].sum(), v, retain_graph=True)[0] for i in range(y.shape[1])]
    bias = region(zero)
    return AffineMap(torch.stack(rows, 1).view(*bias.shape, *program.shape), bias)


@dataclass(frozen=True, eq=False)
class Region:
    """The network with its bends frozen on the sides ``signs`` says, a batch of booleans for each bend in order."""

    program: Program
    signs: tuple[Tensor, ...]

    def __call__(self, x: Tensor, look: Callable[[Tensor], None] | None = None) -> Tensor:
        """The affine map of each row's region at the same row of ``x``."""
        return self._walk(x, evaluate, look)

    def linear(self, v: Tensor, look: Callable[[Tensor], None] | None = None) -> Tensor:
        """Its linear part. ``look(z)`` is called at every bend with what decides there."""
        return self._walk(v, lambda op, x: op.linear(x), look)

    def row(self, i: int) -> Region:
        """The region of one row, for any number of points."""
        return Region(self.program, tuple(sign[i : i + 1] for sign in self.signs))

    def _walk(
        self, x: Tensor, affine: Callable[[Affine, Tensor], Tensor], look: Callable[[Tensor], None] | None
    ) -> Tensor:
        signs = iter(self.signs)

        def apply(step: Step, inputs: list[Tensor]) -> Tensor:
            if isinstance(step.op, Kink | Maximum):
                if look is not None:
                    look(bent(step.op, *inputs))
                return held(step.op, next(signs), *inputs)
            return affine(step.op, inputs[0]) if isinstance(step.op, Affine) else evaluate(step.op, *inputs)

        return follow(self.program.steps, {0: x}, apply)[self.program.output]


def region_of(program: Program, x: Tensor) -> Region:
    """The linear region of each row of ``x``; a forward pass."""
    signs: list[Tensor] = []

    def look(step: Step, inputs: list[Tensor]) -> None:
        if isinstance(step.op, Kink | Maximum):
            signs.append(side(step.op, *inputs))

    with torch.no_grad():
        program(x, look)
    return Region(program, tuple(signs))
