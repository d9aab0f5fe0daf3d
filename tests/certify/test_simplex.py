"""Hulls and cones: against samples, gradient search, segments, and networks made to mislead."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from neuronal.certify.branch import Budget
from neuronal.certify.segment import certify_segment
from neuronal.certify.simplex import certify_cone, certify_hull
from neuronal.geometry.regions import regions_2d
from neuronal.nn.implicit_bias import ImplicitBiasLinear
from tests.certify.networks import (
    NETWORKS,
    counterexamples,
    inputs,
    network,
    same_class_sets,
    spike,
    worst_by_gradient,
)
from tests.geometry.networks import linear


def groups(model: nn.Module, name: str, size: int, count: int) -> list[torch.Tensor]:
    """Sets of inputs with one predicted class, near together."""
    sets = same_class_sets(model, inputs(name, 200), size, count)
    return [points[:1] + 0.2 * (points - points[:1]) for points in sets if len(points) == size]


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_certified_hull_has_a_counterexample(name, size):
    model = network(name)
    verdicts = []
    for points in groups(model, name, size, 6):
        for promise in ("real", "float32"):
            c = certify_hull(model, points, promise=promise, budget=Budget(bounds=100, seconds=2))
            verdicts.append(c.verdict)
            if c.verdict == "certified":
                assert counterexamples(model, points, c.evidence.label, promise) == 0
                assert worst_by_gradient(model, points, c.evidence.label, steps=10) > 0
            elif c.verdict == "refuted":
                assert int(model(c.witness.unsqueeze(0)).argmax()) == c.evidence.other != c.evidence.label
    assert "certified" in verdicts


def test_a_hull_of_two_is_a_segment():
    model = network("relu", seed=7)
    for points in groups(model, "relu", 2, 20):
        assert certify_hull(model, points).verdict == certify_segment(model, *points).verdict


def test_one_linear_region_is_decided_at_once():
    model = network("relu")
    points = inputs("relu", 1) + 1e-4 * inputs("relu", 4, seed=1)
    c = certify_hull(model, points)
    assert c.verdict == "certified"
    assert c.evidence.bounds == 1


def test_a_small_budget_says_what_is_open():
    model = spike(0.25, at=0.5, height=0.999)
    points = torch.tensor([[0.0], [0.7], [1.0]])
    c = certify_hull(model, points, budget=Budget(bounds=3, exact=False))
    assert c.verdict == "unknown"
    assert "open" in c.reason
    c = certify_hull(model, points, budget=Budget(bounds=3, seconds=0))
    assert c.verdict == "unknown"
    assert "0 seconds" in c.reason
    assert certify_hull(model, points, budget=Budget(bounds=3)).verdict == "certified"


def leads_everywhere(model: nn.Module, points: torch.Tensor, label: int) -> bool:
    """Whether the label's score is the largest at every corner of every linear region: planes, not simplices."""
    regions = regions_2d(copy.deepcopy(model).double(), *points.double())
    scores = torch.cat([regions.at(number, polygon) for number, polygon in enumerate(regions.polygons)])
    others = torch.cat([scores[:, :label], scores[:, label + 1 :]], dim=1)
    return bool((scores[:, label] > others.amax(1)).all())


@pytest.mark.parametrize("name", NETWORKS)
def test_triangles_are_all_decided_as_planes_say(name):
    model = network(name)
    verdicts = []
    for points in same_class_sets(model, inputs(name, 200), 3, 6):
        c = certify_hull(model, points, budget=Budget(bounds=1))
        verdicts.append(c.verdict)
        assert (c.verdict == "certified") == leads_everywhere(model, points, c.evidence.label)
    assert "unknown" not in verdicts


def test_a_narrow_counterexample_that_no_bisection_finds():
    model = nn.Sequential(linear([[1.0, 1.0, 1.0]], [0.0]), *spike(1e-5, at=0.2345)).double()
    points = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]).double()
    assert certify_hull(model, points, budget=Budget(bounds=50, exact=False)).verdict == "unknown"
    assert certify_hull(model, points, budget=Budget(bounds=50)).verdict == "refuted"


def test_a_tie_stays_open_and_says_so():
    model = nn.Sequential(linear([[1.0, -1.0], [-1.0, 1.0]]), nn.ReLU(), linear([[1.0, 1.0], [0.0, 0.0]]))
    points = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.2, 0.9]])  # |x - y| against 0: equal on the diagonal
    c = certify_hull(model, points)
    assert c.verdict == "unknown"
    assert "tell apart" in c.reason


def zero_bias() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12, bias=False), nn.ReLU(), nn.Linear(12, 3, bias=False))


def test_a_cone_of_a_network_without_biases_is_certified():
    model = zero_bias()
    points = inputs("relu", 1).abs() + 0.1 * inputs("relu", 3, seed=1)
    c = certify_cone(model, points)
    assert c.verdict == "certified"
    w = torch.rand(5000, 3, dtype=torch.float64) * 10 ** torch.empty(5000, 1, dtype=torch.float64).uniform_(-6, 6)
    assert (model.double()(w @ points.double()).argmax(1) == c.evidence.hull.evidence.label).all()
    assert certify_cone(model.float(), points, promise="float32").verdict == "unknown"
    assert certify_cone(model, points[:1]).verdict == "certified"


def test_a_cone_needs_scaling_and_a_hull_that_avoids_zero():
    biased = network("relu")
    points = inputs("relu", 1) + 1e-4 * inputs("relu", 2, seed=1)
    c = certify_cone(biased, points)
    assert c.verdict == "unknown"
    assert "scale" in c.reason
    x = inputs("relu", 1)
    through_zero = torch.cat([x, -x])
    assert certify_cone(zero_bias(), through_zero).verdict != "certified"


def test_implicit_bias_and_wrong_points():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), ImplicitBiasLinear(8, 3))
    for certify in (certify_hull, certify_cone):
        c = certify(model, torch.rand(3, 4))
        assert c.verdict == "unknown"
        assert "ImplicitBiasLinear" in c.reason
    with pytest.raises(ValueError, match="two or more inputs"):
        certify_hull(model, torch.rand(1, 4))
    with pytest.raises(ValueError, match="finite"):
        certify_hull(model, torch.full((2, 4), torch.inf))
