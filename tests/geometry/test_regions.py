"""Regions of a plane against dense samples, patterns, autograd and the exact line."""

import numpy as np
import pytest
import torch
from torch import nn

from neuronal.geometry.pattern import activation_pattern
from neuronal.geometry.regions import Regions, area, regions_2d
from neuronal.geometry.segment import segment_pieces
from tests.geometry.networks import NAMES, network


def three(shape, *, seed=0):
    """Three inputs; images, which have more units, are taken nearer together, for some hundred regions."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(4, *shape, generator=generator, dtype=torch.float64)
    return 2 * noise[1:] if len(shape) == 1 else noise[0] + 0.05 * noise[1:]


def points(places, corners):
    return torch.tensordot(torch.as_tensor(places), corners, 1)


def misses(model, found, corners):
    """How far the model is from the regions' maps, inside each of them, at most."""
    worst = 0.0
    generator = np.random.default_rng(0)
    for i, polygon in enumerate(found.polygons):
        places = generator.dirichlet(np.ones(len(polygon)), 5) @ polygon
        with torch.no_grad():
            worst = max(worst, (model(points(places, corners)) - found.at(i, places)).abs().max().item())
    return worst


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("domain", ["triangle", "parallelogram"])
def test_the_network_is_affine_on_every_region_and_nothing_is_left_out(name, domain):
    model, shape = network(name)
    corners = three(shape)
    found = regions_2d(model, *corners, domain=domain)
    assert found.count > 3
    assert abs(found.areas().sum() - (0.5 if domain == "triangle" else 1)) < 1e-12
    assert (found.areas() > 0).all()
    assert misses(model, found, corners) < 1e-11
    assert all(np.abs(polygon.sum(1) - 1).max() < 1e-12 for polygon in found.polygons)


@pytest.mark.parametrize("name", ["mlp", "pools"])
def test_a_region_has_one_pattern_and_different_ones_have_different_patterns(name):
    model, shape = network(name)
    corners = three(shape)
    found = regions_2d(model, *corners)
    middles = np.stack([polygon.mean(0) for polygon in found.polygons])
    patterns = activation_pattern(model, points(middles, corners))
    assert len(patterns.groups()) == found.count
    generator = np.random.default_rng(0)
    for polygon, bits in zip(found.polygons, patterns.bits, strict=True):
        inside = generator.dirichlet(np.ones(len(polygon)), 4) @ polygon
        assert (activation_pattern(model, points(inside, corners)).bits == bits).all()


@pytest.mark.parametrize("name", ["mlp", "pools", "residual"])
def test_along_an_edge_the_regions_are_the_pieces_of_the_segment(name):
    model, shape = network(name)
    p, q, r = three(shape)
    found = regions_2d(model, p, q, r)
    on_edge = {round(c[1], 9) for polygon in found.polygons for c in polygon if abs(c[2]) < 1e-12}
    assert sorted(on_edge) == pytest.approx(segment_pieces(model, p, q).t.tolist(), abs=2e-9)


@pytest.mark.parametrize("name", NAMES)
def test_classes_are_those_predicted(name):
    model, shape = network(name)
    corners = three(shape, seed=1)
    found = regions_2d(model, *corners)
    classes = found.classes()
    assert abs(sum(area(part.corners) for part in classes) - 0.5) < 1e-11
    generator = np.random.default_rng(0)
    for part in classes:
        places = generator.dirichlet(np.ones(len(part.corners)), 3) @ part.corners
        with torch.no_grad():
            outputs = model(points(places, corners))
        # Near a decision boundary both answers are right.
        assert (outputs.amax(1) - outputs[:, part.predicted]).max() < 1e-9


def test_a_class_that_leads_at_no_corner_is_found():
    polygon = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    outputs = torch.tensor([[[3.0, 2, 0], [0, 2, 3], [0, 2, 3]]], dtype=torch.float64)
    parts = Regions((polygon,), outputs).classes()
    assert [part.predicted for part in parts] == [0, 1, 2]
    assert sum(area(part.corners) for part in parts) == pytest.approx(0.5, abs=1e-14)
    lines = Regions((polygon,), outputs).decision_boundary()
    places = [[1 / 3, 1 / 3], [2 / 3, 2 / 3]]  # of the first class, along the edges from p
    assert sorted(sorted(line[:, 0].tolist()) for line in lines) == [pytest.approx(place) for place in places]
    equal = Regions((polygon,), outputs[..., [0, 0, 2]]).classes()
    assert [part.predicted for part in equal] == [0, 2]


@pytest.mark.parametrize("name", NAMES)
def test_on_the_decision_boundary_the_two_largest_outputs_are_equal(name):
    model, shape = network(name)
    corners = three(shape, seed=1)
    for line in regions_2d(model, *corners).decision_boundary():
        with torch.no_grad():
            largest = model(points(np.stack([line[0], line.mean(0), line[1]]), corners)).topk(2).values
        assert (largest[:, 0] - largest[:, 1]).max() < 1e-9


def test_doors():
    model, shape = network("mlp")
    p, q, r = three(shape)
    assert regions_2d(model, p[None], q[None], r[None]).count == regions_2d(model, p, q, r).count
    with pytest.raises(ValueError, match="one shape"):
        regions_2d(model, p, q, r[:2])
    with pytest.raises(ValueError, match="triangle, parallelogram"):
        regions_2d(model, p, q, r, domain="circle")
    with pytest.raises(ValueError, match="limit=3"):
        regions_2d(model, p, q, r, limit=3)
    flat = regions_2d(nn.Linear(5, 3), p, q, r)
    assert flat.count == 1
