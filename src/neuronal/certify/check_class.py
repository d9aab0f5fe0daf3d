"""Checks certificates about predicted classes again, with the model's own ``forward`` and none of the maker's code.

A certified set must be covered by the parts in the evidence, and each part is proved once more with a :class:`Cloud`,
cut in halves where one does not suffice. A refuted one must have a witness in the set that the model gives the class
stated. ``False`` means: not confirmed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from neuronal.certify.certificate import Certificate, Promise
from neuronal.certify.check_scaling import check_scaling
from neuronal.certify.cloud import FLOAT32, OWN, Cloud, Globe, lead
from neuronal.core.inference import evaluating

CUTS = 14  # halvings of one part before the checker gives up
VISITS = 4096  # clouds for one part


def check_segment(certificate: Certificate, model: nn.Module) -> bool:
    """Whether the evidence shows what a certificate of kind ``segment`` says about ``model``."""
    evidence = certificate.evidence
    if certificate.verdict == "unknown" or evidence is None:
        return False
    with evaluating(model):
        points = torch.stack([evidence.a, evidence.b])
        if certificate.verdict == "refuted":
            if evidence.t is None:
                return False
            weights = torch.tensor([1 - evidence.t, evidence.t], dtype=torch.float64)
            return _is_witness(model, certificate, points, weights)
        ends = evidence.intervals
        if not _is_partition(ends) or _class(model, evidence.a) != evidence.label:
            return False
        corners = torch.stack([1 - ends, ends], dim=2)
        return _all_proved(model, points, corners, evidence.label, certificate.promise)


def check_hull(certificate: Certificate, model: nn.Module) -> bool:
    """Whether the evidence shows what a certificate of kind ``hull`` says about ``model``."""
    evidence = certificate.evidence
    if certificate.verdict == "unknown" or evidence is None:
        return False
    with evaluating(model):
        if certificate.verdict == "refuted":
            return _is_witness(model, certificate, evidence.points, evidence.where)
        if _class(model, evidence.points[0]) != evidence.label or not covers_simplex(evidence.parts):
            return False
        if len(evidence.cuts) != len(evidence.parts):
            return False
        proved = partial(_all_proved, model, evidence.points, label=evidence.label, promise=certificate.promise)
        for part, cuts in zip(evidence.parts, evidence.cuts, strict=True):
            leaves = _leaves(part.double(), cuts)
            if leaves is None or not proved(leaves, roundings=3 * len(cuts)):
                return False
        return True


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
    return int(model(_on_device(model, x).unsqueeze(0))[0].argmax())


def _is_witness(model: nn.Module, certificate: Certificate, points: Tensor, weights: Tensor) -> bool:
    """The witness lies in the set, up to the rounding of its own precision, and has the class stated."""
    evidence, x = certificate.evidence, certificate.witness
    if x is None or weights is None or evidence.other is None or evidence.other == evidence.label:
        return False
    weights = weights.double().cpu()
    if not (weights >= 0).all() or abs(weights.sum().item() - 1) > 1e-12:
        return False
    flat = points.double().cpu().flatten(1)
    off = (x.double().cpu().flatten() - weights @ flat).abs()
    unit = torch.finfo(x.dtype).eps
    if not (off <= 4 * unit * flat.abs().sum(0)).all():
        return False
    return bool(_class(model, points[0]) == evidence.label and _class(model, x) == evidence.other)


def _is_partition(ends: Tensor) -> bool:
    """Intervals that follow one another from 0 to 1."""
    if ends.dim() != 2 or ends.shape[1] != 2 or not len(ends):
        return False
    pairs = ends.tolist()
    follows = all(one[1] == other[0] for one, other in itertools.pairwise(pairs))
    return pairs[0][0] == 0 and pairs[-1][1] == 1 and follows and all(lo <= hi for lo, hi in pairs)


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


def _all_proved(
    model: nn.Module, points: Tensor, parts: Tensor, label: int, promise: Promise, roundings: int = 0
) -> bool:
    device = _on_device(model, points).device
    points = points.to(device).double()
    return all(_is_proved(model, points, part.to(device).double(), label, promise, roundings) for part in parts)


def _is_proved(model: nn.Module, points: Tensor, part: Tensor, label: int, promise: Promise, roundings: int) -> bool:
    """The class on one part: by one cloud, or by those of its halves, and so on.

    ``roundings`` are those of the part's coordinates; halves have one more each time.
    """
    open_parts = [(part, 0)]
    visits = 0
    while open_parts:
        part, cuts = open_parts.pop()
        visits += 1
        if _cloud_margin(model, points, part, label, promise, roundings + CUTS) > 0:
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
    size = points.abs().sum(0, keepdim=True)
    n = 2 * len(points) + 8  # roundings of an input on the segment, each as large as the ends allow
    vertices = (part @ points.flatten(1)).view(len(part), 1, *points.shape[1:])
    off = n * (2 * OWN + 1.01 * unit) + 2 * roundings * OWN
    result = model(Cloud(list(vertices), off * size, unit))
    return _lead(result, label)


def _lead(scores: object, label: int) -> float:
    """The least difference of the label's score to another one, anywhere; minus infinity where it is not a number."""
    if not isinstance(scores, Cloud) or not torch.isfinite(scores.radius).all():
        return float("-inf")
    least = lead(scores, label).low()[0]
    least[label] = float("inf")
    return float("-inf") if least.isnan().any() else least.amin().item()


def check_ball(certificate: Certificate, model: nn.Module) -> bool:
    """Whether the evidence shows what a certificate of kind ``ball`` says about ``model``."""
    evidence = certificate.evidence
    if certificate.verdict != "certified" or evidence is None or not 0 < evidence.radius < float("inf"):
        return False
    unit = FLOAT32 if certificate.promise == "float32" else 0.0
    with evaluating(model):
        x = evidence.x.to(_on_device(model, evidence.x).device).double().unsqueeze(0)
        steps = torch.eye(x.numel(), dtype=x.dtype, device=x.device).view(-1, *x.shape)
        globe = Globe([x, *steps], torch.zeros_like(x), unit, size=evidence.radius, norm=evidence.norm)
        return _class(model, evidence.x) == evidence.label and _lead(model(globe), evidence.label) > 0


def check_cone(certificate: Certificate, model: nn.Module) -> bool:
    """Whether the evidence shows what a certificate of kind ``cone`` says about ``model``."""
    evidence = certificate.evidence
    if certificate.verdict == "unknown" or evidence is None or evidence.hull.promise != certificate.promise:
        return False
    if certificate.verdict == "refuted":
        return evidence.hull.verdict == "refuted" and check_hull(evidence.hull, model)
    if evidence.hull.verdict != "certified" or evidence.scaling.verdict != "certified":
        return False
    same_shape = tuple(evidence.scaling.evidence.shape) == tuple(evidence.hull.evidence.points.shape[1:])
    return same_shape and check_hull(evidence.hull, model) and check_scaling(evidence.scaling, model)
