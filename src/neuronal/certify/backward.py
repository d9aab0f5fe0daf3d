"""Linear bounds carried backwards, from a value of a program to its input: CROWN's, with every rounding error counted.

Note [Backward]
~~~~~~~~~~~~~~~
Wanted is a lower bound of sum_k Lam_k v_k over the ball, v_k the values of the network that is meant (as computed in
float32, for that promise). Walking the steps backwards, each value is replaced by what bounds it from the side that the sign
of its coefficient asks for, until only the input is left, of which Lam x >= Lam x0 - radius |Lam|_dual.

1. *Any coefficients do.* What is computed for the inputs of a step, C, is right up to its rounding, and (Lam W - C) v is
   at most gamma_m(u) |Lam| |W| |v|, m the number of outputs, because each C_j is a sum of at most m products. So with
   A >= |v| known from the pass forwards, all of our rounding at one step costs at most gamma |Lam| (|W| A + |b|), and the
   deployed network's own costs gamma_n(v) |Lam| (|W| A + |b|): one vector of errors per step, ``errors``, whose product
   with |Lam| is taken off. gamma_M with M = 2 m + 2 n + 64 also covers the products with b and with the errors themselves.

2. *Bends.* kink(x) - p x is linear on both sides of 0, so on [l, u] it lies between its values at l, u and 0, for every
   slope p. Which p is chosen decides how tight a bound is, never whether it holds. Two lines b below and a above it are
   applied as (lam (b + a) + |lam| (b - a)) / 2. Slopes are at most 1 + |slope| and shifts at most 2 (1 + |slope|) A, so
   the roundings of these sums and of their products with lam cost at most (5 gamma_{m+4}(u) + 8 u) (1 + |slope|) A |lam|,
   less than the 8 gamma_{2m+64}(u) that ``errors`` has for a bend.

3. *Values that several steps read* have the sum of their coefficients, each addition right up to u |sum|: 2 u |sum| A.
   A copy that reads no number twice moves coefficients and rounds nothing else.

4. *Underflow* costs at most the smallest normal number for each product: (m + 1) of these for each number of the input of a
   step, times A. What overflows ends as no bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import grad

from neuronal.certify.bounds import OWN, Bounds, gamma
from neuronal.geometry.program import (
    Affine,
    Concat,
    Convolution,
    Copy,
    Dense,
    Kink,
    Maximum,
    Scale,
    Step,
    Sum,
    evaluate,
)

TRANSPOSED = {3: grad.conv1d_input, 4: grad.conv2d_input, 5: grad.conv3d_input}
COUNTED = 8 * OWN  # for each of our roundings, so that a checker that counts more of them proves the same
NORMAL = torch.finfo(torch.float64).tiny


@dataclass(frozen=True)
class Lines:
    """below[0] x + below[1] <= kink(x) <= above[0] x + above[1] wherever x may be."""

    below: tuple[Tensor, Tensor]
    above: tuple[Tensor, Tensor]


def lines(slope: Tensor, low: Tensor, high: Tensor, chosen: Tensor | None = None) -> Lines:
    """The chord, and on the other side of a kink the line with slope ``chosen``, or the branch that is longer."""
    at_low, at_high = torch.where(low > 0, low, slope * low), torch.where(high > 0, high, slope * high)
    on, off = low >= 0, high <= 0
    chord = (at_high - at_low) / torch.where(on | off, 1.0, high - low)
    branch = torch.where(high > -low, 1.0, slope)
    if chosen is not None:
        branch = torch.minimum(torch.maximum(chosen, slope.clamp(max=1)), slope.clamp(min=1))
    size = (low.abs() + high.abs()) * (1 + slope.abs())

    def touching(p: Tensor, *, is_above: bool) -> tuple[Tensor, Tensor]:
        fixed = p.detach()
        one, other, pad = at_low - fixed * low, at_high - fixed * high, 16 * OWN * size * (1 + fixed.abs())
        shift = (
            torch.maximum(one, other).clamp(min=0) + pad if is_above else torch.minimum(one, other).clamp(max=0) - pad
        )
        return torch.where(on, 1.0, torch.where(off, slope, p)), torch.where(on | off, 0.0, shift)

    is_convex = slope <= 1
    above = touching(torch.where(is_convex, chord, branch), is_above=True)
    return Lines(touching(torch.where(is_convex, branch, chord), is_above=False), above)


class Backward:
    """Bounds over one ball, from what a pass forwards has told so far; see Note [Backward].

    Args:
        bounds: The program, in float64, and its rounding.
        x: The middle.
        radius: Of the ball.
        is_box: Whether its norm is the largest entry, and not the 2-norm.
        places: Filled with what copies read, which is the same at every radius.
    """

    def __init__(self, bounds: Bounds, x: Tensor, radius: float, *, is_box: bool, places: dict[int, Places]):
        self.bounds, self.x, self.radius, self.is_box = bounds, x, radius, is_box
        self.steps: list[Step] = []
        self.shapes = {0: tuple(x.shape)}
        self.sizes = {0: (x.abs() + radius).unsqueeze(0) * (1 + 1e-9)}
        self.errors: dict[int, tuple[Tensor, float]] = {}
        self.ranges: dict[int, tuple[Tensor, Tensor]] = {}
        self.usual: dict[int, tuple[Tensor, Tensor, Tensor, Tensor]] = {}
        self.totals = {0: float(self.sizes[0].sum())}
        self.places = places

    def tell(self, step: Step, size: Tensor) -> None:
        """``step`` was made, and its result is at most ``size``. Ranges of a bend are told before."""
        self.steps.append(step)
        self.shapes[step.output] = tuple(step.shape)
        self.sizes[step.output] = size
        outputs = math.prod(step.shape)
        inputs = [self.sizes[i] for i in step.inputs]
        op, v = step.op, self.bounds.v
        whole = inputs[0] + inputs[1] if isinstance(op, Maximum) else size
        if isinstance(op, Affine):
            bias, rule = op.bias_size(), self.bounds.rounding.get(step.output)
            whole = op.absolute(inputs[0]) + (0.0 if bias is None else bias)
            error = (gamma(2 * outputs + 2 * op.terms + 64, COUNTED) + 1.01 * gamma(op.terms + 12, v)) * whole
            error = 1.01 * error + (0.0 if rule is None else rule.floor)
        elif isinstance(op, Kink):
            error = 8 * gamma(2 * outputs + 64, COUNTED) * (1 + op.slope.abs()) * inputs[0]
            if not op.is_exact:
                error = error + 2 * gamma(6, v) * op.slope.abs() * inputs[0] + 4 * self.bounds.tiny
        elif isinstance(op, Sum):
            both = inputs[0] + abs(op.factor) * inputs[1]
            error = (2 * gamma(2 * outputs + 64, COUNTED) + 2 * gamma(8, v)) * both + 4 * self.bounds.tiny
        else:
            error = 8 * gamma(2 * outputs + 64, COUNTED) * whole
        self.totals[step.output] = float(size.sum())
        lost = 4 * NORMAL * (outputs + 1) * (1 + sum(self.totals[i] for i in step.inputs))
        self.errors[step.output] = error, lost

    def lower(self, value: int, rows: Tensor, chosen: dict[int, Tensor] | None = None) -> Tensor:
        """Lower bounds of linear functions of a value, by their coefficients; minus infinity where there is none."""
        found, terms = {value: rows}, []
        made: set[int] = set()  # of the coefficients, those that nothing else can see
        for step in reversed(self.steps):
            lam = found.pop(step.output, None)
            if lam is None:
                continue
            if isinstance(step.op, Copy):
                terms += self._put_back(step, step.op, lam, found, made)
                continue
            if isinstance(step.op, Kink | Maximum):
                more, parts = self._straight(step, lam, (chosen or {}).get(step.output))
            else:
                more, parts = self._cost(step, lam), self._transposed(step, lam)
                bias = step.op.bias() if isinstance(step.op, Affine) else None
                more += [] if bias is None else [_dot(lam, bias)]
            terms += more
            for i, part in zip(step.inputs, parts, strict=True):
                if i in found:
                    found[i] = found[i] + part
                    terms.append(self._rounded_sum(i, found[i]))
                else:
                    found[i] = part
        assert found.keys() <= {0}
        for lam in found.values():
            terms += self._at_input(lam.flatten(1))
        every = torch.stack(terms)
        total = every.sum(0) - gamma(4 * len(every) + 16, OWN) * every.detach().abs().sum(0)
        return torch.where(total.isfinite(), total, -torch.inf)

    def _cost(self, step: Step, lam: Tensor) -> list[Tensor]:
        error, lost = self.errors[step.output]
        return [-_dot(lam.abs(), error) * (1 + 1e-9) - lost]

    def _rounded_sum(self, value: int, lam: Tensor) -> Tensor:
        return -2 * OWN * _dot(lam.abs(), self.sizes[value])

    def _at_input(self, lam: Tensor) -> list[Tensor]:
        x, n = self.x.flatten(), lam.shape[1]
        dual = lam.abs().sum(1) if self.is_box else lam.norm(dim=1) + 2.0**-510 * n**0.5
        off = gamma(2 * n + 16, OWN) * (lam.abs() @ x.abs()) + NORMAL * n
        return [lam @ x, -self.radius * dual * (1 + gamma(2 * n + 16, OWN)), -off]

    def _straight(self, step: Step, lam: Tensor, chosen: Tensor | None) -> tuple[list[Tensor], list[Tensor]]:
        """A bend's constants, and the coefficients of its inputs.

        With lam below + |lam| (below - above) / 2 as 2 lam middle = lam (below + above), two products do for both signs.
        """
        both = self.usual.get(step.output) if chosen is None else None
        if both is None:
            slope = step.op.slope if isinstance(step.op, Kink) else torch.zeros((), dtype=lam.dtype, device=lam.device)
            found = lines(slope, *self.ranges[step.output], chosen)
            error = self.errors[step.output][0] * (1 + 1e-9)
            line, shift = ((low + high) / 2 for low, high in zip(found.below, found.above, strict=True))
            half, gap = ((low - high) / 2 for low, high in zip(found.below, found.above, strict=True))
            both = line, half, shift, gap - error
            self.usual |= {step.output: both} if chosen is None else {}
        line, half, shift, gap = both
        size = lam.abs()
        part = (lam * line).addcmul_(size, half)
        terms = [_dot(lam, shift), _dot(size, gap) - self.errors[step.output][1]]
        parts = [part] if isinstance(step.op, Kink) else [part, lam - part]
        return terms, [p.sum_to_size(len(lam), *self.shapes[i]) for i, p in zip(step.inputs, parts, strict=True)]

    def _transposed(self, step: Step, lam: Tensor) -> list[Tensor]:
        """Coefficients of a linear step's output -> those of its inputs."""
        op, shapes = step.op, [self.shapes[i] for i in step.inputs]
        if isinstance(op, Dense):
            return [lam @ op.weight]
        if isinstance(op, Scale) and tuple(lam.shape[1:]) == shapes[0]:
            return [lam * op.scale]
        if isinstance(op, Convolution):
            size = (len(lam), *shapes[0])
            return [TRANSPOSED[lam.dim()](size, op.weight, lam, op.stride, op.padding, op.dilation, op.groups)]
        if isinstance(op, Sum) and shapes[0] == shapes[1]:
            return [lam, lam * op.factor]
        values = [torch.zeros(len(lam), *shape, dtype=lam.dtype, device=lam.device) for shape in shapes]
        assert isinstance(op, Affine | Sum | Concat)
        linear = op.linear if isinstance(op, Affine) else lambda *parts: evaluate(op, *parts)
        return list(torch.func.vjp(linear, *values)[1](lam))

    def _put_back(self, step: Step, op: Copy, lam: Tensor, found: dict[int, Tensor], made: set[int]) -> list[Tensor]:
        """Adds each coefficient where its number was copied from; what that costs."""
        [i] = step.inputs
        if step.output not in self.places:
            self.places[step.output] = places(op, self.shapes[i], self.x.device)
        kept, where, is_order, is_once = self.places[step.output]
        terms = [] if is_once else self._cost(step, lam)  # a number that is only moved is not rounded
        before = found.get(i)
        if before is None and is_order:
            found[i] = lam.reshape(len(lam), *self.shapes[i])
            return terms
        part = lam.flatten(1) if kept is None else lam.flatten(1)[:, kept]
        if before is None:
            found[i] = lam.new_zeros(len(lam), *self.shapes[i])
            made.add(i)
        if i in made and not torch.is_grad_enabled():
            found[i].flatten(1).index_add_(1, where, part)
        else:
            found[i] = found[i].flatten(1).index_add(1, where, part).view(found[i].shape)
        return terms if before is None else [*terms, self._rounded_sum(i, found[i])]


Places = tuple[Tensor | None, Tensor, bool, bool]


def places(op: Copy, shape: tuple[int, ...], device: torch.device) -> Places:
    """What a copy reads: which outputs are no zeros (None: all), from where, whether in order, whether each number once."""
    size = math.prod(shape)
    numbers = torch.arange(1, size + 1, device=device)  # 0 is read as zero
    read = op.linear(numbers.double().view(1, *shape)).flatten().long()
    kept = None if bool(read.all()) else read.nonzero().flatten()
    where = (read if kept is None else read[kept]) - 1
    return kept, where, torch.equal(read, numbers), len(where.unique()) == len(where)


def _dot(lam: Tensor, values: Tensor) -> Tensor:
    return lam.flatten(1) @ values.expand(1, *lam.shape[1:]).flatten()
