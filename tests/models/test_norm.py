import pytest
import torch
from torch import nn

from neuronal.models.norm import Parts
from neuronal.nn import InputMeanNorm
from neuronal.nn.families import FAMILIES, STANDARD, ZERO_BIAS
from tests.models.networks import small


def kinds(modules):
    return [type(module) for module in modules]


def test_the_order_of_layer_norm_and_relu():
    def order(norm, **place):
        return [kind.__name__ for kind in kinds(Parts(STANDARD, norm, **place).conv(2, 3, 3))]

    assert order("none") == ["Conv2d", "ReLU"]
    assert order("batch") == ["Conv2d", "BatchNorm2d", "ReLU"]
    assert order("batch", batch_after_relu=True) == ["Conv2d", "ReLU", "BatchNorm2d"]
    assert order("input_mean") == ["InputMeanNorm", "Conv2d", "ReLU"]
    assert order("weight") == ["ParametrizedConv2d", "MeanOnlyBatchNorm", "ReLU"]
    assert order("weight", batch_after_relu=True) == ["ParametrizedConv2d", "MeanOnlyBatchNorm", "ReLU"]
    assert order("weight_input_mean") == ["InputMeanNorm", "ParametrizedConv2d", "ReLU"]
    assert order("nf") == ["ScaledStandardisedConv2d", "ReLU"]
    linear = Parts(STANDARD, "batch").linear(2, 3)
    assert kinds(linear) == [nn.Linear, nn.BatchNorm1d, nn.ReLU]


@pytest.mark.parametrize("neuron", FAMILIES)
def test_the_usual_norm(neuron):
    usual = {"zero_bias": ("fixup", "none"), "farkas": ("none", "none")}.get(neuron, ("batch", "batch"))
    layers = FAMILIES[neuron]
    assert (Parts(layers, None, residual=True).norm, Parts(layers, None).norm) == usual
    after_relu = Parts(layers, None, batch_after_relu=True).norm
    assert after_relu == ("none" if neuron == "zero_bias" else "batch")


@pytest.mark.parametrize("neuron", ["standard", "geometric", "implicit_bias"])
def test_a_layer_has_no_bias_where_batch_norm_would_cancel_it(neuron):
    layers = FAMILIES[neuron]
    assert Parts(layers, "batch").conv(2, 3, 3)[0].bias is None
    assert Parts(layers, "batch", batch_after_relu=True).conv(2, 3, 3)[0].bias is not None
    assert Parts(layers, "none").linear(2, 3)[0].bias is not None
    if neuron == "standard":
        assert Parts(layers, "weight").conv(2, 3, 3)[0].bias is None


def test_the_first_layer_of_nf_has_gain_one_and_zero_bias_has_no_bias():
    parts = Parts(ZERO_BIAS, "nf")
    first, second = parts.conv(2, 3, 3, first=True)[0], parts.conv(3, 3, 3)[0]
    assert (first.factor, second.factor) == (1.0, pytest.approx(1.7129, abs=1e-4))
    assert first.bias is None
    assert Parts(STANDARD, "nf").conv(2, 3, 3)[0].bias is not None


@pytest.mark.parametrize("side", [7, 8])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
def test_same_padding_of_even_kernels_is_torchs(kernel, side):
    net = nn.Sequential(*Parts(STANDARD, "input_mean").conv(2, 3, kernel, padding="same", relu=False)).eval()
    conv = net[-1]
    x = torch.rand(1, 2, side, side)
    before, after = (kernel - 1) // 2, kernel // 2
    padded = nn.functional.pad(x, (before, after, before, after))
    torch.testing.assert_close(net(x), nn.functional.conv2d(padded, conv.weight, conv.bias))
    assert net(x).shape == (1, 3, side, side)


@pytest.mark.parametrize("model", ["fcn", "cnn", "vgg6", "ucn", "resnet9", "resnet50"])
def test_input_mean_centres_what_the_layer_sees(model):
    """The module called right after every InputMeanNorm is a layer, and its input has mean 0 in every channel."""
    net = small(model, norm="input_mean", img_size=20)
    layers = [m for m in net.features.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) == sum(isinstance(m, InputMeanNorm) for m in net.modules())
    seen = []

    def look(layer, inputs):
        seen.append(inputs[0].mean([0, *range(2, inputs[0].dim())]))

    for layer in layers:
        layer.register_forward_pre_hook(look)
    net(torch.randn(4, 2, 20, 20) + 1)
    assert len(seen) == len(layers)
    for mean in seen:
        torch.testing.assert_close(mean, torch.zeros_like(mean), atol=1e-5, rtol=0)


@pytest.mark.parametrize("model", ["fcn", "mlp1", "vgg6"])
def test_scales_outside_are_the_same_network_until_one_is_negative(model):
    torch.manual_seed(0)
    inside = small(model, "geometric", norm="none")
    outside = small(model, "geometric", norm="none", outside=True)
    with torch.no_grad():
        for p, q in zip(inside.parameters(), outside.parameters(), strict=True):
            q.copy_(p)
    x = torch.randn(3, 2, 8, 8)
    torch.testing.assert_close(inside(x), outside(x))
    layer = next(m for m in outside.modules() if hasattr(m, "scale"))
    with torch.no_grad():
        layer.scale.neg_()
    assert layer(torch.randn(5, 2, 8, 8) if model == "vgg6" else torch.randn(5, 128)).max() <= 0
    assert not any(isinstance(m, nn.ReLU) for m in outside.modules())
