"""Implicit-bias layers under the transforms of torch.func, against calls one by one."""

import copy

import pytest
import torch
from torch.func import functional_call, grad, jacrev, stack_module_state, vmap

from neuronal.nn import ImplicitBiasConv2d, ImplicitBiasLinear

EXACT = {"coupling": -0.5, "tolerance": 1e-11, "dtype": torch.float64}
LAYERS = {
    "linear": (lambda: ImplicitBiasLinear(6, 8, **EXACT), (5, 6)),
    "image": (lambda: ImplicitBiasConv2d(2, 3, 3, **EXACT), (5, 2, 7, 7)),
    "per channel": (lambda: ImplicitBiasConv2d(2, 3, 3, per_channel=True, learn_slope=True, **EXACT), (5, 2, 7, 7)),
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


def test_what_there_is_none_of_says_so(made):
    layer, x = made
    with pytest.raises(NotImplementedError, match="jvp"):
        torch.func.jvp(layer, (x,), (x,))
    x.requires_grad_()
    (first,) = torch.autograd.grad(layer(x).pow(2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        first.sum().backward()
    with pytest.raises(NotImplementedError, match="implicit-bias units have no gradients of gradients"):
        grad(lambda x: grad(lambda x: layer(x).pow(2).sum())(x).sum())(x.detach())
