"""Is the predicted class the same on every convex combination of some inputs? On every non-negative one?"""

from __future__ import annotations

from time import monotonic

import torch
from torch import Tensor, nn

from neuronal.certify.branch import NEAR_TIE, Budget, Prover, Search, classes_of, classes_of_each, combine, search
from neuronal.certify.certificate import Certificate, Promise, Verdict
from neuronal.certify.cuts import Cutter
from neuronal.certify.evidence import ConeEvidence, Cut, HullEvidence
from neuronal.certify.question import check_promise, checked, classifier, own_dtype
from neuronal.certify.scaling import certify_scaling
from neuronal.certify.statement import CONE, HULL
from neuronal.geometry.lowering import NotPiecewiseLinear


def certify_hull(
    model: nn.Module, points: Tensor, *, promise: Promise = "real", budget: Budget | None = None
) -> Certificate:
    """Is the predicted class the same for every convex combination of ``points``, two or more inputs in a batch?

    The bounds on the whole simplex are exact where all inputs share one activation pattern (ReLU signs and pool
    winners), so that case is decided at once. Elsewhere the simplex is cut at its longest edges until the bounds prove
    every part or the model refutes a cutting point. What is open when the budget for that is spent is cut where the
    network bends: parts on which it is affine are decided but for rounding, and there are finitely many, so this ends,
    or the time does. Their number grows like (units that bend)^(points - 1).

    Args:
        model: Any network ``geometry.lower`` understands. It is run in evaluation mode and not changed.
        points: Inputs, with a batch dimension in front.
        promise: Which network is meant; see ``PROMISES``.
        budget: Work allowed; ``bounds`` parts are looked at in the first way, ``seconds`` are for the second.

    Law:
        What is certified has no counterexample; what is refuted has one the model confirms
        (tests/certify/test_simplex.py).
    """
    points = checked("points", points, dims=2)
    if len(points) < 2:
        raise ValueError(f"A hull needs two or more inputs, got {len(points)}.")
    check_promise(promise)
    budget = budget or Budget()
    try:
        program = classifier(model, points)
    except NotPiecewiseLinear as error:
        return Certificate("hull", HULL, "unknown", promise, str(error))
    prover = Prover(program, own_dtype(model), promise)
    points = points.to(program.device)
    seen, is_sure = classes_of_each(model, points, prover)
    differ = (seen != seen[0]).nonzero().flatten()
    if not is_sure.all():
        return Certificate("hull", HULL, "unknown", promise, NEAR_TIE)
    if len(differ):
        weights = torch.eye(len(points), dtype=torch.float64, device=points.device)[differ[0]]
        found = Search(witness=weights)
    else:
        found = search(model, prover, points.unsqueeze(0), seen[:1], budget)[0]
    return _Hull(model, prover, points, int(seen[0]), found).certificate(budget)


