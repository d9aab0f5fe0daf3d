import pytest
import torch
from torch import nn

from neuronal.nn import FarkasBasicBlock, FarkasBottleneck, FarkasResidual

BLOCKS = [FarkasBasicBlock, FarkasBottleneck]


def affine_free(channels):
    return nn.BatchNorm2d(channels, affine=False)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("norm", [None, affine_free])
@pytest.mark.parametrize(("widen", "width"), [(True, 9), (False, 8)])
def test_width_and_the_channel_that_balances(block, norm, widen, width):
    net = block(8, widen=widen, norm=norm, aggregate="mean", dtype=torch.float32)
    x = torch.randn(3, 8, 5, 5)
    assert net(x).shape == (3, width, 5, 5)
    assert net.out_channels == width
    net.eval()
    z = net.close(x + net.branch(x))
    free = (x + net.branch(x))[:, : width - 1]
    b = net.close.balance.bias.view(-1, 1, 1)
    torch.testing.assert_close(z[:, :-1], free + b[:-1])
    torch.testing.assert_close(z[:, -1], -free.mean(1) + b[-1])
    assert (z.amax(1) >= net.close.promise() - 1e-6).all()


@pytest.mark.parametrize("block", BLOCKS)
def test_zero_last_starts_as_the_skip_alone(block):
    net = block(8, widen=False, zero_last=True)
    x = torch.randn(2, 8, 5, 5)
    assert net.branch(x).eq(0).all()
    torch.testing.assert_close(net(x)[:, :-1], x[:, :-1].relu())
    torch.testing.assert_close(net(x), net.close(x).relu())
    assert net.close.promise() > 0
    theirs = block(8, zero_last=True, rule="max")
    assert theirs.close.balance.bias.eq(0).all()


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("published", [False, True])
def test_starts_of_the_authors(block, published):
    """Biases behind the sum are those of 9 times as many inputs as channels; ``published``, so is the last convolution."""
    channels = 64
    net = block(channels, published=published)
    size = 1 / (9 * channels) ** 0.5
    assert net.close.balance.offsets.abs().max().item() == pytest.approx(size, rel=0.1)
    inputs = 9 * channels if published or block is FarkasBasicBlock else channels // 4
    assert net.branch[-1].weight.abs().max().item() == pytest.approx(inputs**-0.5, rel=0.05)


def test_other_shapes_and_too_few_channels_are_refused():
    with pytest.raises(ValueError, match=r"FarkasBasicBlock needs a batch of images, .* got \(8, 8, 8\)"):
        FarkasBasicBlock(8)(torch.randn(8, 8, 8))
    with pytest.raises(ValueError, match=r"FarkasResidual needs shape \(batch, 8, \.\.\.\), got \(2, 7, 3\)"):
        FarkasResidual(8)(torch.randn(2, 7, 3))
    with pytest.raises(ValueError, match="FarkasBasicBlock needs at least 2 outputs"):
        FarkasBasicBlock(1)
    with pytest.raises(ValueError, match="inner width a quarter of them, needs at least 2 outputs"):
        FarkasBottleneck(4)
    with pytest.raises(ValueError, match="FarkasResidual without widen needs at least 2"):
        FarkasResidual(1, widen=False)
