"""Bounds hold everywhere, at every step, in both precisions."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from neuronal.certify import segment as segments
from neuronal.certify.bounds import Band, Bounds, is_plain_float32, plain_arithmetic
from neuronal.certify.branch import Budget
from neuronal.certify.segment import certify_segment, certify_segments
from neuronal.geometry import segment as exact_segment
from neuronal.geometry.lowering import lower
from neuronal.geometry.program import evaluate
from tests.certify.networks import NETWORKS, counterexamples, inputs, network, same_class_pairs, weights
from tests.geometry.networks import linear

CPU = torch.device("cpu")


def walked(bounds: Bounds, points: torch.Tensor, corners: torch.Tensor) -> dict[int, Band]:
    """The band of every value from the first bend on, on one part of one simplex."""
    rows = torch.zeros(1, dtype=torch.long)
    with plain_arithmetic(CPU):
        images = bounds.images(points.unsqueeze(0))
        part = corners.unsqueeze(0).permute(1, 2, 0).to(bounds.dtype)
        live = {i: bounds._part(image, rows, part) for i, image in images.items()}
        for step in bounds.steps[bounds.bends : bounds.end]:
            live[step.output] = bounds._apply(step, [live[i] for i in step.inputs], len(corners))
    return live


def margin(bounds: Bounds, points: torch.Tensor, label: int) -> float:
    """The lower bound of the lead of a label on the whole simplex."""
    whole = torch.eye(len(points), dtype=torch.float64).unsqueeze(0)
    with plain_arithmetic(CPU):
        images = bounds.images(points.unsqueeze(0))
        return bounds.margins(images, torch.zeros(1, dtype=torch.long), whole, torch.tensor([label])).item()


@pytest.mark.parametrize("vertices", [2, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_value_stays_between_its_two_functions(name, dtype, vertices):
    model = network(name)
    points = inputs(name, vertices)
    program = lower(model, points)
    corners = torch.eye(vertices, dtype=torch.float64)
    corners[0] = corners.mean(0)
    live = walked(Bounds(program, dtype=dtype, promise="real"), points, corners)
    lam = weights(300, vertices)
    values = {0: (lam @ corners @ points.double().flatten(1)).view(300, *points.shape[1:])}
    for step in program.steps:
        values[step.output] = evaluate(step.op, *(values[i] for i in step.inputs))
    assert len(live) > (name != "linear")
    for number, band in live.items():
        low, high = (torch.tensordot(lam, t.double(), 1) for t in (band.low, band.high))
        slack = 1e-13 * values[number].abs().max()  # of the values, which are rounded here
        assert (values[number] >= low - slack).all(), program.steps[number - 1]
        assert (values[number] <= high + slack).all(), program.steps[number - 1]


@pytest.mark.parametrize("promise", ["real", "float32"])
@pytest.mark.parametrize("name", NETWORKS)
def test_margins_are_lower_bounds_of_the_network_meant(name, promise):
    model = network(name, seed=3)
    points = inputs(name, 3, seed=3)
    program = lower(model, points)
    lam = weights(1000, 3)
    meant = copy.deepcopy(model).double() if promise == "real" else model
    x = (lam @ points.double().flatten(1)).to(next(meant.parameters()).dtype).view(1000, *points.shape[1:])
    with torch.no_grad():
        scores = meant(x).double()
    for dtype in (torch.float32, torch.float64):
        stage = Bounds(program, dtype=dtype, promise=promise)
        for y in range(3):
            others = scores.clone()
            others[:, y] = -torch.inf
            assert margin(stage, points, y) <= (scores[:, y] - others.amax(1)).min().item()


def test_float64_bounds_on_one_point_are_tight():
    model = network("relu")
    points = inputs("relu", 1).repeat(2, 1)
    stage = Bounds(lower(model, points), dtype=torch.float64, promise="real")
    scores = copy.deepcopy(model).double()(points.double())[0].sort()
    lead = (scores.values[-1] - scores.values[-2]).item()
    assert margin(stage, points, scores.indices[-1].item()) == pytest.approx(lead, abs=1e-12)


def test_shortened_float32_products_are_not_used():
    assert is_plain_float32()
    torch.set_float32_matmul_precision("medium")
    try:
        assert not is_plain_float32()
    finally:
        torch.set_float32_matmul_precision("highest")


def test_automatic_casts_do_not_reach_the_bounds():
    """In bfloat16 a lead of 1e-4 would be lost, or found where there is none."""
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    x = torch.rand(2, 2)
    want = certify_segment(model, x[0], x[1])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = certify_segment(model, x[0], x[1])
    assert got.verdict in (want.verdict, "unknown")


def test_inputs_between_ends_that_cancel_are_off_by_the_rounding_of_the_ends():
    """x + y is 0 on the real segment; deployed, each is off by the rounding of numbers near 2^22."""
    # Class 0 while |x + y| < 0.1.
    first, last = linear([[1.0, 1.0], [-1.0, -1.0]]), linear([[0.0, 0.0], [1.0, 1.0]], [0.1, 0.0])
    model = nn.Sequential(first, nn.ReLU(), last)
    a, b = torch.tensor([2.0**22 + 1, -(2.0**22) - 1]), torch.tensor([-(2.0**22), 2.0**22])
    t = torch.rand(4000)
    x = a + t.unsqueeze(1) * (b - a)  # one of the usual formulas, but for each number with its own rounding
    x[:, 1] = (1 - t) * a[1] + t * b[1]
    deployed = model(x).argmax(1)
    assert deployed.any()
    assert certify_segment(model, a, b, promise="float32").verdict != "certified"


def test_mixtures_computed_in_float32_are_inside_the_image_of_their_points():
    """Bounds in float64 add next to nothing themselves."""
    points = 1000 * inputs("relu", 4)
    bounds = Bounds(lower(nn.Sequential(nn.ReLU(), nn.Linear(6, 3)), points), dtype=torch.float64, promise="float32")
    image = bounds.images(points.unsqueeze(0))[0]
    lam = weights(2000, 4)
    off = ((lam.float() @ points).double() - lam @ points.double()).abs()
    assert off.max() > 0
    assert (off <= image.radius[0]).all()


def test_a_dropped_breakpoint_proves_nothing_false(monkeypatch):
    """Breakpoints are proposals: without some of them pieces are open, never wrong."""

    def without_every_other(*args, **kwargs):
        lines = exact_segment.pieces(*args, **kwargs)
        keep = [torch.tensor([i % 2 == 0 or i == len(p.t) - 1 for i in range(len(p.t))]) for p in lines]
        return [exact_segment.Pieces(p.t[k], p.outputs[k]) for p, k in zip(lines, keep, strict=True)]

    monkeypatch.setattr(segments, "pieces", without_every_other)
    for seed in range(4):
        model = network("relu", seed)
        a, b = same_class_pairs(model, inputs("relu", 40, seed), 200)
        for c in certify_segments(model, a, b, budget=Budget(bounds=1)):
            points = torch.stack([c.evidence.a, c.evidence.b])
            assert c.verdict != "certified" or counterexamples(model, points, c.evidence.label, "real", 200) == 0


def test_a_factor_that_underflows_is_not_taken_for_zero():
    """A tent over [0, 1e30] behind a weight that float32 does not have: the class changes in the middle."""
    tiny, large = linear([[1e-50]], [0.0], torch.float64), linear([[2e20]] * 3, [0.0, -1.0, -2.0], torch.float64)
    last = linear([[0.0, 0.0, 0.0], [1.0, -2.0, 1.0]], [0.5, 0.0], torch.float64)
    model = nn.Sequential(tiny, large, nn.ReLU(), last)
    a, b = torch.zeros(1).double(), torch.full((1,), 1e30).double()
    assert len(model(torch.stack([a, (a + b) / 2, b])).argmax(1).unique()) == 2
    assert certify_segment(model, a, b).verdict == "refuted"
