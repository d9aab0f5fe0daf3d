import pytest
import torch
from torch import nn

from neuronal.nn.smooth_relu import SmoothReLU


@pytest.mark.parametrize("width", [0.5, 1.0, 3.0])
def test_the_slope_rises_in_a_straight_line(width):
    x = torch.linspace(-4, 4, 401, dtype=torch.float64, requires_grad=True)
    y = SmoothReLU(width)(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert torch.allclose(slope, (x / width).clamp(0, 1), atol=1e-12)
    # The integral of the slope from the left, where the value is 0; the trapezoid is exact but for the two corners.
    area = torch.cumulative_trapezoid(slope, x)
    assert torch.allclose(y[1:], area, atol=1e-3)


def test_no_width_is_no_smooth_relu():
    with pytest.raises(ValueError, match="needs width > 0, got 0"):
        SmoothReLU(0)


def spread(activation, seed):
    """How much outputs of four layers of torch's own start differ from image to image."""
    torch.manual_seed(seed)
    x = torch.rand(500, 784)
    with torch.no_grad():
        for inputs in (784, 64, 64, 64):
            x = activation(nn.Linear(inputs, 64)(x))
    return x.std(0).mean().item()


def test_a_wide_parabola_squares_small_numbers_away():
    relu, narrow, wide = (
        sum(spread(one, seed) for seed in range(10)) for one in (nn.ReLU(), SmoothReLU(), SmoothReLU(1))
    )
    assert 0.25 < narrow / relu < 0.4
    assert wide / relu < 1e-3
