"""What a network can say anywhere on a simplex: bounds that hold with every rounding error counted.

A value is known between two functions that are affine on the simplex: for barycentric coordinates lam,
``sum_i lam_i low_i <= value <= sum_i lam_i high_i``. Each step of the program has one rule, applied to many simplices
at once. Tensors are ``(vertices * simplices, ...)``, the simplices of the first vertex in front.

Note [Bounds]
~~~~~~~~~~~~~
Write L, U for the two affine functions of lam, L_i, U_i for their values at the vertices, and x(lam) for the value.

1. *Kinks and maxima are exact in floating point.* For a convex function p, p(x) <= max(p(L), p(U)), which is convex in
   lam and so at most the affine function through its values at the vertices. From below, p(x) >= a x for every
   slope a between p's two, and a x >= a L (a >= 0) or a U (a < 0). For ReLU: high_i = relu(U_i) and low_i = a L_i with
   a in {0, 1}; nothing is rounded. Likewise max(x, z) <= max(U^x, U^z), convex, and >= L^x as well as >= L^z.
   A concave kink (slope > 1) is the mirror image. Any choice of a is sound; we take the one with the smaller mean gap.

2. *Affine steps round.* n = ``terms`` bounds the roundings on the way of one output, in any order. With unit roundoff u,
   gamma_n = n u / (1 - n u), the computed value of W z + b is off by at most gamma_n (|W||z| + |b|) [Higham, 2002,
   (3.5) and Lemma 8.4]; stored constants that are themselves rounded count as further roundings. At a vertex let
   c = fl((L + U) / 2) and rho = (U - L) / 2, so |x - c| <= rho + u |c|. Our own arithmetic has u; the deployed network
   has v (2^-24 for the promise ``float32``, 0 for ``real``). Around c' = fl(W c + b) there lie

       the real step           |W| (rho + u |c|)
       our rounding of c'      gamma_{n+1}(u) (|W||c| + B)
       the deployed rounding   gamma_{n+2}(v) (|W| (|c| + rho + u |c|) + B)
       c' - R, c' + R rounded  u (|c'| + R),   |c'| <= (1 + gamma_{n+1}(u)) (|W||c| + B)

   with B the ``bias_size``. Since gamma_{n+6} >= gamma_{n+2} + 3 u, all of it is within

       R = h (|W| ((1 + g) rho + g |c|) + g B),    g = gamma_{n+6}(u) + gamma_{n+6}(v),

   where h >= (1 + 2u) / (1 - gamma_{n+10}(u)) makes up for rounding R itself: U - L, two products, a sum, the n + 1
   roundings of the product with |W| and the sum with g B only have non-negative terms, so they lose at most the factor
   1 - gamma_{n+10}(u). The deployed bound uses |x(lam)| <= sum_i lam_i (|c_i| + rho_i + u |c_i|), again affine.

3. *Underflow* costs at most ``tiny`` (the smallest normal number) for each of n products and for each entry of c and of
   the argument of |W|: 4 tiny (|W| 1 + n) is added. Where a *factor* (a weight, a scale) underflows, arithmetic in that
   precision proves nothing (:meth:`Bounds.fits`). Subnormal weights that the processor flushes are not covered.

4. *Overflow* is excluded beforehand: |L_i|, |U_i| <= M gives |c| + rho <= M and at most (|W| 1) M + B after an affine
   step, up to the factors h (1 + g); sums on the way stay below 16 times that. Where this recursion leaves the range
   of our arithmetic, or of float32 for the promise ``float32``, nothing is ever certified (:meth:`Bounds.fits`).
   Weights that are not finite end the same way.

5. *Inputs.* Points are exact for ``real`` (up to u |p| where they are cast). Deployed inputs are computed. With
   P = sum_k |p_k|, sum_k lam_k p_k from weights that were divided by their sum, or p_0 + sum_k lam_k (p_k - p_0), is
   right up to gamma_{2K+10}(v) P, but no better where the points cancel and the result is small.

6. *Interpolation.* Before the first bend the value is affine on the whole simplex: sub-simplices with vertices Lam get
   fl(Lam C) +- R with R = max_i rho_i + gamma_{K+8}(u) max_k |C_k|, because every row of Lam is a convex combination
   of the C_k. Coordinates are multiples of 2^-24 (float32) or 2^-50 (float64) and sum to 1 exactly: an edge is cut at
   its middle, 18 times at most in float32 and 48 in float64. Cut anywhere, coordinates are rounded; they are sums of
   products of what is not negative, so after m roundings the vertex meant is within gamma_m(u) max_k |C_k| of the one
   computed, and K + 8 becomes K + 8 + m.

7. *Margins.* f_y - f_c is one affine step with matrix W_y - W_c, so the two logits' common part does not count. Deployed,
   each logit is rounded on its own: gamma(v) is measured by |W_y| + |W_c|. Strictly positive lower bounds at all
   vertices prove class y; a tie never does.

Not covered by ``float32``: algorithms that are not sums of products in some order (Winograd, FFT), TF32, bfloat16.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from neuronal.certify.certificate import Promise
from neuronal.geometry.program import (
    Affine,
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
    follow,
)

OWN = 2.0**-53  # unit roundoff of float64, in which all proofs are computed or checked
UNIT = {torch.float32: 2.0**-24, torch.float64: OWN}


def gamma(n: int, u: float) -> float:
    """What n roundings can do, relative: n u / (1 - n u). Infinite where the bound says nothing."""
    return n * u / (1 - n * u) if n * u < 0.1 else math.inf


def is_plain_float32() -> bool:
    """Whether float32 products on the CPU are sums of float32 products: no setting shortens them."""
    backend = torch.backends.mkldnn
    settings = [getattr(part, "fp32_precision", "ieee") for part in (torch.backends, backend)]
    settings += [getattr(getattr(backend, name, None), "fp32_precision", "ieee") for name in ("conv", "matmul")]
    mode = os.environ.get("ONEDNN_DEFAULT_FPMATH_MODE", "STRICT")
    return (
        torch.get_float32_matmul_precision() == "highest"
        and all(setting in ("none", "ieee") for setting in settings)
        and mode.upper() == "STRICT"
    )


@contextmanager
def plain_arithmetic(device: torch.device) -> Iterator[None]:
    """Inside: no gradients, no automatic casts, no Winograd convolutions (NNPACK has them)."""
    with (
        torch.no_grad(),
        torch.autocast(device.type, enabled=False),
        torch.backends.nnpack.flags(enabled=False),
    ):
        yield


@dataclass(frozen=True)
class Band:
    """A value between two affine functions on each simplex, by their values at the vertices."""

    low: Tensor
    high: Tensor


@dataclass(frozen=True)
class Images:
    """Whole simplices after the steps before the first bend: ``centre`` (vertices, simplices, ...) and ``radius``."""

    centre: Tensor
    radius: Tensor


@dataclass(frozen=True)
class Rounding:
    """The constants of one affine step in Note [Bounds]: ``keep`` and ``share`` of R, the rest of it, and |W| 1."""

    keep: float
    share: float
    floor: Tensor
    row_sum: float
    bias: float


class Bounds:
    """The rules of Note [Bounds] for one program, in arithmetic of one precision.

    Args:
        program: From ``geometry.lowering.lower``, with constants in float64.
        dtype: Of the bounds' own arithmetic, float32 (fast) or float64 (tight).
        promise: Which network the bounds are for.
        spare: How often each rounding is counted: more than once where whoever checks a bound may count more than there
            are.
    """

    def __init__(self, program: Program, *, dtype: torch.dtype, promise: Promise, spare: float = 1.0):
        self.dtype, self.promise = dtype, promise
        self.u, self.v = spare * UNIT[dtype], spare * UNIT[torch.float32] if promise == "float32" else 0.0
        self.tiny = max(torch.finfo(dtype).tiny, torch.finfo(torch.float32).tiny if self.v else 0.0)
        self.program = program.to(dtype)
        self.steps = self.program.steps
        last = program.steps[-1]
        assert last.output == program.output
        self.head = last.op if isinstance(last.op, Dense) and len(last.shape) == 1 else None
        self.bends = next((i for i, s in enumerate(self.steps) if isinstance(s.op, Kink | Maximum)), len(self.steps))
        self.bends = min(self.bends, len(self.steps) - (self.head is not None))
        self.end = len(self.steps) - (self.head is not None)
        shapes = {0: program.shape} | {step.output: step.shape for step in self.steps}
        self.rounding = {
            step.output: self._rounding(step.op, shapes[step.inputs[0]])
            for step in program.steps
            if isinstance(step.op, Affine) and step.op.terms
        }
        self.is_faithful = all(_is_rounded(_factors(step.op), dtype) for step in program.steps)

    def _rounding(self, op: Affine, shape: tuple[int, ...]) -> Rounding:
        n = op.terms
        g, h = gamma(n + 6, self.u) + gamma(n + 6, self.v), 1 + 2 * gamma(n + 12, self.u)
        ones = torch.ones(1, *shape, dtype=torch.float64, device=self.program.device)
        row_sum, bias = op.absolute(ones), op.bias_size()
        if isinstance(op, Convolution):
            row_sum = row_sum.amax(dim=tuple(range(2, row_sum.dim())), keepdim=True)
        floor = 4 * self.tiny * (row_sum + n)
        if bias is not None:
            floor = floor + g * bias
        size = 0.0 if bias is None else bias.max().item()
        return Rounding(h * (1 + g) / 2, h * g, (h * floor).to(self.dtype), row_sum.max().item() * 1.01, size)

    def fits(self, size: float) -> bool:
        """Whether no value can overflow for inputs of at most this size, and no factor underflows; Note [Bounds], 3, 4."""
        limit = torch.finfo(torch.float32 if self.v else self.dtype).max / 16
        sizes = {0: size * 1.01}
        for step in self.steps:
            inputs = [sizes[i] for i in step.inputs]
            sizes[step.output] = self._size(step, inputs)
            if not sizes[step.output] < limit:
                return False
        return size < limit and self.is_faithful

    def _size(self, step: Step, inputs: list[float]) -> float:
        op = step.op
        if isinstance(op, Affine) and op.terms:
            rule = self.rounding[step.output]
            two = 2.0 if step is self.steps[-1] else 1.0  # a margin has two logits
            return two * (2 * rule.keep + rule.share) * (rule.row_sum * inputs[0] + 1.01 * rule.bias)
        if isinstance(op, Sum):
            return 1.01 * (inputs[0] + abs(op.factor) * inputs[1])
        if isinstance(op, Kink):
            return 1.01 * inputs[0] * max(1.0, op.slope.abs().max().item())
        return max(inputs)

    def images(self, points: Tensor, *, roundings: int = 0) -> dict[int, Images]:
        """The values needed from the first bend on, of simplices with ``points`` (simplices, vertices, ...).

        ``roundings`` are those that coordinates of sub-simplices have behind them; Note [Bounds], 6.
        """
        points = points.transpose(0, 1).double()
        count, size = len(points), points.shape[1]
        given = points.to(self.dtype)
        off = 2 * self.u * points.abs() * (given.double() != points)
        if self.v:
            off = off + 1.01 * gamma(2 * count + 8, self.v) * points.abs().sum(0)
        off = (off * (1 + 4 * self.u)).to(self.dtype)
        off = off * (1 + 4 * self.u) + 4 * self.u * given.abs() * (off > 0)
        live = {0: Band((given - off).flatten(0, 1), (given + off).flatten(0, 1))}
        follow(self.steps[: self.bends], live, lambda step, bands: self._apply(step, bands, count))
        return {i: self._image(band, count, size, roundings) for i, band in live.items()}

    def _image(self, band: Band, vertices: int, simplices: int, roundings: int) -> Images:
        shape = (vertices, simplices, *band.low.shape[1:])
        centre = (band.low + band.high).mul_(0.5).view(shape)
        radius = (band.high - band.low).mul_(0.5).view(shape).amax(0)
        radius += gamma(vertices + 8 + roundings, self.u) * 1.01 * centre.abs().amax(0)
        return Images(centre, radius * (1 + 8 * self.u) + 4 * self.tiny)

    def margins(self, images: dict[int, Images], rows: Tensor, corners: Tensor, classes: Tensor) -> Tensor:
        """A lower bound of f_y - f_c over all other classes c and all points of each sub-simplex.

        Args:
            images: Of the simplices.
            rows: For each sub-simplex, the simplex it is part of.
            corners: Barycentric coordinates of its vertices, (sub-simplices, vertices, vertices of the simplex).
            classes: For each sub-simplex, the class y.
        """
        vertices = corners.shape[1]
        weights = corners.to(self.dtype).permute(1, 2, 0)
        live = {i: self._part(image, rows, weights) for i, image in images.items()}
        follow(self.steps[self.bends : self.end], live, lambda step, bands: self._apply(step, bands, vertices))
        if self.head is not None:
            low = self._head_margins(live[self.steps[-1].inputs[0]], classes, vertices)
        else:
            low = self._plain_margins(live[self.program.output], classes, vertices)
        return low.view(vertices, len(rows), -1).amin(dim=(0, 2))

    def _part(self, image: Images, rows: Tensor, weights: Tensor) -> Band:
        ends = image.centre[:, rows]
        radius = image.radius[rows]
        vertices, _, simplices = weights.shape
        weights = weights.view(*weights.shape, *[1] * (ends.dim() - 2))
        centre = torch.stack([w[0] * ends[0] for w in weights])
        for k in range(1, len(ends)):
            for vertex, w in zip(centre, weights, strict=True):
                vertex.addcmul_(w[k], ends[k])
        shape = (vertices * simplices, *ends.shape[2:])
        return Band((centre - radius).view(shape), (centre + radius).view(shape))

    def _apply(self, step: Step, bands: list[Band], vertices: int) -> Band:
        op, band = step.op, bands[0]
        if isinstance(op, Copy):
            return Band(op.linear(band.low), op.linear(band.high))
        if isinstance(op, Affine):
            return self._affine(op, band, step.output)
        if isinstance(op, Kink):
            return relu(band, vertices) if op.is_relu else self._kink(op, band, vertices)
        if isinstance(op, Maximum):
            return maximum(band, bands[1], vertices)
        if isinstance(op, Concat):
            return Band(torch.cat([b.low for b in bands], op.dim), torch.cat([b.high for b in bands], op.dim))
        assert isinstance(op, Sum)
        return self._sum(op, band, bands[1])

    def _affine(self, op: Affine, band: Band, output: int) -> Band:
        if not op.terms:
            one, other = op(band.low), op(band.high)
            return Band(torch.minimum(one, other), torch.maximum(one, other))
        rule = self.rounding[output]
        centre = (band.low + band.high).mul_(0.5)
        radius = (band.high - band.low).mul_(rule.keep).add_(centre.abs(), alpha=rule.share)
        centre = op(centre)
        radius = op.absolute(radius).add_(rule.floor)
        return Band(centre - radius, centre + radius)

    def _kink(self, op: Kink, band: Band, vertices: int) -> Band:
        s = op.slope
        one, other = op(band.low), op(band.high)
        chord_high, chord_low = torch.maximum(one, other), torch.minimum(one, other)
        rising = _mean_sign(band, vertices)
        # The line below a convex kink, or above a concave one, follows one of the two branches.
        line = torch.where(rising, torch.ones_like(s), s)
        below = torch.minimum(line * band.low, line * band.high)
        above = torch.maximum(line * band.low, line * band.high)
        low, high = torch.where(s <= 1, below, chord_low), torch.where(s <= 1, chord_high, above)
        if op.is_exact:
            return Band(low, high)
        size = torch.maximum(band.low.abs(), band.high.abs()) * s.abs().clamp(min=1.0)
        off = size * (2 * (gamma(6, self.u) + gamma(6, self.v))) + 4 * self.tiny
        return Band(low - off, high + off)

    def _sum(self, op: Sum, one: Band, other: Band) -> Band:
        f = op.factor
        a, b = (other.low, other.high) if f >= 0 else (other.high, other.low)
        g = 2 * (gamma(8, self.u) + gamma(8, self.v))
        size = torch.maximum(one.low.abs(), one.high.abs()) + abs(f) * torch.maximum(a.abs(), b.abs())
        off = size * g + 4 * self.tiny
        return Band(torch.add(one.low, a, alpha=f) - off, torch.add(one.high, b, alpha=f) + off)

    def _head_margins(self, band: Band, classes: Tensor, vertices: int) -> Tensor:
        head, rule = self.head, self.rounding[self.steps[-1].output]
        assert head is not None
        centre = (band.low + band.high).mul_(0.5)
        radius = (band.high - band.low).mul_(rule.keep).add_(centre.abs(), alpha=rule.share)
        every = classes.repeat(vertices)
        result = torch.empty(len(every), len(head.weight) - 1, dtype=self.dtype, device=centre.device)
        for y in classes.unique().tolist():
            rows = every == y
            others = [c for c in range(len(head.weight)) if c != y]
            result[rows] = self._class_margins(head, rule, y, others, centre[rows], radius[rows])
        return result

    def _class_margins(
        self, head: Dense, rule: Rounding, y: int, others: list[int], centre: Tensor, radius: Tensor
    ) -> Tensor:
        gap = head.weight[y] - head.weight[others]
        size = head.weight[y].abs() + head.weight[others].abs()
        shift, floor = torch.zeros(len(others), dtype=torch.float64, device=gap.device), rule.floor.double().max() * 2
        g, h = rule.share, 1 + 4 * gamma(head.terms + 12, self.u)
        if head.shift is not None:
            shift = head.shift[y] - head.shift[others]
            floor = floor + h * g * (head.shift[y].abs() + head.shift[others].abs())
        low = centre @ gap.to(centre).T + shift.to(centre)
        low -= radius @ gap.abs().to(centre).T + floor.to(centre)
        if self.v:  # the deployed logits are rounded one by one
            low -= (centre.abs() * (h * g) + radius * (h * g)) @ size.to(centre).T
        return low - 4 * self.u * low.abs() if _is_rounded(gap, self.dtype) else torch.full_like(low, -math.inf)

    def _plain_margins(self, band: Band, classes: Tensor, vertices: int) -> Tensor:
        every = classes.repeat(vertices).unsqueeze(1)
        low = band.low.gather(1, every) - band.high
        low -= 4 * self.u * (band.low.abs().gather(1, every) + band.high.abs()) + 4 * self.tiny
        return low.scatter(1, every, math.inf)


def _factors(op: Op) -> Tensor:
    """What a step multiplies by, where an error is not counted against what comes in."""
    if isinstance(op, Dense | Convolution):
        return op.weight
    return (
        op.scale
        if isinstance(op, Scale)
        else torch.tensor(op.factor if isinstance(op, Sum) else 0.0, dtype=torch.float64)
    )


def _is_rounded(factors: Tensor, dtype: torch.dtype) -> bool:
    """Whether each factor is at most one rounding away in this precision, which it is not if it underflows."""
    return not bool(((factors.to(dtype).double() - factors).abs() > UNIT[dtype] * factors.abs()).any())


def _mean_sign(band: Band, vertices: int) -> Tensor:
    """Whether the value is positive on average over each simplex, for every vertex of it."""
    low, high = (t.view(vertices, -1, *t.shape[1:]) for t in (band.low, band.high))
    return ((low + high).sum(0) > 0).repeat(vertices, *[1] * (band.low.dim() - 1))


def relu(band: Band, vertices: int) -> Band:
    """Between a chord and one of the two branches; see Note [Bounds], 1."""
    low = band.low.view(vertices, -1, *band.low.shape[1:])
    low = torch.where(low.sum(0) > 0, low, 0.0)
    return Band(low.view(band.low.shape), band.high.relu())


def maximum(one: Band, other: Band, vertices: int) -> Band:
    """Below the chord of the maximum, above the side that is larger on average; see Note [Bounds], 1."""
    a, b = (t.reshape(vertices, -1, *t.shape[1:]) for t in (one.low, other.low))
    low = torch.where(a.sum(0) > b.sum(0), a, b)
    return Band(low.view(one.low.shape), torch.maximum(one.high, other.high))
