"""Networks of one-sided activations keep the promise, against what their layers are made of."""

import pytest
import torch
from torch import nn

from neuronal.models import create_model
from neuronal.nn import FarkasLinear, GeometricLinear
from neuronal_papers.farkas.one_sided import ACTIVATIONS, SmoothReLU

INPUTS = 10 * torch.randn(200, 1, 2, 2, generator=torch.Generator().manual_seed(0))


def network(neuron="farkas", **options):
    return create_model("one_sided", neuron, num_classes=3, in_chans=1, img_size=2, widths=(6, 5, 4), **options)


def largest_before_each_activation(net, x):
    seen = []
    for module in net.modules():
        if isinstance(module, tuple({type(make()) for make in ACTIVATIONS.values()})):
            module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].amax(1)))
    net(x)
    return torch.stack(seen)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("cutoff", [-2.0, 0.0, 1.0])
def test_some_unit_is_above_the_cutoff_in_every_layer(activation, cutoff):
    net = network(activation=activation, cutoff=cutoff, margin=0.01).double()
    largest = largest_before_each_activation(net, torch.cat([INPUTS, torch.zeros(1, 1, 2, 2)]).double())
    assert len(largest) == 3
    assert largest.min() > cutoff


@pytest.mark.parametrize("options", [{"rule": "max"}, {"learn_multipliers": True}, {"aggregate": "mean"}])
def test_options_reach_every_layer(options):
    ((name, value),) = options.items()
    layers = [module for module in network(**options).modules() if isinstance(module, FarkasLinear)]
    assert [f"{name}={value!r}" in repr(layer.balance) for layer in layers] == [True] * 3


def test_closed_layers_of_another_neuron_keep_the_promise():
    net = network("geometric", closed=True).double()
    assert largest_before_each_activation(net, INPUTS.double()).min() > 0
    assert [m.out_features for m in net.modules() if isinstance(m, GeometricLinear)] == [5, 4, 3]


@pytest.mark.parametrize(
    ("neuron", "options", "words"),
    [
        ("standard", {"margin": 0.1}, "closed=True"),
        ("farkas", {"closed": True}, "closed already"),
        ("farkas", {"activation": "tanh"}, "Unknown activation 'tanh'"),
    ],
)
def test_what_makes_no_sense_is_refused(neuron, options, words):
    with pytest.raises(ValueError, match=words):
        network(neuron, **options)


@pytest.mark.parametrize("width", [0.5, 1.0, 3.0])
def test_the_slope_of_smooth_relu_rises_in_a_straight_line(width):
    x = torch.linspace(-4, 4, 401, dtype=torch.float64, requires_grad=True)
    y = SmoothReLU(width)(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert torch.allclose(slope, (x / width).clamp(0, 1), atol=1e-12)
    # The integral of the slope from the left, where the value is 0; the trapezoid is exact but for the two corners.
    assert torch.allclose(y[1:], torch.cumulative_trapezoid(slope, x), atol=1e-3)
    with pytest.raises(ValueError, match="needs width > 0, got 0"):
        SmoothReLU(0)


@torch.no_grad()
def test_a_wide_parabola_squares_small_numbers_away():
    # How much outputs of four layers of torch's own start differ from image to image.
    outputs = [torch.rand(500, 784)] * 3
    for inputs in (784, 64, 64, 64):
        layer, activations = nn.Linear(inputs, 64), (nn.ReLU(), SmoothReLU(), SmoothReLU(1))
        outputs = [activation(layer(x)) for activation, x in zip(activations, outputs, strict=True)]
    relu, narrow, wide = (x.std(0).mean().item() for x in outputs)
    assert 0.2 < narrow / relu < 0.5
    assert wide / relu < 1e-3
