"""Checks certificates about predicted classes again, with the model's own ``forward`` and none of the maker's code.

A certified set must be covered by the parts in the evidence, and each part is proved once more with a :class:`Cloud`,
cut in halves where one does not suffice. A refuted one must have a witness in the set that the model gives the class
stated. Whatever is not confirmed raises ``NotConfirmed``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from math import inf

import torch
from torch import Tensor, nn

from neuronal.certify.certificate import OTHER_STATEMENT, Certificate, Promise, require
from neuronal.certify.check_scaling import check_scaling
from neuronal.certify.cloud import FLOAT32, OWN, Cloud
from neuronal.certify.cloud_rules import lead
from neuronal.certify.globe import Globe
from neuronal.certify.statement import CONE, HULL, SEGMENT, ball
from neuronal.core.inference import call_on_copy

CUTS = 14  # halvings of one part before the checker gives up
VISITS = 4096  # clouds for one part


def check_segment(certificate: Certificate, model: nn.Module) -> None:
    """Raises ``NotConfirmed`` unless the evidence shows what a certificate of kind ``segment`` says about ``model``."""
    evidence = certificate.evidence
    require(certificate.statement == SEGMENT, OTHER_STATEMENT)
    ends, points = _numbers(evidence.intervals), torch.stack([_numbers(evidence.a), _numbers(evidence.b)])
    if certificate.verdict == "refuted":
        require(not len(ends) or _is_partition(ends, whole=False), "its intervals are none")
        t = evidence.t
        require(isinstance(t, float) and 0 <= t <= 1, "its witness is not on the segment")
        _require_witness(model, certificate, points, torch.tensor([1 - t, t], dtype=torch.float64))
    else:
        _require_no_witness(certificate, evidence.other, evidence.t)
        require(_is_partition(ends), "its intervals do not follow one another from 0 to 1")
        _require_class(model, points[0], evidence.label)
    corners = torch.stack([1 - ends, ends], dim=2)
    _require_proved(model, points, corners, evidence.label, certificate.promise)


def check_hull(certificate: Certificate, model: nn.Module) -> None:
    """Raises ``NotConfirmed`` unless the evidence shows what a certificate of kind ``hull`` says about ``model``."""
    evidence = certificate.evidence
    require(certificate.statement == HULL, OTHER_STATEMENT)
    points, parts, cuts = _numbers(evidence.points), _numbers(evidence.parts), evidence.cuts
    require(points.dim() > 1 and len(points) > 1, "it has fewer than two inputs")
    require(isinstance(cuts, tuple) and len(cuts) == len(parts), "its parts and their cuts differ in number")
    if certificate.verdict == "refuted":
        require(evidence.where is not None, "it does not say where its witness is")
        require(not len(parts) or parts.shape[1:] == (len(points),) * 2, "its parts are none")
        require((parts >= 0).all() and (parts.sum(2) == 1).all(), "its parts are not in the hull")
        _require_witness(model, certificate, points, _numbers(evidence.where))
    else:
        _require_no_witness(certificate, evidence.other, evidence.where)
        require(parts.shape[1:] == (len(points),) * 2 and covers_simplex(parts), "its parts do not cover the hull")
        _require_class(model, points[0], evidence.label)
    for part, own in zip(parts, cuts, strict=True):
        leaves = _leaves(part, own)
        require(leaves is not None, "its cuts make no sense")
        assert leaves is not None
        _require_proved(model, points, leaves, evidence.label, certificate.promise, roundings=3 * len(own))


def _numbers(x: Tensor) -> Tensor:
    """Finite numbers in float64: shorter ones are what they are, and what is computed of them is not rounded to them."""
    require(isinstance(x, Tensor) and x.is_floating_point(), "its evidence holds something else than tensors of floats")
    x = x.detach().double().cpu()
    require(x.isfinite().all(), "its evidence holds NaN or infinity")
    return x


def _require_no_witness(certificate: Certificate, *about: object) -> None:
    found = [one for one in (certificate.witness, *about) if one is not None]
    require(not found, "it is certified and has a witness against it")


def _leaves(part: Tensor, cuts: Sequence[tuple[int, int, int, float]]) -> Tensor | None:
    """What the cuts leave of a part, by the coordinates of the vertices; None where they do not make sense.

    A cut between two vertices makes two parts that are the whole together, so what is never cut again is all of it.
    """
    nodes = {0: part}
    for k, (node, i, j, t) in enumerate(cuts):
        if node not in nodes or not (0 <= i < len(part) and 0 <= j < len(part) and i != j) or not 0 < t < 1:
            return None
        whole = nodes.pop(node)
        for name, vertex in ((2 * k + 1, i), (2 * k + 2, j)):
            half = whole.clone()
            half[vertex] = (1 - t) * whole[i] + t * whole[j]
            nodes[name] = half
    return torch.stack(list(nodes.values()))


def _on_device(model: nn.Module, x: Tensor) -> Tensor:
    """``x`` where the model is, in its precision."""
    parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
    return x if parameter is None else x.to(parameter.device, parameter.dtype)


def _class(model: nn.Module, x: Tensor) -> int:
    scores = call_on_copy(model, _on_device(model, x).unsqueeze(0))
    require(scores.dim() == 2 and len(scores) == 1 and scores.shape[1] > 1, "the model gives no scores of classes")
    return int(scores[0].argmax())


def _require_class(model: nn.Module, x: Tensor, label: object) -> None:
    require(type(label) is int and _class(model, x) == label, "the model does not predict the class stated")


def _require_witness(model: nn.Module, certificate: Certificate, points: Tensor, weights: Tensor) -> None:
    """The witness lies in the set, up to the rounding of the model's precision, and has the class stated."""
    evidence, x = certificate.evidence, certificate.witness
    require(x is not None, "it has no witness")
    assert x is not None
    own = _on_device(model, points)
    exact = _numbers(x)
    require(torch.equal(_on_device(model, exact).double().cpu(), exact), "its witness has other digits than the model")
    weights = weights.flatten()
    in_set = len(weights) == len(points) and (weights >= 0).all() and abs(weights.sum().item() - 1) <= 1e-12
    require(in_set and exact.shape == points.shape[1:], "its witness is not in the set")
    flat = points.flatten(1)
    off = (exact.flatten() - weights @ flat).abs()
    unit = torch.finfo(own.dtype).eps
    require((off <= 4 * unit * flat.abs().sum(0)).all(), "its witness is not where it says")
    require(type(evidence.other) is int and evidence.other != evidence.label, "its witness has the class it is against")
    _require_class(model, points[0], evidence.label)
    require(_class(model, exact) == evidence.other, "the model does not give its witness the class stated")


