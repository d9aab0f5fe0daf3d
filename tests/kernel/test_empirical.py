"""Kernels of given networks: the two methods, plain loops over gradients, and the limit of infinite width."""

from itertools import pairwise, product

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrize import register_parametrization

from neuronal.kernel import empirical_ntk, relu_ntk
from neuronal.kernel.empirical import _blocks, rates_of_width
from neuronal.nn import FarkasLinear, GeometricLinear
from tests.geometry.networks import Does


def by_loops(model, x, y, rates=None):
    """One gradient at a time."""

    def gradient(one, output):
        model.zero_grad()
        model(one.unsqueeze(0)).flatten()[output].backward()
        return {name: (0 * p if p.grad is None else p.grad).clone() for name, p in model.named_parameters()}

    outputs = model(x[:1]).numel()
    kernel = torch.zeros(len(x), len(y), outputs, outputs, dtype=x.dtype)
    for (i, o), (j, p) in product(product(range(len(x)), range(outputs)), product(range(len(y)), range(outputs))):
        left, right = gradient(x[i], o), gradient(y[j], p)
        for name in left:
            rate = 1.0 if rates is None else rates.get(name, 0.0)
            kernel[i, j, o, p] += rate * (left[name] * right[name]).sum()
    return kernel


def mlp(widths, bias=True, seed=0):
    torch.manual_seed(seed)
    layers = []
    for n, m in pairwise(widths):
        layers += [nn.Linear(n, m, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).double()


MODELS = {
    "mlp": lambda: mlp((3, 5, 4, 2)),
    "without biases": lambda: mlp((3, 5, 2), bias=False),
    "dropout": lambda: nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.ReLU(), nn.Linear(4, 2)).double(),
    "one layer": lambda: nn.Linear(3, 2).double(),
    "in place": lambda: nn.Sequential(nn.Linear(3, 5), nn.ReLU(inplace=True), nn.Linear(5, 2)).double(),
    "a layer that is not called": lambda: OnlyTheFirst(nn.Linear(3, 2), nn.Linear(3, 2)).double(),
}


class OnlyTheFirst(nn.Sequential):
    def forward(self, x):
        return self[0](x)


@pytest.mark.parametrize("method", ["jacobian", "structured"])
@pytest.mark.parametrize("name", MODELS)
def test_agrees_with_plain_loops(name, method):
    model = MODELS[name]().eval()
    x, y = torch.randn(4, 3, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)
    rates = {parameter: 0.3 + i for i, (parameter, _) in enumerate(model.named_parameters())}
    for given in (None, rates):
        want = by_loops(model, x, y, given)
        found = empirical_ntk(model, x, y, rates=given, method=method)
        torch.testing.assert_close(found, want)
        traced = empirical_ntk(model, x, y, rates=given, method=method, trace=True)
        torch.testing.assert_close(traced, want.diagonal(dim1=2, dim2=3).mean(-1))


@pytest.mark.parametrize("layer", [GeometricLinear, FarkasLinear])
def test_other_neurons_and_convolutions(layer):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), layer(8, 3)).double()
    x = torch.randn(3, 1, 4, 4, dtype=torch.float64)
    torch.testing.assert_close(empirical_ntk(model, x), by_loops(model, x, x))
    with pytest.raises(ValueError, match="Use 'jacobian'"):
        empirical_ntk(model, x, method="structured")


def test_batch_norm_in_evaluation_has_its_running_statistics():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2)).double()
    model(torch.randn(8, 1, 4, 4, dtype=torch.float64))
    before = {name: b.clone() for name, b in model.named_buffers()}
    x = torch.randn(3, 1, 4, 4, dtype=torch.float64)
    found = empirical_ntk(model, x)
    assert all(torch.equal(b, before[name]) for name, b in model.named_buffers())
    torch.testing.assert_close(found, by_loops(model.eval(), x, x))


