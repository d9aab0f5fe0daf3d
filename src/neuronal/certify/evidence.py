"""What the certificates of each kind hold for ``check``: records, without the code that makes or verifies them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

from torch import Tensor

from neuronal.certify.certificate import REMARK, Certificate, Verdict

Norm = Literal[2, "inf"]


@dataclass(frozen=True, eq=False)
class SegmentEvidence:
    r"""What was found on the segment :math:`(1 - t)\, a + t\, b`.

    Attributes:
        a: Its start, without a batch dimension.
        b: Its end.
        label: The class the model predicts at ``a``.
        intervals: Parts of [0, 1] on which this class is proved, (number, 2), in order; together all of it if certified.
        other: The class the model predicts at the witness, if refuted.
        t: Where the witness is.
        bounds: How many parts were looked at.
    """

    a: Tensor
    b: Tensor
    label: int
    intervals: Tensor
    other: int | None = None
    t: float | None = None
    bounds: int = field(default=0, metadata=REMARK)


class Cut(NamedTuple):
    """The k-th cut of a part: ``node`` is cut at (1 - t) v_i + t v_j, which makes the nodes 2 k + 1 and 2 k + 2.

    The first has the new vertex in place of v_i, the second in place of v_j. Node 0 is the part itself.
    """

    node: int
    i: int
    j: int
    t: float


@dataclass(frozen=True, eq=False)
class HullEvidence:
    """What was found on the convex hull.

    Attributes:
        points: The inputs, one row each.
        label: The class the model predicts at the first.
        parts: Sub-simplices on which this class is proved, by the weights of the inputs at their vertices:
            (number, vertices, inputs). Together they are everything if certified.
        cuts: For each part how it was cut further, where the network bends, and every node left is proved; none if the
            part is proved as it is.
        other: The class the model predicts at the witness, if refuted.
        where: The weights of the inputs at the witness.
        bounds: How many parts were looked at.
    """

    points: Tensor
    label: int
    parts: Tensor
    cuts: tuple[tuple[Cut, ...], ...] = ()
    other: int | None = None
    where: Tensor | None = None
    bounds: int = field(default=0, metadata=REMARK)


@dataclass(frozen=True, eq=False)
class ConeEvidence:
    """A cone is the hull and all its multiples: ``hull`` proves the one, ``scaling`` that multiples change nothing."""

    hull: Certificate
    scaling: Certificate


@dataclass(frozen=True, eq=False)
class BallEvidence:
    """What was found around the input.

    Attributes:
        x: The input, without a batch dimension.
        label: The class the model predicts there.
        norm: Of the ball.
        radius: Proved: every input closer than or at this distance has the class ``label``.
        region: Proved: within this distance the network is affine, and the class is the same.
        slopes: Of the line below each unit, one tensor for each layer of ReLUs; with these the radius is proved. Any slopes
            prove something that holds. Empty where the usual ones do.
        region_only: Distance to the nearest kink or change of a pool's winner, up to rounding; not a bound by itself.
        margin_only: Distance to the nearest other class of the affine map around ``x``, up to rounding.
    """

    x: Tensor
    label: int
    norm: Norm
    radius: float
    region: float
    slopes: tuple[Tensor, ...]
    region_only: float = field(metadata=REMARK)
    margin_only: float = field(metadata=REMARK)


@dataclass(frozen=True, eq=False)
class LipschitzBall:
    """Evidence for a ball of one class: logits at ``x``, and how far they may be off."""

    x: Tensor
    label: int
    norm: int
    radius: float
    margin: float = field(metadata=REMARK)
    error: float = field(metadata=REMARK)


@dataclass(frozen=True)
class Degree:
    """An operation that depends on the input, and the degree of its result."""

    path: str
    operation: str
    degree: Fraction


@dataclass(frozen=True)
class Break:
    """A module that breaks a promise, such as one without a degree: where, which, why, and what would repair it."""

    path: str
    module: str
    reason: str
    repair: str

    def __str__(self) -> str:
        place = f"{self.module} at '{self.path}'" if self.path else self.module
        return f"{place} {self.reason}" + (f": {self.repair}" if self.repair else "")


@dataclass(frozen=True)
class Scaling:
    """Evidence about scaling.

    Attributes:
        degree: d in f(s x) = s^d f(x); None when there is none.
        shape: Of one input; the proof is about inputs of this shape.
        steps: Every operation with its degree, in order. Behind a break, degrees are those of the repaired network.
        breaks: What has no degree, with reason and repair, in order.
        zeros: Modules that fit only because some of their constants are exactly zero now, such as a bias that training
            would move. Not part of the structure.
        scale: For a refuted statement: the s at which the witness shows it.
        deviation: How far f(s x) is then from every multiple of f(x) a degree allows, relative to its size.
    """

    degree: Fraction | None
    shape: tuple[int, ...]
    steps: tuple[Degree, ...] = field(default=(), metadata=REMARK)
    breaks: tuple[Break, ...] = field(default=(), metadata=REMARK)
    zeros: tuple[str, ...] = field(default=(), metadata=REMARK)
    scale: float | None = None
    deviation: float | None = field(default=None, metadata=REMARK)


@dataclass(frozen=True, eq=False)
class LayerActivity:
    """What is known of one layer, or of one ReLU of a network.

    Attributes:
        path: Of the layer inside the model; '' for the layer itself.
        units: How many; channels of a convolution.
        verdict: As in a certificate.
        reason: How it was shown, or why not.
        by: ``construction`` (a Farkas layer: in real numbers the last row is exactly minus the sum of the others),
            ``rationals`` (multipliers that cancel the weights exactly), ``box`` (multipliers, on the box), ``interval``
            (one unit is always active), or ''.
        multipliers: One per unit, not negative. In rationals where they have to be exact.
        margin: The largest unit exceeds the cutoff by at least this.
        low, high: The box of the layer's inputs, one number per column of its matrix; None for everywhere.
        cutoff: Units count as active above it.
        radius: Largest |x| (in any coordinate) up to which the multipliers hold for the rounded weights too.
        dead_on_box: Units that no input of the box makes active; None where there is no box.
        dead_on_data: Units that no input of the data makes active; None where there are no data.
    """

    path: str = field(metadata=REMARK)
    units: int
    verdict: Verdict
    reason: str = field(metadata=REMARK)
    by: str = ""
    multipliers: Tensor | tuple[Fraction, ...] | None = None
    margin: float | None = field(default=None, metadata=REMARK)
    low: Tensor | None = None
    high: Tensor | None = None
    cutoff: float = 0.0
    radius: float | None = field(default=None, metadata=REMARK)
    dead_on_box: tuple[int, ...] | None = None
    dead_on_data: tuple[int, ...] | None = field(default=None, metadata=REMARK)


@dataclass(frozen=True, eq=False)
class NetworkActivity:
    """One record per ReLU, in the order they run; ``low`` and ``high`` are the box of the network's input."""

    layers: tuple[LayerActivity, ...]
    low: Tensor
    high: Tensor
