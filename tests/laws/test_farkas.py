"""Law of Farkas layers: for every input the largest pre-activation is at least ``promise()``.

The oracle is a linear program that looks for the worst input: minimise t over x and t subject to w_j x + b_j <= t.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import nn

from neuronal.nn import FarkasConv2d, FarkasLinear, FarkasResidual

OPTIONS = [
    {},
    {"aggregate": "mean"},
    {"margin": 0.5},
    {"learn_multipliers": True},
    {"aggregate": "mean", "learn_multipliers": True, "cutoff": 0.3},
    {"cutoff": 1.0},
    {"cutoff": -1.0},
    {"rule": "max"},
    {"rule": "max", "aggregate": "mean", "cutoff": 0.7},
]


def worst(weight: np.ndarray, bias: np.ndarray) -> float:
    """The least that max_j (w_j x + b_j) can be over all x; HiGHS's solution is evaluated, not believed."""
    units, n = weight.shape
    found = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=np.hstack([weight, -np.ones((units, 1))]),
        b_ub=-bias,
        bounds=[(None, None)] * (n + 1),
    )
    assert found.status == 0, found.message
    assert np.max(weight @ found.x[:-1] + bias) == pytest.approx(found.fun, abs=1e-6 * max(1.0, np.abs(bias).max()))
    return found.fun


def scrambled(module, seed, size=1.0):
    """Parameters far from where they start, as training may leave them."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(size * torch.randn(parameter.shape, generator=random, dtype=parameter.dtype))
    return module


def map_of(layer, *shape):
    """Weight and bias read off the layer's own outputs, not off its attributes."""
    basis = torch.eye(math.prod(shape), dtype=torch.float64).view(-1, *shape)
    with torch.no_grad():
        bias = layer(torch.zeros(1, *shape, dtype=torch.float64)).flatten()
        return (layer(basis).flatten(1) - bias).T.numpy(), bias.numpy()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@settings(max_examples=12, deadline=None)
@given(n=st.integers(1, 9), units=st.integers(2, 9), seed=st.integers(0, 10**6))
def test_linear_layers_keep_their_promise_at_the_worst_input(options, n, units, seed):
    layer = scrambled(FarkasLinear(n, units, dtype=torch.float64, **options), seed)
    weight, bias = map_of(layer, n)
    promise = layer.promise().item()
    assert worst(weight, bias) >= promise - 1e-7
    assert promise >= options.get("cutoff", 0.0)
    if options.get("rule") != "max":
        assert promise > options.get("cutoff", 0.0)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_promise_is_the_best_possible_when_there_are_inputs_enough(options):
    """With at least as many inputs as free units the worst case is attained, so nothing larger could be promised."""
    layer = scrambled(FarkasLinear(8, 6, dtype=torch.float64, **options), 3)
    assert worst(*map_of(layer, 8)) == pytest.approx(layer.promise().item(), abs=1e-6)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_layer_without_weights_still_has_an_active_unit(options):
    layer = scrambled(FarkasLinear(4, 5, dtype=torch.float64, **options), 1)
    nn.init.zeros_(layer.rows)
    out = layer(torch.randn(10, 4, dtype=torch.float64)).amax(1)
    assert (out >= layer.promise() - 1e-12).all()


def adversarial(kind, n, units):
    """Free rows made to break the promise: all alike, opposite pairs, of rank one, huge, or with far offsets."""
    random = torch.Generator().manual_seed(4)
    rows = torch.randn(units - 1, n, generator=random, dtype=torch.float64)
    offsets = torch.randn(units - 1, generator=random, dtype=torch.float64)
    if kind == "alike":
        rows[:] = rows[0]
    elif kind == "opposite":
        rows[1::2] = -rows[0::2][: len(rows[1::2])]
    elif kind == "rank one":
        rows = offsets.unsqueeze(1) * rows[:1]
    elif kind == "huge":
        rows *= 1e4
    elif kind == "far":
        offsets = -1e3 * offsets.abs()
    else:
        rows.zero_()
    return rows, offsets


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", ["alike", "opposite", "rank one", "huge", "far", "zero"])
def test_adversarial_layers_keep_it_too(kind, options):
    layer = FarkasLinear(5, 6, dtype=torch.float64, **options)
    rows, offsets = adversarial(kind, 5, 6)
    with torch.no_grad():
        layer.rows.copy_(rows)
        layer.balance.offsets.copy_(offsets)
    weight, bias = map_of(layer, 5)
    scale = max(1.0, np.abs(bias).max())
    assert worst(weight, bias) >= layer.promise().item() - 1e-6 * scale