@pytest.mark.parametrize("method", ["jacobian", "structured"])
def test_one_input_none_columns_and_float32(method):
    model = mlp((3, 5, 2))
    x = torch.randn(3, 4, dtype=torch.float64).T
    assert not x.is_contiguous()
    whole = by_loops(model, x, x)
    torch.testing.assert_close(empirical_ntk(model, x, method=method), whole)
    torch.testing.assert_close(empirical_ntk(model, x[:1], method=method), whole[:1, :1])
    assert empirical_ntk(model, x[:0], method=method).shape == (0, 0, 2, 2)
    assert empirical_ntk(model, x, x[:0], method=method).shape == (4, 0, 2, 2)
    single = empirical_ntk(model.float(), x.float(), method=method)
    assert single.dtype == torch.float32
    # 1e-7 times a few dozen terms.
    torch.testing.assert_close(single.double(), whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", ["jacobian", "structured"])
def test_outputs_without_a_dimension_of_their_own(method):
    column = mlp((3, 5, 1))
    x = torch.randn(4, 3, dtype=torch.float64)
    want = empirical_ntk(column, x)
    torch.testing.assert_close(empirical_ntk(nn.Sequential(*column, nn.Flatten(0)), x, method=method), want)


def test_structured_refuses_what_is_no_plain_layer():
    """Each of these used to give a wrong kernel without a word."""
    x = torch.randn(4, 3, dtype=torch.float64)
    doubled = nn.Sequential(register_parametrization(nn.Linear(3, 2), "weight", Does(lambda w: 2 * w))).double()
    tied = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)).double()
    tied[2].weight = tied[0].weight
    for model, message in ((doubled, "original is none of them"), (tied, "0.weight is also 2.weight")):
        with pytest.raises(ValueError, match=message):
            empirical_ntk(model, x, method="structured")
        torch.testing.assert_close(empirical_ntk(model, x), by_loops(model, x, x))


@pytest.mark.parametrize("method", ["jacobian", "structured"])
def test_chunks_change_nothing(method):
    model = mlp((3, 6, 2))
    x, y = torch.randn(5, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    for other in (None, y):
        whole = empirical_ntk(model, x, other, method=method)
        torch.testing.assert_close(empirical_ntk(model, x, other, method=method, memory=1), whole)


def test_chunks_are_as_large_as_memory_allows(monkeypatch):
    """Rows at once, for Jacobians of 2 outputs by 38 parameters in 8 bytes, four times over; never less than one."""
    seen = []

    def counted(x, other, rows, of, against):
        seen.append(rows)
        return _blocks(x, other, rows, of, against)

    monkeypatch.setattr("neuronal.kernel.empirical._blocks", counted)
    model, x = mlp((3, 6, 2)), torch.randn(20, 3, dtype=torch.float64)
    for memory in (1, 4 * 608, 10 * 4 * 608):
        empirical_ntk(model, x, memory=memory)
    assert seen == [1, 1, 10]


def test_wide_networks_come_close_to_the_limit():
    """At width 4,096 the mean over ten outputs is within a few percent of the recursion, biases or not."""
    x = torch.randn(6, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for beta2 in (0.0, 0.1):
        distances = []
        for width in (64, 4096):
            model = mlp((10, width, width // 4, 10))
            with torch.no_grad():
                for number, layer in enumerate(m for m in model if isinstance(m, nn.Linear)):
                    n = layer.in_features
                    layer.weight.normal_(0, ((2.0 if number else 1.0) / n) ** 0.5)
                    layer.bias.normal_(0, beta2**0.5)
            rates = rates_of_width(model, bias_variance=beta2)
            # A bias is beta times its N(0, 1), so its own kernel is beta^2 times that of plain descent.
            found = empirical_ntk(model, x, rates=rates, method="structured", trace=True)
            want = relu_ntk(x, depth=2, bias_variance=beta2).ntk
            distances.append(((found - want).norm() / want.norm()).item())
        assert distances[1] < 0.05 < distances[0]


def test_the_model_is_left_as_it_was():
    model = mlp((3, 4, 2)).train()
    before = {name: p.clone() for name, p in model.state_dict().items()}
    for method in ("jacobian", "structured"):
        empirical_ntk(model, torch.randn(2, 3, dtype=torch.float64), method=method)
    assert model.training
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())
    assert not any(m._forward_hooks for m in model.modules())


def test_frozen_parameters_do_not_count():
    model = mlp((3, 4, 2))
    model[0].requires_grad_(False)
    x = torch.randn(3, 3, dtype=torch.float64)
    rates = {name: 1.0 for name, _ in model[2].named_parameters(prefix="2")}
    want = by_loops(mlp((3, 4, 2)), x, x, rates)
    for method in ("jacobian", "structured"):
        torch.testing.assert_close(empirical_ntk(model, x, method=method), want)


def test_errors_say_what_to_do():
    model, x = mlp((3, 4, 2)), torch.randn(2, 3, dtype=torch.float64)
    with pytest.raises(ValueError, match="no parameter 'w'"):
        empirical_ntk(model, x, rates={"w": 1.0})
    with pytest.raises(ValueError, match="method needs to be"):
        empirical_ntk(model, x, method="fast")
    twice = nn.Linear(3, 3).double()
    with pytest.raises(ValueError, match="called once"):
        empirical_ntk(nn.Sequential(twice, twice), x, method="structured")
    with pytest.raises(ValueError, match="need vectors"):
        empirical_ntk(nn.Linear(3, 2).double(), torch.randn(2, 5, 3, dtype=torch.float64), method="structured")