def _is_partition(ends: Tensor, *, whole: bool = True) -> bool:
    """Intervals that follow one another from 0 to 1; without ``whole``, any intervals of [0, 1]. With exact 1 - t."""
    if ends.dim() != 2 or ends.shape[1] != 2 or not len(ends):
        return False
    pairs = ends.tolist()
    if any(not 0 <= low <= high <= 1 or Fraction(1 - t) != 1 - Fraction(t) for low, high in pairs for t in (low, high)):
        return False
    follows = all(one[1] == other[0] for one, other in itertools.pairwise(pairs))
    return not whole or (pairs[0][0] == 0 and pairs[-1][1] == 1 and follows)


def covers_simplex(parts: Tensor) -> bool:
    """Whether parts with these barycentric coordinates are what cutting edges at their middles makes of the simplex.

    The cuts are found again: each must have every part on one of its sides. Coordinates are then taken with respect to
    the half, and so on until every half is a part. Cut between vertices i and j, the half with the middle m for i has
    the points with c_j >= c_i, and c_i i + c_j j = 2 c_i m + (c_j - c_i) j. On a dyadic grid all this is exact.
    """
    if parts.dim() != 3 or parts.shape[1] != parts.shape[2] or not len(parts):
        return False
    parts = parts.double()
    if not ((parts >= 0).all() and (parts.sum(2) == 1).all()):
        return False
    return _fills(parts, [100 * len(parts)])


