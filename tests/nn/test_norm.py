import pytest
import torch
from torch import nn

from neuronal.nn import InputMeanNorm, MeanOnlyBatchNorm

SHAPES = [(7, 3), (5, 3, 4), (5, 3, 4, 6), (2, 3, 4, 5, 6)]


@pytest.mark.parametrize("shape", SHAPES)
def test_input_mean_norm_is_batch_norm_less_the_variance(shape):
    norm = InputMeanNorm(3).double()
    x = torch.randn(shape, dtype=torch.float64) + 5
    y = norm(x)
    dims = [0, *range(2, len(shape))]
    torch.testing.assert_close(y.mean(dims), torch.zeros(3, dtype=torch.float64), atol=1e-13, rtol=0)
    torch.testing.assert_close(y.std(), (x - x.mean(dims, keepdim=True)).std())
    torch.testing.assert_close(norm.running_mean, 0.01 * x.mean(dims))
    norm.eval()
    torch.testing.assert_close(norm(x), x - 0.01 * x.mean(dims, keepdim=True))
    assert not list(norm.parameters())


def test_running_mean_is_that_of_batch_norm():
    ours, theirs = InputMeanNorm(3, momentum=0.3), nn.BatchNorm2d(3, momentum=0.3)
    for _ in range(5):
        x = torch.randn(4, 3, 5, 5) + 2
        ours(x)
        theirs(x)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)


@pytest.mark.parametrize("shape", SHAPES[:3])
@pytest.mark.parametrize("kind", [InputMeanNorm, MeanOnlyBatchNorm])
def test_the_gradient_flows_through_the_mean(kind, shape):
    norm = kind(3).double()
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    # fast_mode calls the module often; the running mean it moves does not enter the output in training.
    assert torch.autograd.gradcheck(norm, x, fast_mode=True)
    (g,) = torch.autograd.grad(norm(x).sum(), x)
    torch.testing.assert_close(g, torch.zeros_like(g), atol=1e-12, rtol=0)


def test_mean_only_batch_norm_adds_its_bias_after_the_mean():
    norm = MeanOnlyBatchNorm(3)
    nn.init.normal_(norm.bias)
    y = norm(torch.randn(6, 3, 4, 4) + 9)
    torch.testing.assert_close(y.mean((0, 2, 3)), norm.bias, atol=1e-5, rtol=0)
    published = MeanOnlyBatchNorm(3, published=True)
    assert published.bias is None
    torch.testing.assert_close(published(torch.randn(6, 3) + 9).mean(0), torch.zeros(3), atol=1e-5, rtol=0)


def test_a_bias_before_the_mean_would_be_cancelled():
    conv, norm = nn.Conv2d(2, 3, 3), MeanOnlyBatchNorm(3)
    x = torch.randn(4, 2, 6, 6)
    before = norm(conv(x))
    nn.init.constant_(conv.bias, 7.0)
    torch.testing.assert_close(norm(conv(x)), before, atol=1e-5, rtol=0)


def test_empty_batch_reset_and_meta():
    norm = MeanOnlyBatchNorm(3)
    assert norm(torch.empty(0, 3, 2, 2)).shape == (0, 3, 2, 2)
    assert norm.running_mean.eq(0).all()
    norm(torch.ones(2, 3))
    nn.init.ones_(norm.bias)
    norm.reset_parameters()
    assert norm.running_mean.eq(0).all()
    assert norm.bias.eq(0).all()
    made = MeanOnlyBatchNorm(3, device="meta").to_empty(device="cpu")
    made.reset_parameters()
    assert made.bias.eq(0).all()


def test_half_precision_means_are_taken_in_float32():
    x = torch.full((4096, 1, 16), 2.0).bfloat16()
    x[0, 0, 0] = 3
    norm = InputMeanNorm(1)
    assert norm(x).dtype == torch.bfloat16
    assert norm.running_mean.item() == pytest.approx(0.01 * (2 + 1 / 65536), rel=1e-6)


def test_half_precision_is_centred():
    x = (torch.randn(4096, 3) + 100.3).bfloat16()
    y = InputMeanNorm(3)(x)
    assert y.float().mean(0).abs().max() < 0.01


def test_wrong_shapes_and_momenta_are_refused():
    with pytest.raises(ValueError, match=r"InputMeanNorm needs input of shape \(batch, 3, \.\.\.\), got \(2, 4\)"):
        InputMeanNorm(3)(torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"needs momentum in \(0, 1\], got 0"):
        InputMeanNorm(3, momentum=0)
