import pytest
import torch
from torch import nn

from neuronal.nn import ZeroBiasConv1d, ZeroBiasConv2d, ZeroBiasConv3d, ZeroBiasLinear

CONV = {"stride": 2, "padding": 1, "dilation": 2, "groups": 2, "padding_mode": "reflect"}
PAIRS = [
    (ZeroBiasLinear, nn.Linear(6, 4), (5, 6)),
    (ZeroBiasConv1d, nn.Conv1d(4, 6, 3, **CONV), (2, 4, 9)),
    (ZeroBiasConv2d, nn.Conv2d(4, 6, (3, 2), **CONV), (2, 4, 9, 8)),
    (ZeroBiasConv3d, nn.Conv3d(4, 6, 3, padding="same"), (2, 4, 5, 6, 7)),
]


@pytest.mark.parametrize(("kind", "plain", "shape"), PAIRS)
def test_computes_the_plain_layer_minus_its_bias(kind, plain, shape):
    x = torch.randn(shape)
    layer = kind.from_standard(plain)
    bias = plain.bias.reshape(-1, *[1] * (len(shape) - 2)) if len(shape) > 2 else plain.bias
    torch.testing.assert_close(layer(x), plain(x) - bias)
    assert layer.bias is None
    back = layer.to_standard()
    assert type(back) is type(plain)
    assert torch.equal(back(x), layer(x))


def test_a_bias_and_another_kind_of_layer_are_refused():
    with pytest.raises(ValueError, match=r"has no bias, got bias=True\. Leave bias out, or use nn\."):
        ZeroBiasLinear(3, 2, True)
    with pytest.raises(ValueError, match=r"has no bias, got bias=True\. Leave bias out, or use nn\."):
        ZeroBiasConv2d(3, 2, 3, bias=True)
    with pytest.raises(TypeError, match=r"ZeroBiasConv2d\.from_standard needs an nn\.Conv2d, got Linear"):
        ZeroBiasConv2d.from_standard(nn.Linear(3, 2))
