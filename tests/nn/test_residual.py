import math

import pytest
import torch
from torch import nn

from neuronal.nn import ScaledResidual, ScaledStandardisedConv2d, ScaledStandardisedLinear, fixup_
from neuronal.nn.families import FAMILIES
from neuronal.nn.residual import RELU_GAIN, he_


def test_rows_against_torchs_batch_norm_over_the_weights():
    """How timm computes the same: the filters as channels of a one-image batch."""
    layer = ScaledStandardisedConv2d(4, 6, 3)
    nn.init.uniform_(layer.gain, 0.5, 2)
    scale = layer.gain * RELU_GAIN / math.sqrt(36)
    flat = layer.raw.reshape(1, 6, -1)
    oracle = nn.functional.batch_norm(flat, None, None, weight=scale, training=True, momentum=0.0, eps=1e-5)
    torch.testing.assert_close(layer.weight, oracle.reshape_as(layer.raw))


def test_the_gain_of_relu_by_quadrature():
    x = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    density = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
    mean, square = (torch.trapezoid(x.relu() ** k * density, x) for k in (1, 2))
    assert (1 / (square - mean**2).sqrt()).item() == pytest.approx(RELU_GAIN, rel=1e-9)


def test_conversion_and_plain_torch():
    plain = nn.Conv2d(4, 6, 3, padding=1)
    layer = ScaledStandardisedConv2d.from_standard(plain)
    assert torch.equal(layer.raw, plain.weight)
    assert torch.equal(layer.bias, plain.bias)
    x = torch.randn(2, 4, 5, 5)
    torch.testing.assert_close(layer.to_standard()(x), layer(x))
    with pytest.raises(ValueError, match="at least 2 inputs per unit to centre, got 1"):
        ScaledStandardisedLinear(1, 3)


@pytest.mark.parametrize(("m", "power"), [(2, -1 / 2), (3, -1 / 4)])
def test_fixup_scales_with_the_number_of_branches(m, power):
    branch = [nn.Conv2d(64, 64, 3) for _ in range(m)]
    fixup_(branch, 16)
    expected = math.sqrt(2 / 576) * 16**power
    for layer in branch[:-1]:
        assert layer.weight.std().item() == pytest.approx(expected, rel=0.02)
    assert branch[-1].weight.eq(0).all()
    assert all(layer.bias.eq(0).all() for layer in branch)


def test_fixup_and_he_refuse_what_they_do_not_cover():
    with pytest.raises(TypeError, match="he_ needs a layer of one of the families, got ReLU"):
        he_(nn.ReLU())
    with pytest.raises(ValueError, match="at least 2 layers in a branch, got 1"):
        fixup_([nn.Linear(2, 2)], 3)
    with pytest.raises(ValueError, match="at least 1 branch, got 0"):
        fixup_([nn.Linear(2, 2), nn.Linear(2, 2)], 0)


def test_a_transition_takes_its_shortcut_from_the_scaled_and_activated_input():
    branch, shortcut = nn.Linear(4, 6), nn.Linear(4, 6)
    first, second = ScaledResidual.stage([branch, nn.Linear(6, 6)], alpha=0.5, variance=4.0, shortcut=shortcut)
    x = torch.randn(3, 4)
    h = (x / 2).relu()
    torch.testing.assert_close(first(x), shortcut(h) + 0.5 * branch(h))
    assert first.beta == 0.5
    assert second.shortcut is None
    assert second.beta == pytest.approx(1 / math.sqrt(1 + 0.25))


@pytest.mark.parametrize("neuron", FAMILIES)
def test_he_draws_every_neuron_alike(neuron):
    layer = FAMILIES[neuron].Conv2d(32, 64, 3)
    he_(layer, 0.5)
    plain = layer if isinstance(layer, nn.Conv2d) or neuron == "implicit_bias" else layer.to_standard()
    # The last unit of a Farkas layer is made of the others.
    assert plain.weight[:-1].std().item() == pytest.approx(0.5 * math.sqrt(2 / 288), rel=0.02)
    assert plain.bias is None or plain.bias[:-1].eq(0).all()
    he_(layer, 0.0)
    assert layer(torch.randn(1, 32, 5, 5))[:, :-1].eq(0).all()
