"""Implicit-bias layers under the transforms of torch.func, against calls one by one."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vmap

from neuronal.nn import ImplicitBiasConv2d, ImplicitBiasLinear
from tests.ops.dense_field import solve_recorded

EXACT = {"coupling": -0.5, "tolerance": 1e-11, "dtype": torch.float64}
LAYERS = {
    "linear": (lambda: ImplicitBiasLinear(6, 8, **EXACT), (5, 6)),
    "image": (lambda: ImplicitBiasConv2d(2, 3, 3, **EXACT), (5, 2, 7, 7)),
    "per channel": (lambda: ImplicitBiasConv2d(2, 3, 3, per_channel=True, learn_slope=True, **EXACT), (5, 2, 7, 7)),
    "two iterations": (lambda: ImplicitBiasLinear(6, 8, steps=2, learn_slope=True, **EXACT), (5, 6)),
    "two iterations, images": (lambda: ImplicitBiasConv2d(2, 3, 3, steps=2, per_channel=True, **EXACT), (5, 2, 7, 7)),
}


@pytest.fixture(params=LAYERS)
def made(request):
    make, shape = LAYERS[request.param]
    return make(), torch.randn(shape, dtype=torch.float64)


def loss(layer, parameters, x):
    return functional_call(layer, parameters, (x,)).pow(3).sum()


def one_by_one(layer, x):
    parameters = dict(layer.named_parameters())
    return dict(zip(parameters, torch.autograd.grad(layer(x).pow(3).sum(), parameters.values()), strict=True))


def assert_close(ours, theirs):
    for name, expected in theirs.items():
        torch.testing.assert_close(ours[name], expected, rtol=1e-7, atol=1e-7)


def test_gradients_of_all_and_image_by_image(made):
    layer, x = made
    parameters = dict(layer.named_parameters())
    assert_close(grad(lambda p: loss(layer, p, x))(parameters), one_by_one(layer, x))
    each = vmap(grad(lambda p, one: loss(layer, p, one[None])), (None, 0))(parameters, x)
    for i in range(len(x)):
        assert_close({name: value[i] for name, value in each.items()}, one_by_one(layer, x[i : i + 1]))
    summed = grad(lambda p: vmap(lambda one: loss(layer, p, one[None]))(x).sum())(parameters)
    assert_close(summed, one_by_one(layer, x))


def test_several_networks_at_once(made):
    layer, x = made
    models = [copy.deepcopy(layer) for _ in range(3)]
    for model in models:
        for parameter in model.parameters():
            parameter.data += 0.05 * torch.randn_like(parameter)
    parameters, buffers = stack_module_state(models)
    together = vmap(lambda p, b: functional_call(layer, (p, b), (x,)))(parameters, buffers)
    torch.testing.assert_close(together, torch.stack([model(x) for model in models]), rtol=1e-8, atol=1e-8)
    each = vmap(grad(lambda p: loss(layer, p, x)))(parameters)
    for i, model in enumerate(models):
        assert_close({name: value[i] for name, value in each.items()}, one_by_one(model, x))


def test_matrices_of_derivatives(made):
    layer, x = made
    expected = torch.autograd.functional.jacobian(layer, x[:2])
    torch.testing.assert_close(jacrev(layer)(x[:2]), expected, rtol=1e-7, atol=1e-7)
    # Along another dimension than the first.
    moved = vmap(layer, in_dims=1, out_dims=1)(x[:2].unsqueeze(1))
    torch.testing.assert_close(moved.squeeze(1), layer(x[:2]), rtol=1e-8, atol=1e-8)


class WrittenOut(nn.Module):
    """The same layer by all pairs, every operation recorded."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        layer = self.layer
        a = layer._map(x, layer.weight, layer.bias)
        rows, *numbers = layer._rows(a)
        coupling, slope = (t.repeat(len(rows) // len(t)) for t in numbers)
        z = rows if layer.steps else solve_recorded(rows, coupling, slope)
        for _ in range(layer.steps or 0):
            t = (slope[:, None, None] * (z.unsqueeze(1) - z.unsqueeze(2))).tanh()
            z = rows - coupling.unsqueeze(1) * t.mean(2)
        return z.view(a.shape)


@pytest.fixture
def both(made):
    """A layer of weak coupling and the same written out, and numbers to put in."""
    layer, x = made
    nn.init.constant_(layer.raw_coupling, -0.05)
    return layer, WrittenOut(layer), x[:2]


def test_forward_mode(both):
    *layers, x = both
    ours, theirs = (jvp(layer, (x,), (x.flip(0),)) for layer in layers)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(jacfwd(layers[0])(x), jacrev(layers[1])(x), rtol=1e-9, atol=1e-9)


def test_gradients_of_gradients(both):
    """With torch.func and with create_graph, of what works in place behind the layer."""
    *layers, x = both
    found = []
    for layer in layers:
        x.requires_grad_()
        (g,) = torch.autograd.grad(layer(x).relu_().pow(3).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(g.square().sum(), list(layers[0].parameters())))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)

    def penalty(layer, parameters):
        return grad(lambda x: functional_call(layer, parameters, (x,)).relu().pow(3).sum())(x).square().sum()

    parameters = dict(layers[0].named_parameters())
    for ours, theirs in zip(grad(lambda p: penalty(layers[0], p))(parameters).values(), found[1], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_second_derivatives_image_by_image(both):
    *layers, x = both
    ours, theirs = (hessian(lambda one, layer=layer: layer(one[None]).pow(3).sum()) for layer in layers)
    torch.testing.assert_close(vmap(ours)(x), torch.stack([theirs(one) for one in x]), rtol=1e-9, atol=1e-9)
