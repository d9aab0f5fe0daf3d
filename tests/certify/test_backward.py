"""Bounds carried backwards, by the maker and by the checker: against samples and a plain CROWN."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from neuronal.certify import statement
from neuronal.certify.backward import lines
from neuronal.certify.ball import _Ball, certify_ball
from neuronal.certify.check import check
from neuronal.certify.cloud import FLOAT32
from neuronal.certify.globe import Globe
from neuronal.geometry.lowering import lower
from tests.certify.networks import NETWORKS, inputs, network, on_sphere


def plain_crown(model: nn.Sequential, x: Tensor, label: int, norm: object, radius: float) -> float:
    """The least margin by CROWN with its usual slopes, as in the paper and with nothing rounded in mind."""
    layers = [module for module in model if isinstance(module, nn.Linear)]
    ranges: list[tuple[Tensor, Tensor]] = []

    def lower(rows: Tensor, depth: int) -> Tensor:
        total = torch.zeros(len(rows), dtype=rows.dtype)
        for k in reversed(range(depth + 1)):
            total = total + rows @ layers[k].bias
            rows = rows @ layers[k].weight
            if k:
                low, high = ranges[k - 1]
                upper = high.clamp(min=0) / (high.clamp(min=0) - low.clamp(max=0)).clamp(min=1e-12)
                line = torch.where(rows > 0, (high > -low).double(), upper)
                total = total - (rows.clamp(max=0) * upper * low.clamp(max=0)).sum(1)
                rows = rows * line
        dual = rows.abs().sum(1) if norm == "inf" else rows.norm(dim=1)
        return total + rows @ x - radius * dual

    for depth, layer in enumerate(layers[:-1]):
        eye = torch.eye(layer.out_features, dtype=x.dtype)
        ranges.append((lower(eye, depth), -lower(-eye, depth)))
    classes = torch.eye(layers[-1].out_features, dtype=x.dtype)
    return float(lower(classes[label] - classes[torch.arange(len(classes)) != label], len(layers) - 1).min())


@pytest.mark.parametrize("norm", [2, "inf"])
def test_balls_are_no_smaller_than_those_of_crown(norm):
    """The radius stated is 0.999 of one that is within 0.001 of the largest found."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 4)).double()
    for x in torch.randn(6, 8, dtype=torch.float64):
        certificate = certify_ball(model, x, norm=norm)
        evidence = certificate.evidence
        with torch.no_grad():
            assert plain_crown(model, x, evidence.label, norm, 1.005 * evidence.radius) < 0
        assert check(certificate, model)


@pytest.mark.parametrize("slope", [0.0, 0.2, 1.7, -0.6, -1.0])
def test_lines_enclose_a_kink(slope):
    generator = torch.Generator().manual_seed(0)
    low, high = torch.randn(2, 500, generator=generator, dtype=torch.float64).sort(0).values
    kink = torch.tensor(slope, dtype=torch.float64)
    for chosen in (None, torch.rand(500, generator=generator, dtype=torch.float64) * 4 - 2):
        both = lines(kink, low, high, chosen)
        for t in torch.linspace(0, 1, 21, dtype=torch.float64):
            x = torch.lerp(low, high, t)
            y = torch.where(x > 0, x, slope * x)
            assert (both.below[0] * x + both.below[1] <= y + 1e-15).all()
            assert (both.above[0] * x + both.above[1] >= y - 1e-15).all()


