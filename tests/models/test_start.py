"""The starts of a network, each by the numbers it promises."""

import pytest
import torch
from torch import nn

from neuronal.models.registry import create_model
from neuronal.nn.farkas import Balance, FarkasConv2d


def hidden(start, *, neuron="standard", norm="none", width=2000, inputs=3):
    shape = {"num_classes": 1, "in_chans": inputs, "img_size": 1}
    torch.manual_seed(0)
    model = create_model("mlp1", neuron, **shape, width=width, norm=norm, start=start)
    return model, model.features[1]


@pytest.mark.parametrize("norm", ["none", "weight_alone", "batch"])
def test_glorot_is_uniform_with_its_limit_and_without_biases(norm):
    model, layer = hidden("glorot", norm=norm)
    limit = (6 / 2003) ** 0.5
    assert 0.99 * limit < layer.weight.abs().max() <= limit * (1 + 1e-6)
    assert layer.weight.std().item() == pytest.approx(limit / 3**0.5, rel=0.03)
    assert layer.bias is None or not layer.bias.any()
    assert not model.head.bias.any()
    assert layer.weight.requires_grad


def test_geometric_units_start_as_published_or_as_the_paper_says():
    published, paper = hidden("glorot", neuron="geometric")[1], hidden("normal", neuron="geometric")[1]
    assert (published.direction()[:, -1] >= 0).all()
    assert published.scale.max() < 0.1
    assert (paper.direction()[:, -1] < 0).any()
    assert (paper.scale == 1).all()


def test_normal_has_deviation_one_in_layers_of_any_size():
    for width in (50, 2000):
        assert hidden("normal", width=width)[1].weight.std().item() == pytest.approx(1, rel=0.2)


@pytest.mark.parametrize("norm", ["batch", "weight"])
def test_residual_networks_can_start_as_he_has_it(norm):
    """With a variance of 2 over the outputs of a filter times its places."""
    torch.manual_seed(0)
    model = create_model("resnet18", "standard", num_classes=10, in_chans=3, img_size=32, norm=norm, start="he")
    layers = [layer for layer in model.features.modules() if isinstance(layer, nn.Conv2d)]
    assert len(layers) == 20
    for layer in layers:
        expected = (2 / (layer.out_channels * layer.kernel_size[0] ** 2)) ** 0.5
        assert layer.weight.std().item() == pytest.approx(expected, rel=0.1)
        assert layer.bias is None or (layer.bias == 0).all()
    # The head is torch's: uniform, with a bias.
    assert model.head.weight.abs().max() <= 512**-0.5
    assert (model.head.bias != 0).any()


@pytest.mark.parametrize("rule", ["softplus", "max"])
@pytest.mark.parametrize("name", ["farkasnet18", "farkasnet50"])
def test_the_free_units_of_farkas_layers_start_as_he_has_it(name, rule):
    """Biases are 0, and the last unit still balances the others."""
    torch.manual_seed(0)
    shape = {"num_classes": 10, "in_chans": 3, "img_size": 32}
    model = create_model(name, "farkas", **shape, width=64, rule=rule, start="he")
    layers = [layer for layer in model.features.modules() if isinstance(layer, FarkasConv2d)]
    assert len(layers) >= 10
    for layer in layers:
        expected = (2 / ((layer.out_channels - 1) * layer.kernel_size[0] ** 2)) ** 0.5
        assert layer.rows.std().item() == pytest.approx(expected, rel=0.1)
        torch.testing.assert_close(layer.weight[-1], -layer.rows.mean(0))
    balances = [module for module in model.modules() if isinstance(module, Balance)]
    assert len(balances) > len(layers)
    for balance in balances:
        assert not balance.offsets.any()
        assert balance.promise() >= 0
        assert (balance.promise() > 0) == (rule == "softplus")


@pytest.mark.parametrize("other", [{"zero_last": True}, {"published": True}])
def test_a_farkasnet_has_one_start(other):
    with pytest.raises(ValueError, match="start of their own, got start 'he'"):
        create_model("farkasnet18", "farkas", num_classes=10, in_chans=3, img_size=32, start="he", **other)
