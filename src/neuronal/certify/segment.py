"""Is the predicted class the same on the whole segment between two inputs?"""

from __future__ import annotations

from time import monotonic

import torch
from torch import Tensor, nn

from neuronal.certify.bounds import plain_arithmetic
from neuronal.certify.branch import NEAR_TIE, Budget, Prover, Search, classes_of, classes_of_each, combine, search
from neuronal.certify.certificate import Certificate, Promise
from neuronal.certify.evidence import SegmentEvidence
from neuronal.certify.question import check_promise, checked, classifier, own_dtype
from neuronal.certify.statement import SEGMENT
from neuronal.geometry.lowering import NotPiecewiseLinear
from neuronal.geometry.segment import pieces

GRID = 2.0**50  # ends of intervals are multiples of 1 / GRID, so that t and 1 - t are both exact


def certify_segment(
    model: nn.Module, a: Tensor, b: Tensor, *, promise: Promise = "real", budget: Budget | None = None
) -> Certificate:
    """Is the predicted class the same on the whole segment from ``a`` to ``b``, one input each without a batch?

    See :func:`certify_segments`.
    """
    a, b = checked("a", a), checked("b", b)
    return certify_segments(model, a.unsqueeze(0), b.unsqueeze(0), promise=promise, budget=budget)[0]


def certify_segments(
    model: nn.Module, a: Tensor, b: Tensor, *, promise: Promise = "real", budget: Budget | None = None
) -> list[Certificate]:
    """For each row: is the predicted class the same on the whole segment from ``a[i]`` to ``b[i]``?

    Branch and bound decides nearly all segments of shallow networks; the rest is cut at the network's exact breakpoints,
    and every piece is proved by itself. A network with a part that is not piecewise linear gets ``unknown``.

    Args:
        model: Any network ``geometry.lower`` understands. It is run in evaluation mode and not changed.
        a: Starts, with a batch dimension.
        b: Ends.
        promise: Which network is meant; see ``PROMISES``. For ``float32``, inputs on the segment are those computed
            in float32 by any of the usual formulas.
        budget: Work allowed for each segment.

    Law:
        What is certified has no counterexample; what is refuted has one the model confirms
        (tests/certify/test_segment.py).
    """
    a, b = checked("a", a, dims=2), checked("b", b, dims=2)
    if a.shape != b.shape:
        raise ValueError(f"Both ends need one shape, got {tuple(a.shape)} and {tuple(b.shape)}.")
    check_promise(promise)
    budget = budget or Budget()
    try:
        program = classifier(model, a)
    except NotPiecewiseLinear as error:
        return [Certificate("segment", SEGMENT, "unknown", promise, str(error)) for _ in a]
    prover = Prover(program, own_dtype(model), promise)
    points = torch.stack([a, b], dim=1).to(program.device)
    return _Segments(model, prover, points, budget).certificates()