def _fills(parts: Tensor, visits: list[int]) -> bool:
    count = parts.shape[1]
    visits[0] -= 1
    if len(parts) == 1 and torch.equal(parts[0].sort(0).values, torch.eye(count, dtype=parts.dtype).sort(0).values):
        return bool((parts[0].amax(1) == 1).all())
    if visits[0] < 0:
        return False
    for i, j in itertools.combinations(range(count), 2):
        first = (parts[:, :, j] >= parts[:, :, i]).all(1)
        second = (parts[:, :, i] >= parts[:, :, j]).all(1)
        if first.any() and second.any() and bool((first ^ second).all()):
            halves = _half(parts[first], i, j), _half(parts[second], j, i)
            if all(_fills(half, visits) for half in halves):
                return True
    return False


def _half(parts: Tensor, i: int, j: int) -> Tensor:
    """Coordinates with the middle of i and j in place of i."""
    parts = parts.clone()
    parts[:, :, j] -= parts[:, :, i]
    parts[:, :, i] *= 2
    return parts


def _require_proved(
    model: nn.Module, points: Tensor, parts: Tensor, label: int, promise: Promise, roundings: int = 0
) -> None:
    device = _on_device(model, points).device
    points = points.to(device)
    for part in parts:
        proved = _is_proved(model, points, part.to(device), label, promise, roundings)
        require(proved, "the class is not proved on one of its parts")


def _is_proved(model: nn.Module, points: Tensor, part: Tensor, label: int, promise: Promise, roundings: int) -> bool:
    """The class on one part: by one cloud, or by those of its halves, and so on.

    ``roundings`` are those of the part's coordinates; halves have one more each time.
    """
    open_parts = [(part, 0)]
    visits = 0
    while open_parts:
        part, cuts = open_parts.pop()
        visits += 1
        if _cloud_margin(model, points, part, label, promise, roundings + cuts) > 0:
            continue
        if cuts == CUTS or visits > VISITS:
            return False
        i, j = _far_vertices(part @ points.flatten(1))
        middle = (part[i] + part[j]) / 2
        for k in (i, j):
            half = part.clone()
            half[k] = middle
            open_parts.append((half, cuts + 1))
    return True


def _far_vertices(x: Tensor) -> tuple[int, int]:
    pairs = list(itertools.combinations(range(len(x)), 2))
    return max(pairs, key=lambda pair: float((x[pair[0]] - x[pair[1]]).norm()))


def _cloud_margin(
    model: nn.Module, points: Tensor, part: Tensor, label: int, promise: Promise, roundings: int
) -> float:
    """A lower bound of how far the class leads, anywhere on the part."""
    unit = FLOAT32 if promise == "float32" else 0.0
    # Ours: those of the coordinates, which are not negative and make no more than the largest end of all ends, and those of
    # one sum of products. Deployed, an input is computed in one of several ways, each as large as all ends allow.
    own = (len(points) + 2 + roundings) * 1.01 * OWN * points.abs().amax(0, keepdim=True)
    deployed = (2 * len(points) + 8) * 1.01 * unit * points.abs().sum(0, keepdim=True)
    vertices = (part @ points.flatten(1)).view(len(part), 1, *points.shape[1:])
    result = model(Cloud(list(vertices), own + deployed, unit))
    return _least(_leads(result, label))


def _leads(scores: object, label: int) -> Tensor | None:
    """The label's score less each other one, at least, anywhere; None where there is no bound."""
    if not isinstance(scores, Cloud) or not torch.isfinite(scores.radius).all():
        return None
    return _without(lead(scores, label).low()[0], label)


def _without(values: Tensor, label: int) -> Tensor:
    return torch.cat([values[:label], values[label + 1 :]])


