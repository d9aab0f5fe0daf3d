"""Is the predicted class the same on every convex combination of some inputs? On every non-negative one?"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from neuronal.certify.branch import NEAR_TIE, Budget, Prover, Search, classes_of, combine, search
from neuronal.certify.certificate import Certificate, Promise, Verdict
from neuronal.certify.question import check_promise, checked, classifier, own_dtype
from neuronal.certify.scaling import certify_scaling
from neuronal.geometry.lowering import NotPiecewiseLinear

HULL = "The predicted class is the same for every convex combination of the inputs."
CONE = "The predicted class is the same for every non-negative combination of the inputs (not all weights zero)."


@dataclass(frozen=True, eq=False)
class HullEvidence:
    """What was found on the convex hull.

    Attributes:
        points: The inputs, one row each.
        label: The class the model predicts at the first.
        parts: Sub-simplices on which this class is proved, by the weights of the inputs at their vertices:
            (number, vertices, inputs). Together they are everything if certified.
        other: The class the model predicts at the witness, if refuted.
        where: The weights of the inputs at the witness.
        bounds: How many parts were looked at.
    """

    points: Tensor
    label: int
    parts: Tensor
    other: int | None = None
    where: Tensor | None = None
    bounds: int = 0


@dataclass(frozen=True, eq=False)
class ConeEvidence:
    """A cone is the hull and all its multiples: ``hull`` proves the one, ``scaling`` that multiples change nothing."""

    hull: Certificate
    scaling: Certificate


def certify_hull(
    model: nn.Module, points: Tensor, *, promise: Promise = "real", budget: Budget | None = None
) -> Certificate:
    """Is the predicted class the same for every convex combination of ``points``, two or more inputs in a batch?

    The bounds on the whole simplex are exact where all inputs share one activation pattern (ReLU signs and pool
    winners), so that case is decided at once. Elsewhere the simplex is cut at its longest edges until the bounds prove
    every part, the model refutes a cutting point, or the budget is spent; the last answer is ``unknown``.

    Args:
        model: Any network ``geometry.lower`` understands. It is run in evaluation mode and not changed.
        points: Inputs, with a batch dimension in front.
        promise: Which network is meant; see ``PROMISES``.
        budget: Work allowed; ``bounds`` parts are looked at.

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
    seen = classes_of(model, points, prover)
    differ = (seen != seen[0]).nonzero().flatten()
    if len(differ):
        weights = torch.eye(len(points), dtype=torch.float64, device=points.device)[differ[0]]
        found = Search(witness=weights)
    else:
        found = search(model, prover, points.unsqueeze(0), seen[:1], budget)[0]
    return _hull(model, prover, points, int(seen[0]), found, budget)


def _hull(model: nn.Module, prover: Prover, points: Tensor, label: int, found: Search, budget: Budget) -> Certificate:
    none = torch.empty(0, len(points), len(points), dtype=torch.float64)
    parts = torch.stack(found.proved).cpu() if found.proved else none
    evidence = HullEvidence(points, label, parts, bounds=found.bounds)

    def answer(verdict: Verdict, reason: str, witness: Tensor | None = None) -> Certificate:
        return Certificate("hull", HULL, verdict, prover.promise, reason, witness, evidence)

    if found.witness is not None:
        rows = torch.zeros(1, dtype=torch.long, device=points.device)
        witness = combine(points.unsqueeze(0), rows, found.witness.unsqueeze(0)).to(prover.dtype)
        other = int(classes_of(model, witness, prover)[0])
        if other == label:
            return answer("unknown", NEAR_TIE)
        evidence = HullEvidence(points, label, parts, other, found.witness.cpu(), found.bounds)
        reason = f"The model predicts class {label} at the first input and class {other} at the witness."
        return answer("refuted", reason, witness[0])
    if not prover.stages_for(points):
        return answer("unknown", "Values may overflow on the way through the network.")
    if found.open:
        return answer(
            "unknown", f"{len(parts)} parts are proved and {len(found.open)} are open after {found.bounds} bounds."
        )
    how = "at once: the bounds close on the whole simplex" if len(parts) == 1 else f"by bounds on {len(parts)} parts"
    return answer("certified", f"Proved {how}.")


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
