"""Hinges of layers, and distances to the nearest bend against autograd and against walking there."""

import math

import pytest
import torch
from torch import nn

from neuronal.geometry import boundary
from neuronal.geometry.boundary import boundaries, boundary_distances
from neuronal.geometry.lowering import lower
from neuronal.geometry.pattern import activation_pattern
from neuronal.geometry.program import Kink, Maximum
from neuronal.nn.farkas import FarkasConv2d, FarkasLinear
from neuronal.nn.geometric import GeometricConv2d, GeometricLinear
from neuronal.nn.implicit_bias import ImplicitBiasLinear
from tests.geometry.networks import NAMES, network

LAYERS = [nn.Linear(4, 6), nn.Linear(4, 6, bias=False), nn.Conv2d(2, 6, 3), FarkasLinear(4, 6), FarkasConv2d(2, 6, 3)]
LAYERS += [GeometricLinear(4, 6), GeometricLinear(4, 6, activation="relu"), GeometricConv2d(2, 6, 3)]


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_on_its_boundary_a_unit_is_zero(layer):
    layer = layer.double()
    if isinstance(layer, GeometricLinear):
        nn.init.normal_(layer.scale)
    found = boundaries(nn.Sequential(layer), "0")
    assert torch.equal(found.normal, boundaries(nn.Sequential(layer), layer).normal)
    assert found.normal.shape[0] == 6
    shape = (2, 3, 3) if found.normal.shape[1] == 18 else (4,)
    for i in range(6):
        at, up = found.location[i].view(1, *shape), found.normal[i].view(1, *shape)
        with torch.no_grad():
            below, on, above = (layer(at + step * up).flatten(1)[0, i].item() for step in (-0.1, 0.0, 0.1))
        assert abs(on) < 1e-12
        assert above != 0
        assert below == 0 if getattr(layer, "activation", None) else below < 0 < above


def test_layers_without_hyperplanes_are_refused():
    for layer in (nn.ReLU(), nn.BatchNorm1d(3), ImplicitBiasLinear(4, 3), FarkasConv2d(2, 4, 3, groups=2)):
        with pytest.raises(ValueError, match=type(layer).__name__):
            boundaries(nn.Sequential(layer), "0")


def units(model, x):
    """All ReLU inputs of an MLP, by plain code."""
    found = []
    for layer in model:
        if isinstance(layer, nn.ReLU):
            found.append(x)
        x = layer(x)
    return torch.cat(found)


@pytest.mark.parametrize(("norm", "dual"), [(1, math.inf), (2, 2), (math.inf, 1)])
def test_distances_are_those_of_every_units_gradient(norm, dual):
    model, shape = network("mlp")
    x = torch.randn(6, *shape, dtype=torch.float64)
    found = boundary_distances(model, x, norm=norm)
    for i, row in enumerate(x):
        z = units(model, row)
        jacobian = torch.autograd.functional.jacobian(lambda v: units(model, v), row)
        want = (z.abs() / torch.linalg.vector_norm(jacobian, dual, dim=1)).min(0)
        assert found.distance[i] == pytest.approx(want.values.item(), rel=1e-12)
        assert found.unit[i] + (8 if found.bend[i] else 0) == want.indices


def bending(model, x, bend, unit):
    """What is compared with zero at a unit of a bend, and its gradient."""
    program = lower(model, x)

    def value(v):
        seen = []

        def look(step, inputs):
            if isinstance(step.op, Kink | Maximum):
                seen.append(inputs[0] - inputs[1] if isinstance(step.op, Maximum) else inputs[0])

        program(v, look)
        return seen[bend].flatten()[unit]

    return value(x), torch.autograd.functional.jacobian(value, x)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("norm", [2.0, math.inf])
def test_inside_the_ball_the_pattern_stays_and_just_outside_it_changes(name, norm):
    model, shape = network(name)
    x = torch.randn(3, *shape, dtype=torch.float64)
    found = boundary_distances(model, x, norm=norm)
    assert (found.distance > 0).all()
    for row, distance, bend, unit in zip(x, found.distance, found.bend, found.unit, strict=True):
        steps = torch.randn(200, *shape, dtype=torch.float64)
        steps /= torch.linalg.vector_norm(steps.flatten(1), norm, dim=1).view(-1, *[1] * len(shape))
        inside = activation_pattern(model, torch.cat([row[None], row + 0.9999 * distance * steps]))
        assert (inside.bits == inside.bits[0]).all()
        assert found.bends[bend].path
        z, gradient = bending(model, row[None], bend, unit)
        steepest = gradient.sign() if norm == math.inf else gradient / gradient.norm()
        outside = activation_pattern(model, row - 1.0001 * distance * z.sign() * steepest)
        assert (outside.bits != inside.bits[0]).any()


def test_parts_change_nothing(monkeypatch):
    model, shape = network("residual")
    x = torch.randn(2, *shape)
    want = boundary_distances(model, x)
    monkeypatch.setattr(boundary, "PART", 10_000)
    torch.testing.assert_close(boundary_distances(model, x).distance, want.distance)


def test_where_nothing_bends_the_distance_is_infinite():
    found = boundary_distances(nn.Linear(3, 2), torch.randn(2, 3))
    assert found.distance.tolist() == [math.inf, math.inf]
    assert found.bend.tolist() == [-1, -1]
    with pytest.raises(ValueError, match="got 3"):
        boundary_distances(nn.Linear(3, 2), torch.randn(2, 3), norm=3)
