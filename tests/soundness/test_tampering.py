"""Every field of every certificate is verified or a remark: each is tampered with, and a field nobody lists here fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass, replace
from fractions import Fraction
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from neuronal.certify import (
    Certificate,
    certify_activity,
    certify_ball,
    certify_cone,
    certify_hull,
    certify_lipschitz_ball,
    certify_scaling,
    certify_segments,
    check,
)
from neuronal.certify.certificate import REMARK
from neuronal.nn.farkas import FarkasLinear


def classifier(biases: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 12, bias=biases), nn.ReLU(), nn.Linear(12, 3, bias=biases))


def points(number: int) -> Tensor:
    return torch.randn(number, 4, generator=torch.Generator().manual_seed(3))


def segment(verdict: str) -> tuple[Certificate, nn.Module]:
    model = classifier()
    both = points(60)
    found = certify_segments(model, both[:30], both[30:])
    return next(one for one in found if one.verdict == verdict and one.evidence.label), model


def hull(verdict: str) -> tuple[Certificate, nn.Module]:
    model = classifier()
    spread = 0.02 if verdict == "certified" else 2.0
    corners = points(12).split(3)
    found = [certify_hull(model, part[:1] + spread * (part - part[:1])) for part in corners]
    return next(one for one in found if one.verdict == verdict), model


def cone(verdict: str) -> tuple[Certificate, nn.Module]:
    model = classifier(biases=False)
    corners = points(40).split(2)
    return next(one for one in (certify_cone(model, part) for part in corners) if one.verdict == verdict), model


def scaling(verdict: str) -> tuple[Certificate, nn.Module]:
    model = classifier(biases=verdict == "refuted")
    return certify_scaling(model, points(1)), model


def layer(verdict: str) -> tuple[Certificate, nn.Module]:
    torch.manual_seed(1)
    own = nn.Linear(2, 4)
    own.bias.data = torch.tensor([0.4, 0.5, 0.3, -2.0]) if verdict == "certified" else torch.full((4,), -1.0)
    own.weight.data *= 0.3
    return certify_activity(own, (torch.full((2,), -1.0), torch.ones(2))), own


def everywhere() -> tuple[Certificate, nn.Module]:
    torch.manual_seed(1)
    own = FarkasLinear(3, 4)
    return certify_activity(own), own


def network(verdict: str) -> tuple[Certificate, nn.Module]:
    torch.manual_seed(2)
    first = nn.Linear(3, 5)
    first.bias.data = torch.linspace(-3.0, 1.5, 5) if verdict == "certified" else torch.full((5,), -3.0)
    first.weight.data *= 0.3
    model = nn.Sequential(first, nn.ReLU(), FarkasLinear(5, 4), nn.ReLU(), nn.Linear(4, 2))
    return certify_activity(model, (torch.full((3,), -1.0), torch.ones(3))), model


MADE: dict[str, Callable[[], tuple[Certificate, nn.Module]]] = {
    "segment, certified": lambda: segment("certified"),
    "segment, refuted": lambda: segment("refuted"),
    "hull, certified": lambda: hull("certified"),
    "hull, refuted": lambda: hull("refuted"),
    "cone, certified": lambda: cone("certified"),
    "cone, refuted": lambda: cone("refuted"),
    "ball": lambda: (certify_ball(classifier(), points(1)[0]), classifier()),
    "Lipschitz ball": lambda: (certify_lipschitz_ball(classifier(), points(1)[0]), classifier()),
    "scaling, certified": lambda: scaling("certified"),
    "scaling, refuted": lambda: scaling("refuted"),
    "layer, certified": lambda: layer("certified"),
    "layer, refuted": lambda: layer("refuted"),
    "layer, everywhere": everywhere,
    "network, certified": lambda: network("certified"),
    "network, refuted": lambda: network("refuted"),
}
made = cache(lambda name: MADE[name]())


def others(value: object, name: str) -> list[object]:
    """Values that say something else than this one."""
    if name == "cutoff":
        return [-1e9, 1e9, float("nan")]
    if name == "verdict":
        return [other for other in ("certified", "refuted", "unknown", "proved", None) if other != value]
    if name == "norm":
        return [1, 2.5, 3, float("inf"), "Linf", "2", None]
    if isinstance(value, bool) or value is None:
        return [torch.zeros(1), 0.5, "1"]
    if isinstance(value, Tensor):
        return [value + 7.0, -3.0 * value - 1.0, value * float("nan"), value[:0], None, value.bfloat16() * 40 + 3]
    if isinstance(value, Fraction):
        return [value + 1, None, float(value)]
    if isinstance(value, int | float):
        return [value + 1, -value - 1, 1e9, float("nan"), None, str(value)]
    if isinstance(value, str):
        return [value + " ", value[:-1] + "?", None]
    if isinstance(value, tuple):
        return [(*value, *value[:1], 99), value[:-1] if value else (0,), None]
    raise AssertionError(f"no idea how to tamper with {name}, a {type(value).__name__}")


# Fields that say what a statement is about, how it is shown, or that less holds: with another value it may be as true as
# before. Whatever is confirmed then is compared with samples of the model.
ANOTHER = {"a", "b", "points", "x", "low", "high"}
ANOTHER |= {"witness", "scale", "multipliers", "dead_on_box", "intervals", "parts", "slopes"}


def holds(certificate: Certificate, model: nn.Module) -> bool:
    """Whether samples of the model agree with a certificate."""
    evidence, refuted = certificate.evidence, certificate.verdict == "refuted"
    generator = torch.Generator().manual_seed(0)
    model = model.double()
    try:
        with torch.no_grad():
            if certificate.kind == "cone":
                evidence = evidence.hull.evidence
            if certificate.kind in ("segment", "hull", "cone"):
                ends = torch.stack([evidence.a, evidence.b]) if certificate.kind == "segment" else evidence.points
                weights = torch.rand(4000, len(ends), generator=generator, dtype=torch.float64) ** 3
                inside = weights / weights.sum(1, keepdim=True) @ ends.double()
                inside = torch.cat([inside, certificate.witness.double().unsqueeze(0)]) if refuted else inside
                return bool((model(inside).argmax(1) == evidence.label).all()) != refuted
            if certificate.kind == "ball":
                step = torch.randn(4000, len(evidence.x), generator=generator, dtype=torch.float64)
                x = evidence.x.double() + evidence.radius * step / step.norm(dim=1, keepdim=True)
                return bool((model(x).argmax(1) == evidence.label).all())
            if certificate.kind == "scaling":
                x = certificate.witness.double()
                one, two = model(x), model(x * evidence.scale)
                return not torch.allclose(one / one.norm(), two / two.norm(), rtol=1e-9)
            low, high = evidence.low.double(), evidence.high.double()
            x = low + (high - low) * torch.rand(4000, len(low), generator=generator, dtype=torch.float64)
            x = certificate.witness.double() if refuted else x
            layers = [model] if isinstance(model, nn.Linear) else [model[:1], model[:3]]
            active = [bool((layer(x) > 0).any(1).all()) for layer in layers]
            return not all(active) if refuted else all(active)
    finally:
        model.float()


def statement_fields(record: object) -> list[Field]:
    return [one for one in fields(record) if not one.metadata.get("remark")]  # type: ignore[arg-type]


def tampered(record: object, path: str = "") -> list[tuple[str, object]]:
    """All copies of a record with one field changed, those of records inside of it too."""
    found: list[tuple[str, object]] = []
    for one in statement_fields(record):
        value = getattr(record, one.name)
        if is_dataclass(value):
            found += [(where, replace(record, **{one.name: inner})) for where, inner in tampered(value, one.name)]  # type: ignore[type-var]
        elif isinstance(value, tuple) and value and all(map(is_dataclass, value)):
            for i, entry in enumerate(value):
                for where, inner in tampered(entry, one.name):
                    found.append((where, replace(record, **{one.name: (*value[:i], inner, *value[i + 1 :])})))  # type: ignore[type-var]
            found.append((one.name, replace(record, **{one.name: value[:-1]})))  # type: ignore[type-var]
        else:
            found += [(one.name, replace(record, **{one.name: other})) for other in others(value, one.name)]  # type: ignore[type-var]
    return found


@pytest.mark.parametrize("name", MADE)
def test_honest_certificates_are_confirmed(name):
    certificate, model = made(name)
    assert certificate.verdict == name.rpartition(", ")[2] or name in ("ball", "Lipschitz ball", "layer, everywhere")
    assert str(check(certificate, model)) == "confirmed"


@pytest.mark.parametrize("name", MADE)
def test_no_field_of_the_statement_may_be_changed(name):
    certificate, model = made(name)
    confirmed: dict[str, int] = {}
    seen = set()
    for field, forged in tampered(certificate):
        seen.add(field)
        if check(forged, model) and not (field in ANOTHER and holds(forged, model)):
            confirmed[field] = confirmed.get(field, 0) + 1
    assert confirmed == {}
    assert {"verdict", "statement", "promise", "kind"} <= seen


@pytest.mark.parametrize("name", MADE)
def test_remarks_are_no_part_of_the_statement(name):
    """What is a remark is marked as one, and no more than these."""
    allowed = {
        "Certificate": {"reason"},
        "SegmentEvidence": {"bounds"},
        "HullEvidence": {"bounds"},
        "ConeEvidence": set(),
        "BallEvidence": {"region_only", "margin_only"},
        "LipschitzBall": {"margin", "error"},
        "Scaling": {"steps", "breaks", "zeros", "deviation"},
        "LayerActivity": {"path", "reason", "margin", "radius", "dead_on_data"},
        "NetworkActivity": set(),
    }
    certificate, _ = made(name)

    def look(record: object) -> None:
        remarks = {one.name for one in fields(record) if one.metadata == REMARK}  # type: ignore[arg-type]
        assert remarks == allowed[type(record).__name__]
        for one in fields(record):  # type: ignore[arg-type]
            value = getattr(record, one.name)
            for entry in value if isinstance(value, tuple) else (value,):
                if is_dataclass(entry) and one.name not in remarks:
                    look(entry)

    look(certificate)


@pytest.mark.parametrize("name", MADE)
def test_the_evidence_of_another_model_is_not_confirmed(name):
    certificate, model = made(name)
    torch.manual_seed(9)
    other = type(model)(*model) if isinstance(model, nn.Sequential) else model
    with torch.no_grad():
        kept = [parameter.clone() for parameter in other.parameters()]
        for parameter in other.parameters():
            parameter.copy_(-parameter)
        changed = check(certificate, other)
        for parameter, value in zip(other.parameters(), kept, strict=True):
            parameter.copy_(value)
    # Scaling holds whatever the weights are; a Farkas layer keeps its promise.
    assert not changed or name in ("scaling, certified", "scaling, refuted", "layer, everywhere")