@pytest.mark.parametrize("norm", [2, "inf"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_checkers_bounds_hold_with_any_slopes(name, norm):
    model = copy.deepcopy(network(name)).double()
    generator = torch.Generator().manual_seed(1)
    for x, radius in zip(inputs(name, 3).double(), (0.05, 0.5, 3.0), strict=True):
        steps = torch.eye(x.numel(), dtype=x.dtype).view(-1, 1, *x.shape)
        globe = Globe([x.unsqueeze(0), *steps], torch.zeros(1, *x.shape).double(), 0.0, size=radius, norm=norm)
        with torch.no_grad():
            scores = model(globe)
            rows = torch.randn(5, 1, 3, generator=generator, dtype=torch.float64)
            if name == "linear":
                rows = rows[:, :, : scores.radius.shape[1]]
            slopes = [torch.rand(shape[1:], generator=generator) for _, shape in globe.notes.layers]
            seen = model(torch.cat([on_sphere(x, norm, radius, 1500), on_sphere(x, norm, radius / 2, 500)]))
            for chosen in ({}, globe.chosen(slopes)):
                least = scores.least(rows, chosen)
                assert least.isfinite().all()
                assert (least.unsqueeze(1) <= rows.squeeze(1) @ seen.T).all()


def rounded_in_float32(layer: nn.Module, x: Tensor) -> Tensor:
    """What one rounding of each product may do to the result."""
    if isinstance(layer, nn.Linear):
        return 2.0**-24 * (x.abs() @ layer.weight.abs().T)
    return 2.0**-24 * 0.2 * x.abs() * (x < 0)


@pytest.mark.parametrize("bends", [True, False])
def test_both_leave_room_for_what_the_deployed_network_rounds(bends):
    """The first step alone, and what follows it."""
    torch.manual_seed(0)
    first = nn.LeakyReLU(0.2) if bends else nn.Linear(6, 6, bias=False)
    model = nn.Sequential(first, nn.Linear(6, 8), nn.LeakyReLU(0.2), nn.Linear(8, 3)).double()
    x, radius = torch.linspace(-1, 1, 6, dtype=torch.float64), 1e-14
    maker = _Ball(lower(model, x.unsqueeze(0)), x, 0, 2, "float32")
    globe = Globe(
        [x[None], *torch.eye(6).double().view(6, 1, 6)], torch.zeros(1, 6).double(), FLOAT32, size=radius, norm=2
    )
    with torch.no_grad():
        maker._margin(radius)
        before = x.unsqueeze(0)
        for layer, number in zip(model[:3], (1, 2, 3), strict=True):
            after, rows = layer(before), torch.eye(layer(before).shape[1]).double()
            globe = layer(globe)
            room = rounded_in_float32(layer, before)[0]
            # The other way is as far.
            for low in (maker.back.lower(number, rows), globe.least(rows.unsqueeze(1), {})):
                assert (after[0] - low >= room).all()
                assert (after[0] - low <= 1000 * 2.0**-24).all()
            before = after


@pytest.mark.parametrize("pad", [nn.ReflectionPad1d(2), nn.ConstantPad1d(2, 0.0)])
def test_a_copy_that_pads_or_repeats_carries_coefficients_back(pad):
    torch.manual_seed(0)
    model = nn.Sequential(pad, nn.Conv1d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 3))
    model = model.double()
    for x in torch.randn(4, 1, 7, dtype=torch.float64):
        maker = _Ball(lower(model, x.unsqueeze(0)), x, 0, "inf", "real")
        rows = torch.randn(5, 3, dtype=torch.float64)
        with torch.no_grad():
            maker._margin(0.3)
            last = maker.bounds.steps[-1]
            least = maker.back.lower(last.inputs[0], rows @ model[-1].weight) + rows @ model[-1].bias
            assert (least.unsqueeze(1) <= rows @ model(on_sphere(x, "inf", 0.3, 2000)).T).all()
            tiny = _Ball(lower(model, x.unsqueeze(0)), x, 0, "inf", "real")
            tiny._margin(1e-9)
            close = tiny.back.lower(last.inputs[0], rows @ model[-1].weight) + rows @ model[-1].bias
            assert torch.allclose(close, rows @ model(x.unsqueeze(0))[0], atol=1e-6)


class Detached(nn.Module):
    """A value that torch takes no derivative through still moves."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).detach().relu())


def test_what_is_detached_is_followed_back():
    torch.manual_seed(0)
    model = Detached().double()
    x = torch.randn(4, dtype=torch.float64)
    globe = Globe([x[None], *torch.eye(4).double().view(4, 1, 4)], torch.zeros(1, 4).double(), 0.0, size=1.0, norm=2)
    with torch.no_grad():
        least = model(globe).least(torch.eye(2).double().unsqueeze(1), {})
        assert (least <= model(on_sphere(x, 2, 1.0, 2000)).amin(0)).all()


def test_slopes_are_a_proposal():
    """Wrong ones prove less, and those of another network are not used."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 4))
    made = [certify_ball(model, x) for x in torch.randn(12, 8)]
    chosen = [one for one in made if one.evidence.slopes]
    assert chosen
    for one in chosen:
        for slopes in (tuple(7 - slope for slope in one.evidence.slopes), one.evidence.slopes[:1], ()):
            larger = replace(one.evidence, slopes=slopes, radius=1.2 * one.evidence.radius)
            forged = replace(one, evidence=larger, statement=statement.ball(larger.label, larger.radius, 2))
            assert not check(forged, model)
        for slopes in (None, 3.0, (None,), [*one.evidence.slopes], tuple(s * torch.nan for s in one.evidence.slopes)):
            assert not check(replace(one, evidence=replace(one.evidence, slopes=slopes)), model)
