"""The checkers confirm what is true and nothing that was tampered with."""

from __future__ import annotations

import copy
from dataclasses import replace
from fractions import Fraction
from functools import cache

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
from tests.certify.rational import exact, forward, mix
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


def to_a_tie(model: nn.Module, x: torch.Tensor, short: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Segments to where the class changes between two inputs, shorter by these shares."""
    labels = model(x).argmax(1)
    one, other = x[0], x[labels != labels[0]][0]
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        is_same = model((one + middle * (other - one)).unsqueeze(0)).argmax() == labels[0]
        low, high = (middle, high) if is_same else (low, middle)
    ends = (low * (1 - short)).view(-1, *[1] * one.dim())
    return one.expand(len(short), *one.shape), one + ends * (other - one)


@pytest.mark.parametrize("promise", ["real", "float32"])
@pytest.mark.parametrize("name", ["relu", "leaky", "clamp", "no_head", "geometric"])
def test_segments_are_confirmed_however_near_a_tie(name, promise):
    """What the maker proves with all roundings counted, the checker proves with those it counts."""
    # A lead is lost at seven digits in float32, and at sixteen in float64.
    low, high = (-8, -3) if promise == "float32" else (-16, -11)
    short = torch.logspace(low, high, 16, dtype=torch.float64)
    certified = 0
    for seed in range(2):
        model = network(name, seed).double()
        a, b = to_a_tie(model, 2 * inputs(name, 60, seed).double(), short)
        answers = [c for c in certify_segments(model, a, b, promise=promise) if c.verdict == "certified"]
        certified += len(answers)
        assert all(check(c, model) for c in answers)
    assert certified > 3


@pytest.mark.parametrize("promise", ["real", "float32"])
def test_a_clamp_of_values_much_wider_than_its_ends_is_confirmed(promise):
    for kink in (nn.Hardtanh(), nn.ReLU6(), Does(lambda x: x.clamp(-0.5, 2.0))):
        model = nn.Sequential(linear([[1e9], [-1e9]], [-3e8, 6e8]), kink, linear([[1.0, 0.5], [0.0, 0.0]], [0.0, -9.0]))
        c = certify_segment(model, torch.tensor([0.0]), torch.tensor([1.0]), promise=promise)
        assert c.verdict == "certified"
        assert check(c, model)


@pytest.mark.parametrize("kink", [nn.ReLU(), nn.LeakyReLU(0.3), nn.Hardtanh(-0.3, 0.7)])
def test_what_the_checker_proves_holds_in_exact_fractions(kink):
    """Scores that cancel but for rounding: a bound that forgets some of it is above the exact lead sooner or later."""
    part = torch.tensor([[0.6875, 0.3125]], dtype=torch.float64).repeat(2, 1)
    for seed in range(60):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(3, 6), kink, nn.Linear(6, 6), kink, nn.Linear(6, 2)).double()
        points = 10.0 ** (seed % 5 - 2) * torch.randn(2, 3, dtype=torch.float64)
        with torch.no_grad():
            model[4].bias -= model(part @ points)[0]
            margin = check_class._cloud_margin(model, points, part, 0, "real", 0)
        one, other = forward(model, mix(exact(points[0]), exact(points[1]), Fraction(0.3125)))
        assert Fraction(margin) <= one - other
        assert margin > -1e-9 * (1 + points.abs().max())


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


@cache
def cut_hull(name):
    """Points whose certificate needs cuts where the network bends."""
    model = network(name)
    sets = same_class_sets(model, inputs(name, 200), 4, 15)
    found = (certify_hull(model, points, budget=Budget(bounds=1)) for points in sets)
    return next(c.evidence.points for c in found if c.verdict == "certified" and any(map(len, c.evidence.cuts)))


@pytest.mark.parametrize("promise", ["real", "float32"])
@pytest.mark.parametrize("name", ["clamp", "pooled", "residual"])
def test_cut_hulls(name, promise):
    model = network(name)
    c = certify_hull(model, cut_hull(name), budget=Budget(bounds=1), promise=promise)
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


AVERAGES = {
    "a small window": (nn.AvgPool2d(2, stride=18), (1, 20, 20)),
    "adaptive": (nn.AdaptiveAvgPool2d((2, 2)), (3, 20, 20)),
    "a mean": (Does(lambda x: x.mean((2, 3))), (20, 5, 5)),
    "a sum": (Does(lambda x: x.sum(3)), (20, 5, 5)),
}


@pytest.mark.parametrize("norm", [2, "inf"])
@pytest.mark.parametrize("name", AVERAGES)
def test_averages_are_confirmed_however_near_a_tie(name, norm):
    """The roundings counted are those of the numbers an output reads, not of all there are."""
    average, shape = AVERAGES[name]
    model, x = nn.Sequential(average, nn.Flatten()), torch.ones(shape)
    certified = 0
    for lead in torch.logspace(-6, -1, 20):
        x[0, 0, :2] = 1 + lead
        c = certify_ball(model, x, norm=norm, promise="float32")
        certified += c.verdict == "certified"
        assert c.verdict == "unknown" or check(c, model)
    assert certified > 3


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