def _least(leads: Tensor | None) -> float:
    """Minus infinity where a bound is none."""
    return float("-inf") if leads is None or leads.isnan().any() else float(leads.min())


def check_ball(certificate: Certificate, model: nn.Module) -> None:
    """Raises ``NotConfirmed`` unless the evidence shows what a certificate of kind ``ball`` says about ``model``."""
    evidence = certificate.evidence
    require(certificate.verdict == "certified", "no ball is ever refuted")
    _require_no_witness(certificate)
    # A number that equals 2, such as True or 2.0, is another norm's name nowhere.
    require(evidence.norm in (2, "inf") and type(evidence.norm) in (int, str), f"there is no norm {evidence.norm!r}")
    radius, region = evidence.radius, evidence.region
    require(type(radius) is float and 0 < radius < inf, "its radius is no positive number")
    require(type(region) is float and 0 <= region <= radius, "its region is not inside of the ball")
    require(certificate.statement == ball(evidence.label, radius, evidence.norm), OTHER_STATEMENT)
    require(isinstance(evidence.slopes, tuple), "its slopes are no tuple")
    x = _numbers(evidence.x)
    _require_class(model, x, evidence.label)
    require(_margin_in_ball(model, certificate, radius)[0] > 0, "the class is not proved in the ball")
    if region:
        margin, bends = _margin_in_ball(model, certificate, region)
        require(margin > 0 and not bends, "the model is not affine within the region stated")


def _margin_in_ball(model: nn.Module, certificate: Certificate, radius: float) -> tuple[float, bool]:
    """A lower bound of the lead of the class, and whether any ReLU may change its side."""
    evidence, unit = certificate.evidence, FLOAT32 if certificate.promise == "float32" else 0.0
    x = evidence.x.to(_on_device(model, evidence.x).device).double().unsqueeze(0)
    steps = torch.eye(x.numel(), dtype=x.dtype, device=x.device).view(-1, *x.shape)
    # Slopes are a proposal: whatever they are, what they prove holds.
    proposed = [_numbers(slope) for slope in evidence.slopes]
    globe = Globe([x, *steps], torch.zeros_like(x), unit, size=radius, norm=evidence.norm)
    scores = model(globe)
    leads = _leads(scores, evidence.label)
    gap = lead(scores, evidence.label) if leads is not None else None
    if leads is None or _least(leads) > 0 or not isinstance(gap, Globe) or gap.node is None:
        return _least(leads), globe.notes.is_bent
    rows = _without(torch.eye(gap.radius.shape[1], dtype=x.dtype, device=x.device), evidence.label).unsqueeze(1)
    # Each other class by whichever bound is best for it.
    every = torch.stack([leads, *(gap.least(rows, given) for given in ({}, globe.chosen(proposed)))])
    return _least(every.nan_to_num(-torch.inf).amax(0)), globe.notes.is_bent


def check_cone(certificate: Certificate, model: nn.Module) -> None:
    """Raises ``NotConfirmed`` unless the evidence shows what a certificate of kind ``cone`` says about ``model``."""
    hull, scaling = certificate.evidence.hull, certificate.evidence.scaling
    require(certificate.statement == CONE, OTHER_STATEMENT)
    require(hull.kind == "hull" and hull.verdict == certificate.verdict, "its hull says something else")
    require(hull.promise == certificate.promise, "its hull is about another promise")
    check_hull(hull, model)
    if certificate.verdict == "refuted":
        require(scaling is hull, "it needs no other evidence than its hull")
        require(
            certificate.witness is not None and torch.equal(certificate.witness, hull.witness),
            "its witness is not its hull's",
        )
        return
    _require_no_witness(certificate)
    require(certificate.promise == "real", "multiples are rounded in float32")
    require(scaling.kind == "scaling" and scaling.verdict == "certified", "its scaling is not certified")
    require(
        tuple(scaling.evidence.shape) == tuple(hull.evidence.points.shape[1:]), "its scaling is about another shape"
    )
    check_scaling(scaling, model)