class _Hull:
    """A simplex on its way from what the search found to a certificate."""

    def __init__(self, model: nn.Module, prover: Prover, points: Tensor, label: int, found: Search):
        self.model, self.prover, self.points, self.label, self.found = model, prover, points, label, found
        self.cuts: list[tuple[Cut, ...]] = [() for _ in found.proved]

    def certificate(self, budget: Budget) -> Certificate:
        found = self.found
        fits = found.witness is not None or bool(self.prover.stages_for(self.points))
        left = self._cut_on(budget) if fits and found.open and budget.exact and found.witness is None else ""
        if found.witness is not None:
            return self._refuted(found.witness)
        if not fits:
            return self._answer("unknown", "Values may overflow on the way through the network.")
        if found.open:
            spent = f"{len(found.proved)} parts are proved and {len(found.open)} are open after {found.bounds} bounds. "
            return self._answer("unknown", (spent + left).strip())
        return self._answer("certified", f"Proved {self._how()}.")

    def _how(self) -> str:
        parts = sum(len(cuts) + 1 for cuts in self.cuts)
        if parts == 1:
            return "at once: the bounds close on the whole simplex"
        where = ", cut where the network bends" if any(self.cuts) else ""
        return f"by bounds on {parts} parts{where}"

    def _cut_on(self, budget: Budget) -> str:
        """Cuts the open parts where the network bends; says why if some stay open."""
        end = monotonic() + budget.seconds
        cutter = Cutter(self.model, self.prover, self.points, self.label, budget)
        open_parts, self.found.open = self.found.open, []
        stuck = 0
        for part in open_parts:
            cutting = cutter.cut(part, end)
            self.found.bounds += cutting.bounds
            self.found.witness = cutting.witness
            if cutting.witness is not None:
                return ""
            stuck += cutting.stuck
            if cutting.is_proved:
                self.found.proved.append(part)
                self.cuts.append(tuple(cutting.cuts))
            else:
                self.found.open.append(part)
        if stuck:
            return "The network is affine on one of them, with scores that rounding errors do not let us tell apart."
        return f"The {budget.seconds:g} seconds for cuts where the network bends are spent."

    def _evidence(self, other: int | None = None, where: Tensor | None = None) -> HullEvidence:
        size = len(self.points)
        parts = torch.cat([torch.empty(0, size, size), *(part.cpu().unsqueeze(0) for part in self.found.proved)])
        return HullEvidence(self.points, self.label, parts.double(), tuple(self.cuts), other, where, self.found.bounds)

    def _answer(self, verdict: Verdict, reason: str) -> Certificate:
        return Certificate("hull", HULL, verdict, self.prover.promise, reason, None, self._evidence())

    def _refuted(self, weights: Tensor) -> Certificate:
        rows = torch.zeros(1, dtype=torch.long, device=self.points.device)
        witness = combine(self.points.unsqueeze(0), rows, weights.unsqueeze(0)).to(self.prover.dtype)
        other = int(classes_of(self.model, witness, self.prover)[0])
        if other == self.label:
            return self._answer("unknown", NEAR_TIE)
        reason = f"The model predicts class {self.label} at the first input and class {other} at the witness."
        evidence = self._evidence(other, weights.cpu())
        return Certificate("hull", HULL, "refuted", self.prover.promise, reason, witness[0], evidence)


def certify_cone(
    model: nn.Module, points: Tensor, *, promise: Promise = "real", budget: Budget | None = None
) -> Certificate:
    r"""Is the predicted class the same for every non-negative combination of ``points`` (not all weights zero)?

    A combination with weights :math:`w` is :math:`s = \sum_i w_i` times a convex one, so the hull decides if
    :math:`f(s x) = s^d f(x)` for all :math:`s > 0`. Zero itself has all scores equal when d > 0, so a hull with a
    strictly positive margin everywhere does not contain it.

    Args:
        model: A scale-invariant network, such as one without biases.
        points: Inputs, with a batch dimension in front.
        promise: ``real``. In floating point only multiples by powers of two are exact, so ``float32`` is ``unknown``.
        budget: As for :func:`certify_hull`.
    """
    points = checked("points", points, dims=2)
    check_promise(promise)
    points = points if len(points) > 1 else points.repeat(2, *[1] * (points.dim() - 1))  # a ray
    hull = certify_hull(model, points, promise=promise, budget=budget)
    if hull.verdict == "refuted":  # the hull is part of the cone
        reason = "A convex combination has another class: " + hull.reason
        return Certificate("cone", CONE, "refuted", promise, reason, hull.witness, ConeEvidence(hull, hull))
    if promise == "float32":
        reason = "In float32 a multiple of an input is rounded, unless by a power of two."
        return Certificate("cone", CONE, "unknown", promise, reason)
    if hull.verdict == "unknown":
        return Certificate("cone", CONE, "unknown", promise, hull.reason)
    scaling = certify_scaling(model, points)
    if scaling.verdict != "certified":
        reason = "The network is not known to be scale-invariant: " + scaling.reason
        return Certificate("cone", CONE, "unknown", promise, reason)
    reason = f"{hull.reason} Multiples have the same class: {scaling.reason}"
    return Certificate("cone", CONE, "certified", promise, reason, None, ConeEvidence(hull, scaling))
