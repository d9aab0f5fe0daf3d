"""Balls: against samples, gradient search, the affine map around the input, and one unit in closed form."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from neuronal.certify.ball import certify_ball
from neuronal.certify.branch import Budget
from neuronal.certify.check import check
from neuronal.certify.radius import largest_radius
from neuronal.nn.implicit_bias import ImplicitBiasLinear
from tests.certify.networks import NETWORKS, inputs, network, on_sphere, worst_in_ball
from tests.geometry.networks import linear


@pytest.mark.parametrize("norm", [2, "inf"])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_point_of_a_certified_ball_has_another_class(name, norm):
    model = network(name)
    real = copy.deepcopy(model).double()
    for x in inputs(name, 4):
        c = certify_ball(model, x, norm=norm)
        if c.verdict != "certified":
            continue
        e = c.evidence
        assert 0 <= e.region <= e.radius
        assert e.region <= e.region_only or name == "linear"
        assert (real(on_sphere(x, norm, e.radius, 2000)).argmax(1) == e.label).all()
        assert worst_in_ball(real, x.double(), e.label, norm, e.radius) > 0
        deployed = certify_ball(model, x, norm=norm, promise="float32")
        assert deployed.evidence.radius <= e.radius * (1 + 1e-3)
        inside = on_sphere(x, norm, deployed.evidence.radius * (1 - 1e-5), 2000).float()
        assert (model(inside).argmax(1) == e.label).all()


def test_beyond_the_linear_region():
    model = network("relu")
    answers = [certify_ball(model, x).evidence for x in inputs("relu", 10)]
    assert sum(e.radius > 1.5 * e.region for e in answers) >= 5


def test_a_linear_network_has_its_distance_to_the_boundary():
    model = nn.Linear(3, 2).double()
    x = torch.randn(3, dtype=torch.float64)
    gap = model.weight[0] - model.weight[1]
    lead = (model(x)[0] - model(x)[1]).abs()
    for norm, dual in ((2, gap.norm()), ("inf", gap.abs().sum())):
        assert certify_ball(model, x, norm=norm).evidence.radius == pytest.approx((lead / dual).item(), rel=2e-3)


def test_the_region_ends_at_the_nearest_kink():
    first, last = linear([[1.0, 0.0], [0.0, 1.0]], [0.0, 5.0]), linear([[0.0, 1.0], [0.0, 0.0]], [0.0, 0.0])
    model = nn.Sequential(first, nn.ReLU(), last).double()
    e = certify_ball(model, torch.tensor([0.25, 0.0], dtype=torch.float64)).evidence
    assert e.region_only == pytest.approx(0.25)
    assert e.region == pytest.approx(0.25, rel=2e-3)
    assert e.radius == pytest.approx(5.0, rel=2e-3)


def test_ties_implicit_bias_memory_and_wrong_norms():
    tie = linear([[1.0, 1.0], [1.0, 1.0]], [0.0, 0.0])
    assert certify_ball(tie, torch.ones(2)).verdict == "unknown"
    c = certify_ball(nn.Sequential(nn.Linear(2, 3), ImplicitBiasLinear(3, 3)), torch.ones(2))
    assert c.verdict == "unknown"
    assert "ImplicitBiasLinear" in c.reason
    assert "bytes" in certify_ball(nn.Linear(2, 2), torch.ones(2), budget=Budget(memory=8)).reason
    with pytest.raises(ValueError, match="norm needs to be 2"):
        certify_ball(nn.Linear(2, 2), torch.ones(2), norm=1)


@pytest.mark.parametrize("norm", [2, "inf"])
def test_generators_whose_squares_underflow_still_reach(norm):
    """relu(x + y + 1/2) and relu(-x - y - 1/2) in tiny units: class 1 from x + y = -2/3 on."""
    first = linear([[1e-170, 1e-170], [-1e-170, -1e-170]], [0.5e-170, -0.5e-170], torch.float64)
    model = nn.Sequential(first, nn.ReLU(), linear([[1e170, 0.0], [0.0, 30e170]], [5.0, 0.0], torch.float64))
    certificate = certify_ball(model, torch.zeros(2, dtype=torch.float64), norm=norm)
    distance = 2 / 3 / (2 if norm == "inf" else 2**0.5)
    assert certificate.verdict == "unknown" or certificate.evidence.radius < distance


def test_units_that_are_off_do_not_end_the_region():
    """A pool over units that give 0 everywhere near: of two constants neither is about to win."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3)).double()
    with torch.no_grad():
        model[0].bias.copy_(torch.tensor([-9.0, 9.0]))
    x = torch.rand(1, 6, 6, dtype=torch.float64)
    for norm in (2, "inf"):
        certificate = certify_ball(model, x, norm=norm)
        assert certificate.evidence.region > 0.9 * min(
            certificate.evidence.region_only, certificate.evidence.margin_only
        )
        assert check(certificate, model)


@pytest.mark.parametrize("power", [1.5, 3.0, 8.0])
def test_the_radius_of_a_margin_that_falls_like_a_power(power):
    asked = []

    def margin(radius: float) -> tuple[float, float]:
        asked.append(radius)
        return 2.0 * (1 - radius / 5 - 3 * (radius / 5) ** power), 0.0

    radius = largest_radius(margin, 0.0, 5.0, 2.0)
    assert margin(radius)[0] > 0 > margin(radius * 1.003)[0]
    assert len(asked) < 10


def test_slopes_may_prove_what_was_not_proved_without():
    """They are chosen from a margin of at most 0.1 on, and raise it by 0.05."""

    def margin(radius: float) -> tuple[float, float]:
        plain = 1 - radius - radius**2
        return (plain + 0.05, 0.05) if abs(plain) < 0.1 else (plain, 0.0)

    assert largest_radius(margin, 0.0, 1.0, 1.0) > 0.63


@pytest.mark.parametrize("least", [-math.inf, math.nan])
def test_no_radius_where_there_is_no_bound(least):
    assert largest_radius(lambda radius: (least, 0.0), 0.0, 1.0, 1.0) == 0.0
    assert largest_radius(lambda radius: (1.0, 0.0), 0.0, 1e300, 1.0) < math.inf


@pytest.mark.parametrize("norm", [2, "inf"])
@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.MaxPool2d(4, stride=2, padding=1),
        nn.MaxPool2d((7, 3), stride=7, padding=(3, 1)),
        nn.AdaptiveMaxPool2d(2),
    ],
    ids=str,
)
def test_windows_that_reach_over_the_border_leave_a_linear_region(pool, norm):
    """There nothing is compared with itself: of two equal numbers neither would be known to win."""
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), pool, nn.Flatten()).double()
    with torch.no_grad():
        model = nn.Sequential(body, nn.Linear(body(torch.zeros(1, 1, 7, 7).double()).shape[1], 3)).double().eval()
    x = torch.randn(1, 7, 7, dtype=torch.float64)
    for promise in ("real", "float32"):
        c = certify_ball(model, x, norm=norm, promise=promise)
        assert 0 < c.evidence.region < c.evidence.region_only
        assert check(c, model)
        step = on_sphere(torch.zeros_like(x), norm, c.evidence.region, 500)
        there = model(x + step) + model(x - step) - 2 * model(x.unsqueeze(0))
        assert there.abs().max() < 1e-12
