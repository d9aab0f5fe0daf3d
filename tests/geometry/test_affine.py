"""Affine maps against autograd."""

import pytest
import torch
from torch import nn

from neuronal.geometry.affine import affine_map
from tests.geometry.networks import NAMES, network


@pytest.mark.parametrize("name", NAMES)
def test_the_map_is_the_jacobian_and_the_output(name):
    model, shape = network(name)
    x = torch.randn(4, *shape, dtype=torch.float64)
    found = affine_map(model, x)
    assert found.weight.shape == (4, 3, *shape)
    with torch.no_grad():
        torch.testing.assert_close(found(x), model(x), atol=1e-12, rtol=1e-12)
    for row, weight in zip(x, found.weight, strict=True):
        jacobian = torch.autograd.functional.jacobian(lambda v: model(v.unsqueeze(0))[0], row)
        torch.testing.assert_close(weight, jacobian, atol=1e-12, rtol=1e-12)
    near = x + 1e-9 * torch.randn_like(x)
    with torch.no_grad():
        torch.testing.assert_close(found(near), model(near), atol=1e-12, rtol=1e-12)


def test_on_a_boundary_the_map_is_one_sides():
    model = nn.Sequential(nn.ReLU(), nn.MaxPool1d(2))
    found = affine_map(model, torch.tensor([[[0.0, 0.0, 2.0, 2.0]]]))
    assert found.weight.tolist() == [[[[[0, 0, 0, 0]], [[0, 0, 0, 1]]]]]


def test_the_model_gets_no_gradients():
    model, shape = network("cnn")
    affine_map(model, torch.randn(2, *shape))
    assert all(parameter.grad is None for parameter in model.parameters())
    with torch.no_grad():
        assert not affine_map(model, torch.randn(2, *shape)).weight.requires_grad


def test_outputs_of_any_shape_and_models_in_float32():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU())
    x = torch.randn(3, 1, 5, 5)
    found = affine_map(model, x)
    assert found.weight.shape == (3, 2, 3, 3, 1, 5, 5)
    torch.testing.assert_close(found(x), model(x).detach().double(), rtol=1e-5, atol=1e-5)