class _Segments:
    """Segments on their way to certificates."""

    def __init__(self, model: nn.Module, prover: Prover, points: Tensor, budget: Budget):
        self.model, self.prover, self.points, self.budget = model, prover, points, budget
        ends, is_sure = (t.view(-1, 2) for t in classes_of_each(model, points.flatten(0, 1), prover))
        self.labels, self.is_sure = ends[:, 0], is_sure.all(1)
        self.same = (ends[:, 0] == ends[:, 1]) & self.is_sure

    def certificates(self) -> list[Certificate]:
        found = iter(search(self.model, self.prover, self.points[self.same], self.labels[self.same], self.budget))
        return [self._at_ends(i) or self._certificate(i, next(found)) for i in range(len(self.points))]

    def _at_ends(self, i: int) -> Certificate | None:
        """What the ends alone decide."""
        if not self.is_sure[i]:
            return self._answer("unknown", NEAR_TIE, None, self._evidence(i, Search()))
        refuted = torch.tensor([0.0, 1.0], dtype=torch.float64, device=self.points.device)
        return None if self.same[i] else self._refuted(i, Search(witness=refuted))

    def _certificate(self, i: int, found: Search) -> Certificate:
        how, why = "by bounds on {} parts", ""
        if found.witness is None and found.open:
            how, why = "by exact breakpoints and bounds on {} pieces", self._exact(i, found)
        if found.witness is not None:
            return self._refuted(i, found)
        evidence = self._evidence(i, found)
        if found.open:
            return self._answer("unknown", why, None, evidence)
        return self._answer("certified", f"Proved {how.format(len(evidence.intervals))}.", None, evidence)

    def _answer(self, verdict: str, reason: str, witness: Tensor | None, evidence: SegmentEvidence) -> Certificate:
        return Certificate("segment", SEGMENT, verdict, self.prover.promise, reason, witness, evidence)  # type: ignore[arg-type]

    def _refuted(self, i: int, found: Search) -> Certificate:
        assert found.witness is not None
        witness = self._inputs(i, found.witness.unsqueeze(0))
        other = int(classes_of(self.model, witness, self.prover)[0])
        evidence = self._evidence(i, found, other=other, t=found.witness[1].item())
        if other == evidence.label:
            return self._answer("unknown", NEAR_TIE, None, self._evidence(i, found))
        reason = f"The model predicts class {evidence.label} at the start and class {other} at t = {evidence.t:.9g}."
        return self._answer("refuted", reason, witness[0], evidence)

    def _rows(self, i: int, weights: Tensor) -> Tensor:
        return torch.full((len(weights),), i, device=self.points.device)

    def _inputs(self, i: int, weights: Tensor) -> Tensor:
        return combine(self.points, self._rows(i, weights), weights).to(self.prover.dtype)

    def _evidence(self, i: int, found: Search, *, other: int | None = None, t: float | None = None) -> SegmentEvidence:
        ends = torch.stack(found.proved)[:, :, 1] if found.proved else torch.empty(0, 2, dtype=torch.float64)
        ends = ends[ends[:, 0].argsort()].cpu()
        a, b = self.points[i]
        return SegmentEvidence(a, b, int(self.labels[i]), ends, other, t, found.bounds)

    def _exact(self, i: int, found: Search) -> str:
        """Cuts the open parts at the network's own breakpoints and proves each piece; says why if that fails."""
        stages = self.prover.stages_for(self.points[i])
        if not stages:
            return "Values may overflow on the way through the network."
        if not self.budget.exact:
            return f"The budget of {self.budget.bounds} bounds is spent."
        open_parts, found.open = _joined(found.open), []
        y = int(self.labels[i])
        lowest, end = float("inf"), monotonic() + self.budget.seconds
        for part in open_parts:
            x = combine(self.points, self._rows(i, part), part)
            line = pieces(self.prover.program, x[:1], x[1:], memory=self.budget.memory)[0]
            t = _on_grid(part[0, 1] + line.t * (part[1, 1] - part[0, 1]), part)
            margin = line.outputs[:, y] - _without(line.outputs, y).amax(1)
            lowest = min(lowest, margin.min().item())
            found.witness = self._seen(i, t, margin)
            if found.witness is not None:
                return ""
            if not self._prove_pieces(i, t.unique(), found, end):
                return f"There are {len(t) - 1} pieces, more than can be proved in {self.budget.seconds:g} seconds."
        return (
            f"Exact breakpoints leave a margin of {lowest:.3g} between the classes, "
            "which rounding errors of this size do not let us prove or refute."
        )

    def _seen(self, i: int, t: Tensor, margin: Tensor) -> Tensor | None:
        """A point that the model itself gives another class, looked for where the margin is lowest."""
        below = t[margin <= 0]
        candidates = torch.cat([t[margin.argmin()].unsqueeze(0), below, (below[1:] + below[:-1]) / 2])[:1024]
        weights = torch.stack([1 - candidates, candidates], dim=1)
        seen = classes_of(self.model, self._inputs(i, weights), self.prover) != self.labels[i]
        return weights[seen.nonzero()[0, 0]] if seen.any() else None

    def _prove_pieces(self, i: int, t: Tensor, found: Search, end: float) -> bool:
        """Bounds on each piece between neighbours of ``t``, until one fails; False if there was no time for all."""
        stage = self.prover.stages_for(self.points[i])[-1]
        ends = torch.stack([1 - t, t], dim=1)
        with plain_arithmetic(self.points.device):
            images = stage.images(self.points[i : i + 1])
            for corners in torch.stack([ends[:-1], ends[1:]], dim=1).split(256):
                if monotonic() > end or found.open:
                    found.open += list(corners)
                    continue
                rows = torch.zeros(len(corners), dtype=torch.long, device=t.device)
                lower = self.prover.margins(stage, images, rows, corners, self.labels[i].expand(len(rows)))
                found.bounds += len(rows)
                found.proved += list(corners[lower > 0])
                found.open += list(corners[~(lower > 0)])
        return monotonic() <= end


def _joined(parts: list[Tensor]) -> list[Tensor]:
    """Parts in order, neighbours that touch made one."""
    joined: list[Tensor] = []
    for part in sorted(parts, key=lambda p: p[0, 1].item()):
        if joined and torch.equal(joined[-1][1], part[0]):
            joined[-1] = torch.stack([joined[-1][0], part[1]])
        else:
            joined.append(part)
    return joined


def _on_grid(t: Tensor, part: Tensor) -> Tensor:
    """Breakpoints are only proposals: moved to the grid, with the part's own ends kept."""
    t = (t * GRID).round() / GRID
    t[0], t[-1] = part[0, 1], part[1, 1]
    return t.clamp(part[0, 1], part[1, 1])


def _without(outputs: Tensor, y: int) -> Tensor:
    return torch.cat([outputs[:, :y], outputs[:, y + 1 :]], dim=1)
