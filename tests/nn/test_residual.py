import math

import pytest
import torch
from torch import nn

from neuronal.nn import Multiplier, ScaledResidual, ScaledStandardisedConv2d, ScaledStandardisedLinear, fixup_
from neuronal.nn.families import FAMILIES
from neuronal.nn.residual import RELU_GAIN, he_


def test_rows_are_centred_and_have_the_promised_length():
    layer = ScaledStandardisedConv2d(16, 8, 3, eps=0.0, dtype=torch.float64)
    nn.init.normal_(layer.raw, mean=3, std=0.1)
    nn.init.uniform_(layer.gain, 0.5, 2)
    w = layer.weight.flatten(1)
    torch.testing.assert_close(w.mean(1), torch.zeros(8, dtype=torch.float64), atol=1e-13, rtol=0)
    torch.testing.assert_close(w.norm(dim=1), RELU_GAIN * layer.gain)


def test_against_torchs_batch_norm_over_the_weights():
    """How timm computes the same: the filters as channels of a one-image batch."""
    layer = ScaledStandardisedConv2d(4, 6, 3, gain=1.5)
    nn.init.uniform_(layer.gain, 0.5, 2)
    scale = layer.gain * 1.5 / math.sqrt(36)
    flat = layer.raw.reshape(1, 6, -1)
    oracle = nn.functional.batch_norm(flat, None, None, weight=scale, training=True, momentum=0.0, eps=1e-5)
    torch.testing.assert_close(layer.weight, oracle.reshape_as(layer.raw))


def test_the_gain_of_relu_by_quadrature():
    x = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    density = torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
    mean, square = (torch.trapezoid(x.relu() ** k * density, x) for k in (1, 2))
    assert (1 / (square - mean**2).sqrt()).item() == pytest.approx(RELU_GAIN, rel=1e-9)


def test_signals_keep_unit_variance_through_a_deep_plain_network():
    x = torch.randn(512, 256)
    for _ in range(20):
        x = ScaledStandardisedLinear(256, 256, bias=False)(x.relu())
    assert x.var().item() == pytest.approx(1, rel=0.35)


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


def test_fixup_refuses_what_it_does_not_cover():
    with pytest.raises(ValueError, match="at least 2 layers in a branch, got 1"):
        fixup_([nn.Linear(2, 2)], 3)
    with pytest.raises(ValueError, match="at least 1 branch, got 0"):
        fixup_([nn.Linear(2, 2), nn.Linear(2, 2)], 0)


def test_variance_grows_by_alpha_squared_per_block():
    """With branches that keep variance, as weight-standardised ones do."""
    width = 512

    def branch():
        return ScaledStandardisedLinear(width, width, bias=False)

    blocks = ScaledResidual.stage([branch() for _ in range(6)], alpha=0.5)
    assert [block.beta for block in blocks] == pytest.approx([1 / math.sqrt(1 + i / 4) for i in range(6)])
    x = torch.randn(512, width)
    for number, block in enumerate(blocks, start=1):
        x = block(x)
        assert x.var().item() == pytest.approx(1 + number / 4, rel=0.1)


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


def test_he_needs_a_layer():
    with pytest.raises(TypeError, match="he_ needs a layer of one of the families, got ReLU"):
        he_(nn.ReLU())


def test_bias_free_residual_networks_scale():
    """f(s x) = s f(x), bit for bit at powers of two, for both ways to do without batch norm."""

    def nf():
        return ScaledStandardisedConv2d(4, 4, 3, padding=1, bias=False)

    stem = ScaledStandardisedConv2d(3, 4, 3, padding=1, bias=False, gain=1.0)
    first, second = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.Conv2d(4, 4, 3, padding=1, bias=False)
    fixup_([first, second], 1)
    nn.init.normal_(second.weight)

    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.branch = nn.Sequential(first, nn.ReLU(), second, Multiplier())

        def forward(self, x):
            return (x + self.branch(x)).relu()

    net = nn.Sequential(stem, *ScaledResidual.stage([nf(), nf()]), Skip(), nn.Flatten(), nn.Linear(64, 3, bias=False))
    nn.init.constant_(net[3].branch[3].scale, 0.7)
    x = torch.randn(2, 3, 4, 4)
    for exponent in (-20, -1, 3):
        assert torch.equal(net(x * 2.0**exponent), net(x) * 2.0**exponent)
    torch.testing.assert_close(net(0.3 * x), 0.3 * net(x))