def test_the_papers_bias_allows_a_dead_layer_and_ours_does_not():
    """All weights and biases zero: every pre-activation is 0, and a ReLU passes no gradient there."""
    x = torch.randn(5, 3)
    for rule, alive in (("max", False), ("softplus", True)):
        layer = FarkasLinear(3, 4, rule=rule)
        for parameter in layer.parameters():
            nn.init.zeros_(parameter)
        assert bool((layer(x).amax(1) > 0).all()) is alive


def test_the_papers_condition_for_a_cutoff_is_not_enough():
    """b_m > c - sum b_j, the paper's condition, leaves the maximum at c / m; ours reaches c."""
    rows = torch.randn(7, 7, dtype=torch.float64)
    weight = torch.cat([rows, -rows.sum(0, keepdim=True)]).numpy()
    c, m = 1.0, 8
    paper = np.append(np.zeros(7), c)
    assert worst(weight, paper) == pytest.approx(c / m, abs=1e-6)
    ours = FarkasLinear(7, 8, cutoff=c, margin=1e-9, dtype=torch.float64)
    assert worst(weight, np.append(np.zeros(7), c * m)) == pytest.approx(c, abs=1e-6)
    assert ours.promise() > c


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    "conv", [{"padding": 1}, {"padding": 1, "groups": 2}, {"padding": 2, "padding_mode": "reflect"}]
)
def test_convolutions_keep_it_at_every_position(options, conv):
    layer = scrambled(FarkasConv2d(4, 6, 3, dtype=torch.float64, **conv, **options), 5)
    for size in (0.0, 1e-3, 1.0, 1e3):
        z = layer(size * torch.randn(8, 4, 7, 7, dtype=torch.float64)).amax(1)
        assert (z >= layer.promise() - 1e-9 * max(1, size)).all()


@pytest.mark.parametrize("groups", [1, 2])
def test_the_worst_patch_of_a_convolution(groups):
    layer = scrambled(FarkasConv2d(4, 6, 2, groups=groups, dtype=torch.float64), 7)
    assert worst(*map_of(layer, 4, 2, 2)) >= layer.promise().item() - 1e-7


@pytest.mark.parametrize("widen", [True, False])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_residual_sums_of_any_sign(widen, options):
    module = scrambled(FarkasResidual(5, widen, dtype=torch.float64, **options), 2)
    weight, bias = map_of(module, 5)
    assert weight.shape == (6 if widen else 5, 5)
    assert worst(weight, bias) == pytest.approx(module.promise().item(), abs=1e-6)


def test_without_a_bias_the_maximum_is_not_negative():
    layer = scrambled(FarkasLinear(5, 4, bias=False, dtype=torch.float64), 1)
    assert layer.promise() == 0
    assert worst(*map_of(layer, 5)) >= -1e-7


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.ELU(), nn.LeakyReLU(0.1)])
def test_every_layer_of_a_network_passes_a_gradient(activation):
    """What the promise is for: at every input the chain of derivatives is not cut in any layer."""
    net = nn.Sequential(*[m for _ in range(20) for m in (FarkasLinear(6, 6), activation)])
    x = 10 * torch.randn(50, 6, requires_grad=True)
    for layer in net:
        x = layer(x)
        if layer is activation:
            assert (x > 0).any(1).all()
