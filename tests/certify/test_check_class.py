"""The checkers confirm what is true and nothing that was tampered with."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from neuronal.certify import bounds, check_class, statement
from neuronal.certify.ball import certify_ball
from neuronal.certify.branch import Budget
from neuronal.certify.certificate import Certificate
from neuronal.certify.check import check
from neuronal.certify.check_class import covers_simplex
from neuronal.certify.cuts import Cutter
from neuronal.certify.segment import certify_segment, certify_segments
from neuronal.certify.simplex import certify_cone, certify_hull
from neuronal.geometry.program import Dense
from tests.certify.networks import NETWORKS, TwoPools, inputs, network, same_class_pairs, same_class_sets
from tests.geometry.networks import Does, linear


def tampered(certificate: Certificate, **changes) -> Certificate:
    evidence = replace(certificate.evidence, **changes)
    if certificate.kind == "ball":
        certificate = replace(certificate, statement=statement.ball(evidence.label, evidence.radius, evidence.norm))
    return replace(certificate, evidence=evidence)


def negative(model: nn.Module) -> nn.Module:
    """Scores turned around: whatever class was predicted is the last choice now."""
    return nn.Sequential(model, Does(torch.neg))


@pytest.mark.parametrize("promise", ["real", "float32"])
@pytest.mark.parametrize("name", NETWORKS)
def test_segments_are_confirmed(name, promise):
    model = network(name)
    a, b = same_class_pairs(model, inputs(name, 16), 12)
    for c in certify_segments(model, a, b, promise=promise):
        assert bool(check(c, model)) == (c.verdict != "unknown")
        assert not check(c, negative(model))


def test_no_interval_of_a_segment_can_be_left_out():
    model = network("relu", seed=3)
    a, b = same_class_pairs(model, inputs("relu", 30), 60)
    answers = [c for c in certify_segments(model, a, b) if c.verdict == "certified"]
    c = max(answers, key=lambda c: len(c.evidence.intervals))
    ends = c.evidence.intervals
    assert check(c, model)
    for i in range(len(ends)):
        assert not check(tampered(c, intervals=torch.cat([ends[:i], ends[i + 1 :]])), model)
    assert not check(tampered(c, intervals=ends * 0.5), model)


def no_false_one_is_confirmed(answers: list[tuple[nn.Module, Certificate]]) -> bool:
    """Whether some of these certificates are false, as an honest maker says, and none of the false ones is confirmed."""

    def is_false(c: Certificate, model: nn.Module) -> bool:
        points = torch.stack([c.evidence.a, c.evidence.b]) if c.kind == "segment" else c.evidence.points
        return c.verdict == "certified" and certify_hull(model, points).verdict == "refuted"

    false = [(model, c) for model, c in answers if is_false(c, model)]
    return len(false) > 1 and not any(check(c, model) for model, c in false)


def test_what_a_mutant_certifies_is_not_confirmed(monkeypatch):
    monkeypatch.setattr(Dense, "absolute", lambda self, x: F.linear(x, self.weight))
    monkeypatch.setattr(bounds, "maximum", lambda one, other, vertices: one)
    points = torch.tensor([[1.0, 0.01], [0.01, 1.0]])
    answers = [(TwoPools(), certify_segment(TwoPools(), *points))]
    for seed in range(4):
        model = network("relu", seed)
        a, b = same_class_pairs(model, inputs("relu", 40, seed), 100)
        answers += [(model, c) for c in certify_segments(model, a, b)]
    monkeypatch.undo()
    assert no_false_one_is_confirmed(answers)


@pytest.mark.parametrize("name", ["relu", "pooled", "residual"])
def test_hulls(name):
    model = network(name)
    points = 0.2 * inputs(name, 3, seed=4)
    c = certify_hull(model, points)
    assert c.verdict != "unknown"
    assert check(c, model)
    assert not check(c, negative(model))
    if c.verdict == "certified":
        assert not check(tampered(c, parts=c.evidence.parts[1:]), model)


def cut_hull(model, name):
    """A certificate that needed cuts where the network bends."""
    sets = same_class_sets(model, inputs(name, 200), 4, 15)
    found = (certify_hull(model, points, budget=Budget(bounds=1)) for points in sets)
    return next(c for c in found if c.verdict == "certified" and any(map(len, c.evidence.cuts)))


@pytest.mark.parametrize("promise", ["real", "float32"])
@pytest.mark.parametrize("name", ["clamp", "pooled", "residual"])
def test_cut_hulls(name, promise):
    model = network(name)
    c = cut_hull(model, name)
    c = certify_hull(model, c.evidence.points, budget=Budget(bounds=1), promise=promise)
    assert check(c, model)
    assert not check(c, negative(model))
    cuts = c.evidence.cuts
    assert not check(tampered(c, cuts=()), model)
    which = next(k for k, own in enumerate(cuts) if own)
    for wrong in ({"node": 99}, {"t": 1.5}, {"j": cuts[which][0].i}, {"j": 4}):
        own = (cuts[which][0]._replace(**wrong), *cuts[which][1:])
        assert not check(tampered(c, cuts=(*cuts[:which], own, *cuts[which + 1 :])), model)


def test_a_maker_that_forgets_one_half_is_found_out(monkeypatch):
    honest = Cutter._halves
    monkeypatch.setattr(Cutter, "_halves", lambda *given: honest(*given)[::2])
    monkeypatch.setattr(Cutter, "_look", lambda *_: None)
    answers = []
    for seed in range(6):
        model = network("relu", seed)
        sets = same_class_sets(model, inputs("relu", 200, seed), 3, 10)
        answers += [(model, certify_hull(model, points, budget=Budget(bounds=1))) for points in sets]
    monkeypatch.undo()
    assert no_false_one_is_confirmed(answers)


def test_covering():
    def cut(parts, i, a, b):
        middle = (parts[i][a] + parts[i][b]) / 2
        one, other = parts[i].clone(), parts[i].clone()
        one[a], other[b] = middle, middle
        return [*parts[:i], one, other, *parts[i + 1 :]]

    generator = torch.Generator().manual_seed(0)
    for vertices in (2, 3, 4):
        parts = [torch.eye(vertices, dtype=torch.float64)]
        for _ in range(25):
            i = int(torch.randint(len(parts), (), generator=generator))
            a, b = torch.randperm(vertices, generator=generator)[:2].tolist()
            parts = cut(parts, i, a, b)
            assert covers_simplex(torch.stack(parts))
        for i in range(len(parts)):
            assert not covers_simplex(torch.stack(parts[:i] + parts[i + 1 :]))
            assert not covers_simplex(torch.stack([*parts[:i], parts[i - 1], *parts[i + 1 :]]))
    assert not covers_simplex(torch.empty(0, 3, 3))


def test_cones():
    model = nn.Sequential(nn.Linear(6, 12, bias=False), nn.ReLU(), nn.Linear(12, 3, bias=False))
    points = inputs("relu", 1).abs() + 0.1 * inputs("relu", 3, seed=1)
    c = certify_cone(model, points)
    assert c.verdict == "certified"
    assert check(c, model)
    biased = copy.deepcopy(model)
    biased[0].bias = nn.Parameter(torch.full((12,), 1e-6))
    assert not check(c, biased)


@pytest.mark.parametrize("norm", [2, "inf"])
@pytest.mark.parametrize("name", NETWORKS)
def test_balls(name, norm):
    model = network(name)
    for promise in ("real", "float32"):
        c = certify_ball(model, inputs(name, 3)[1], norm=norm, promise=promise)
        assert c.verdict == "certified"
        assert check(c, model)
        assert not check(tampered(c, radius=c.evidence.radius * 1.5), model)
        assert not check(c, negative(model))


def test_a_function_without_a_rule_is_named():
    model = Does(lambda x: torch.sort(x, dim=1).values)
    c = certify_segment(nn.Linear(3, 3), torch.zeros(3), torch.ones(3) * 1e-3)
    evidence = replace(c.evidence, label=0, intervals=torch.tensor([[0.0, 1.0]]))
    assert "no rule for sort" in str(check(replace(c, verdict="certified", evidence=evidence), model))


def discarded(x):
    y = x + 1
    y.mul_(-1)
    return y


def renamed(x):
    y = z = x + 1
    z *= -1
    return y


def through_a_module(x):
    y = -(x + 1)
    nn.ReLU(inplace=True)(y)
    return y + 0.5


def under_a_view(x):
    y = x + 1
    y.flatten(1).mul_(-1)
    return y


CHANGED = [discarded, renamed, through_a_module, under_a_view, lambda x: x.to(torch.int32).to(torch.float32) - 0.1]


@pytest.mark.parametrize("function", CHANGED)
def test_a_model_that_changes_values_in_place_or_rounds_them_is_not_confirmed(function):
    """Scores are what a function makes of a number, and 0: a careless reader would prove the class it does not predict."""
    a, b = torch.tensor([0.2]), torch.tensor([1.5])
    head = linear([[1.0], [0.0]], [0.0, 0.0])
    plain = certify_segment(head, a, b)
    assert plain.verdict == "certified"
    model = nn.Sequential(Does(function), head)
    wrong = 1 - int(model(a.unsqueeze(0))[0].argmax())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check_class, "_class", lambda *_: wrong)  # only the proof counts here
        assert not check(tampered(plain, label=wrong), model)
