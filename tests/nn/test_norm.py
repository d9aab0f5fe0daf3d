import pytest
import torch
from torch import nn

from neuronal.nn import InputMeanNorm, MeanOnlyBatchNorm

SHAPES = [(7, 3), (5, 3, 4), (5, 3, 4, 6), (2, 3, 4, 5, 6)]
BATCH_NORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}


@pytest.mark.parametrize("shape", SHAPES)
def test_input_mean_norm_is_batch_norm_less_the_variance(shape):
    norm, theirs = InputMeanNorm(3, momentum=0.3).double(), BATCH_NORMS[len(shape)](3, momentum=0.3).double()
    x = torch.randn(shape, dtype=torch.float64) + 5
    for other in (x.square(), x):
        y = norm(other)
        theirs(other)
    dims = [0, *range(2, len(shape))]
    torch.testing.assert_close(y.mean(dims), torch.zeros(3, dtype=torch.float64), atol=1e-13, rtol=0)
    torch.testing.assert_close(y.std(), (x - x.mean(dims, keepdim=True)).std())
    torch.testing.assert_close(norm.running_mean, theirs.running_mean)
    norm.eval()
    torch.testing.assert_close(norm(x), x - theirs.running_mean.view(-1, *[1] * (len(shape) - 2)))
    assert not list(norm.parameters())


def test_mean_only_batch_norm_adds_its_bias_after_the_mean():
    norm = MeanOnlyBatchNorm(3)
    nn.init.normal_(norm.bias)
    y = norm(torch.randn(6, 3, 4, 4) + 9)
    torch.testing.assert_close(y.mean((0, 2, 3)), norm.bias, atol=1e-5, rtol=0)
    published = MeanOnlyBatchNorm(3, published=True)
    assert published.bias is None
    torch.testing.assert_close(published(torch.randn(6, 3) + 9).mean(0), torch.zeros(3), atol=1e-5, rtol=0)


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


def steps(x, bias=None):
    """One by one, with torch's own gradients."""
    y = x - x.mean([0, *range(2, x.dim())], keepdim=True)
    return y if bias is None else y + bias.view(-1, *[1] * (x.dim() - 2))


@pytest.mark.parametrize("layout", ["plain", "channels_last", "a piece"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_outputs_and_gradients_are_those_of_the_steps(layout, with_bias):
    x = torch.randn(4, 3, 6, 10, dtype=torch.float64) + 7
    x = {"plain": x, "channels_last": x.contiguous(memory_format=torch.channels_last), "a piece": x[..., ::2]}[layout]
    norm = (MeanOnlyBatchNorm if with_bias else InputMeanNorm)(3).double()
    if with_bias:
        nn.init.normal_(norm.bias)
    given = [x.clone(memory_format=torch.preserve_format).requires_grad_(), *norm.parameters()]
    ours, theirs = norm(given[0]), steps(*given)
    assert ours.stride() == theirs.stride()
    torch.testing.assert_close(ours, theirs)
    # Twice: the gradient of a gradient.
    results = []
    for y in (ours, theirs):
        first = torch.autograd.grad(y.pow(3).sum(), given, create_graph=True)
        results.append([*first, *torch.autograd.grad(sum(one.pow(2).sum() for one in first), given)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("wanted", [(0,), (1,), (0, 1)], ids=str)
def test_gradients_are_made_for_whoever_wants_one(wanted):
    norm = MeanOnlyBatchNorm(3).double()
    given = [torch.randn(5, 3, 2, dtype=torch.float64), norm.bias]
    for i, one in enumerate(given):
        one.requires_grad_(i in wanted)
    y, expected = norm(given[0]), steps(*given)
    learnt = [given[i] for i in wanted]
    for one, other in zip(*(torch.autograd.grad(z.square().sum(), learnt) for z in (y, expected)), strict=True):
        torch.testing.assert_close(one, other)
    # What nobody uses has no gradient, and the running mean never any.
    assert norm.running_mean.requires_grad is False


def test_transforms_and_many_gradients_at_once():
    norm = InputMeanNorm(3).double()
    x = torch.randn(4, 3, 5, dtype=torch.float64, requires_grad=True)
    matrix = torch.func.jacrev(lambda x: steps(x))(x.detach())
    vectors = torch.randn(2, 4, 3, 5, dtype=torch.float64)
    (found,) = torch.autograd.grad(norm(x), x, vectors, is_grads_batched=True)
    torch.testing.assert_close(found, torch.einsum("knci,ncimdj->kmdj", vectors, matrix))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), vectors[0])
        moved = torch.autograd.forward_ad.unpack_dual(norm(dual)).tangent
    torch.testing.assert_close(moved, steps(vectors[0]))
    compiled = torch.compile(norm, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), steps(x))
    torch.compiler.reset()


def test_half_precision_is_rounded_once():
    """Of images centred in float64, and then rounded, nothing differs but by the rounding of the means."""
    x = (torch.randn(64, 3, 8, 8) + 100.3).bfloat16().requires_grad_()
    norm = MeanOnlyBatchNorm(3)
    nn.init.constant_(norm.bias, 0.3)
    y = norm(x)
    exact = steps(x.detach().double()) + norm.bias.detach().double().view(3, 1, 1)
    assert y.dtype == torch.bfloat16
    # The mean is taken in float32: 2^-24 of 100.
    assert ((y.double() - exact).abs() <= 2**-8 * exact.abs() + 1e-5).all()
    torch.testing.assert_close(
        norm.running_mean.double(), 0.01 * x.detach().double().mean((0, 2, 3)), rtol=1e-6, atol=0
    )
    g = torch.randn(y.shape).bfloat16()
    of_x, of_bias = torch.autograd.grad(y, (x, norm.bias), g)
    exact = steps(g.double())
    assert of_x.dtype == torch.bfloat16
    assert ((of_x.double() - exact).abs() <= 2**-8 * exact.abs() + 1e-6).all()
    torch.testing.assert_close(of_bias, g.float().sum((0, 2, 3)), rtol=1e-4, atol=1e-3)


def test_wrong_shapes_and_momenta_are_refused():
    with pytest.raises(ValueError, match=r"InputMeanNorm needs input of shape \(batch, 3, \.\.\.\), got \(2, 4\)"):
        InputMeanNorm(3)(torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"needs momentum in \(0, 1\], got 0"):
        InputMeanNorm(3, momentum=0)
