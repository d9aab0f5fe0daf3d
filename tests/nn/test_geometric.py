import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from neuronal.nn import GeometricConv1d, GeometricConv2d, GeometricConv3d, GeometricLinear

CONV = {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}
PAIRS = [
    (GeometricLinear, nn.Linear(6, 4), (5, 6)),
    (GeometricLinear, nn.Linear(1, 4), (5, 1)),
    (GeometricLinear, nn.Linear(2, 4, bias=False), (5, 2)),
    (GeometricConv1d, nn.Conv1d(4, 6, 3, **CONV, padding_mode="reflect"), (2, 4, 9)),
    (GeometricConv2d, nn.Conv2d(4, 6, (3, 2), **CONV, padding_mode="circular"), (2, 4, 9, 8)),
    (GeometricConv2d, nn.Conv2d(4, 4, 1, groups=4), (2, 4, 5, 5)),
    (GeometricConv2d, nn.Conv2d(4, 8, 3, groups=4, padding="same", padding_mode="replicate"), (2, 4, 5, 5)),
    (GeometricConv3d, nn.Conv3d(4, 6, 3, bias=False), (2, 4, 5, 6, 7)),
]


@pytest.mark.parametrize(("kind", "plain", "shape"), PAIRS)
@pytest.mark.parametrize("activation", [None, "relu"])
def test_computes_the_plain_layer_and_the_equation(kind, plain, shape, activation):
    """r (u x + lambda) and r relu(u x + lambda), with parameters anywhere, negative scales included."""
    plain, x = plain.double(), torch.randn(shape, dtype=torch.float64)
    layer = kind.from_standard(plain, activation=activation)
    exact = {"rtol": 1e-11, "atol": 1e-13}
    torch.testing.assert_close(layer(x), plain(x) if activation is None else plain(x).relu(), **exact)
    torch.testing.assert_close(layer.weight, plain.weight, **exact)
    assert (layer.offset is None) == (plain.bias is None)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    z = layer._plain_with(layer.direction().view(plain.weight.shape), layer.offset)(x)
    r = layer.scale.view(-1, *[1] * max(0, len(shape) - 2))
    expected = r * z if activation is None else r * F.relu(z)
    back = layer.to_standard()
    torch.testing.assert_close(layer(x), expected, **exact)
    torch.testing.assert_close(back(x), expected, **exact)
    assert not any("neuronal" in type(m).__module__ for m in back.modules())


def test_gradient_of_the_papers_form_at_scale_zero():
    layer = GeometricLinear(3, 2, activation="relu", dtype=torch.float64)
    nn.init.zeros_(layer.scale)
    x = torch.randn(5, 3, dtype=torch.float64)
    layer(x).sum().backward()
    torch.testing.assert_close(layer.scale.grad, F.relu(F.linear(x, layer.direction(), layer.offset)).sum(0))


@pytest.mark.parametrize("value", [0.0, 1e-41])
def test_a_zero_row_with_a_positive_bias_is_refused_by_name(value):
    plain = nn.Conv2d(2, 5, 3)
    with torch.no_grad():
        plain.weight[3] = value
        plain.bias[3] = 0.25
    with pytest.raises(
        ValueError, match=r"GeometricConv2d cannot represent unit 3: .*bias is 0\.25: a hyperplane infinitely far away"
    ):
        GeometricConv2d.from_standard(plain)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_a_layer_without_units_trains():
    layer = GeometricLinear(3, 0)
    layer(torch.randn(2, 3)).sum().backward()


@pytest.mark.parametrize("bias", [0.0, -0.5])
def test_a_zero_row_that_is_never_on_is_scale_zero(bias):
    plain = nn.Linear(3, 2)
    with torch.no_grad():
        plain.weight[1], plain.bias[1] = 0, bias
    layer = GeometricLinear.from_standard(plain)
    assert layer.scale[1] == 0
    x = torch.randn(4, 3)
    torch.testing.assert_close(layer(x).relu(), plain(x).relu())


def test_fan_in_one_is_a_fixed_sign():
    layer = GeometricLinear(1, 50)
    assert set(layer.sign.tolist()) == {-1.0, 1.0}
    assert layer.angles.shape == (50, 0)
    assert set(dict(layer.named_parameters())) == {"scale", "offset"}
    assert "sign" in layer.state_dict()


def test_sphere_starts_uniform_with_scale_one_and_offset_zero():
    layer = GeometricConv2d(64, 2000, 3)
    u = layer.direction().detach()
    assert layer.scale.eq(1).all()
    assert layer.offset.eq(0).all()
    torch.testing.assert_close(layer.angles, layer.delta + math.pi / 2)
    # Uniform directions: n E u_k^2 = 1 for every k, E u_k = 0, and a participation ratio near n / 3.
    moments = 576 * u.square().mean(0)
    assert moments.mean() == pytest.approx(1, abs=1e-3)
    assert moments.std() < 2.5 * math.sqrt(2 / 2000)
    assert u.mean(0).abs().max() < 6 / math.sqrt(576 * 2000)
    participation = 1 / u.pow(4).sum(1)
    assert participation.mean() == pytest.approx(576 / 3, rel=0.02)


def test_published_in_one_dimension_faces_both_ways():
    layer = GeometricLinear(1, 4000, init="published")
    assert layer.sign.mean().abs() < 0.1
    torch.testing.assert_close(layer.scale.max(), torch.tensor((6 / 4001) ** 0.5), rtol=1e-2, atol=0)


def test_published_starts_in_the_glorot_cube_on_the_half_sphere():
    layer = GeometricLinear(30, 4000, init="published")
    w = layer.weight.detach()
    bound = math.sqrt(6 / 4030)
    assert w.abs().max() <= bound * (1 + 1e-5)
    assert w[:, :-1].var() == pytest.approx(bound**2 / 3, rel=0.02)
    assert w[:, :-1].mean().abs() < bound / 100
    assert (w[:, -1] >= 0).all()
    torch.testing.assert_close(layer.scale, w.norm(dim=1))


def test_wrong_options_are_named():
    for init in ("uniform", "uniform_angles", "angles"):
        with pytest.raises(ValueError, match=r"Independent uniform angles are not offered: sines multiply"):
            GeometricLinear(3, 2, init=init)
    with pytest.raises(ValueError, match=r"needs init 'sphere' or 'published', got 'glorot'\. 'sphere'"):
        GeometricLinear(3, 2, init="glorot")
    with pytest.raises(ValueError, match="needs activation None or 'relu', got 'gelu'"):
        GeometricLinear(3, 2, activation="gelu")
    with pytest.raises(TypeError, match=r"Unknown option of GeometricConv2d 'activatoin'. Did you mean 'activation'\?"):
        GeometricConv2d(3, 2, 3, activatoin="relu")
