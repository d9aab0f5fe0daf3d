"""A layer's solve in one node of the graph, against the plain layer in float64: interpreted here, for real on a GPU."""

import copy

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from neuronal.nn import ImplicitBiasConv2d, ImplicitBiasLinear
from neuronal.ops import learnt_field

pytest.importorskip("triton", reason="needs triton")
pytestmark = pytest.mark.usefixtures("as_on_cuda")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def agree(layer, x, *, rounding=0.0, change=lambda z: z):
    """Output and all gradients, those of the parameters included."""
    layer = layer.to(DEVICE)
    plain = copy.deepcopy(layer).cpu().double()
    plain.tolerance = 1e-10
    own, true = x.to(DEVICE).requires_grad_(), x.detach().double().requires_grad_()
    assert learnt_field.takes(own, layer.raw_coupling, layer._log_slope(), layer.num_units, layer.tolerance)
    found, expected = layer(own), plain(true)
    torch.testing.assert_close(found.cpu().double(), expected, rtol=rounding, atol=2e-3 + rounding)
    g = torch.randn(expected.shape)
    change(found).backward(g.to(found))
    change(expected).backward(g.double())
    # A solution is good to 1e-4, its derivatives to some times that.
    torch.testing.assert_close(own.grad.cpu().double(), true.grad, rtol=1e-2, atol=2e-2 + 4 * rounding)
    for p, q in zip(layer.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(
            p.grad.cpu().double(), q.grad, rtol=1e-2, atol=1e-2 * q.grad.abs().max().item() + 1e-3
        )
    return found


@pytest.mark.parametrize("coupling", [-0.5, 0.05])
@pytest.mark.parametrize("options", [{}, {"learn_slope": True}, {"learn_coupling": False}])
def test_one_coupling(coupling, options):
    agree(ImplicitBiasLinear(3, 12, coupling=coupling, **options), torch.randn(5, 3))


@pytest.mark.parametrize("learn_slope", [False, True])
def test_one_coupling_per_channel(learn_slope):
    layer = ImplicitBiasConv2d(2, 3, 3, per_channel=True, learn_slope=learn_slope)
    nn.init.zeros_(layer.raw_coupling)
    with torch.no_grad():
        layer.raw_coupling.copy_(torch.tensor([-0.5, 0.0, 0.07]))
    agree(layer, torch.randn(2, 2, 6, 6))


def test_a_slope_that_is_learnt_moves_the_bound_of_a_coupling_that_is_frozen():
    layer = ImplicitBiasLinear(3, 12, coupling=0.05, learn_slope=True)
    frozen = copy.deepcopy(layer)
    frozen.raw_coupling.requires_grad_(False)
    x = torch.randn(5, 3)
    for each in (layer, frozen):
        each.to(DEVICE)(x.to(DEVICE)).square().sum().backward()
    assert frozen.raw_coupling.grad is None
    torch.testing.assert_close(frozen.log_slope.grad, layer.log_slope.grad)


def test_long_rows_of_which_some_are_wide_in_channels_last():
    layer = ImplicitBiasConv2d(1, 2, 1, coupling=-0.5)
    nn.init.ones_(layer.weight)
    x = torch.randn(2, 1, 9, 9)
    x[1] *= 5
    found = agree(layer.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last))
    assert found.is_contiguous(memory_format=torch.channels_last) or DEVICE == "cpu"


def test_what_follows_may_work_in_place():
    agree(ImplicitBiasLinear(3, 12, coupling=-0.5), torch.randn(5, 3), change=lambda z: z.relu_())


def test_half_precision_goes_in_and_comes_out():
    layer, x = ImplicitBiasLinear(3, 12, coupling=-0.5).to(DEVICE), torch.randn(5, 3, device=DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16):
        z = layer(x)
    assert z.dtype == torch.bfloat16
    z.sum().backward()
    torch.testing.assert_close(z.float(), layer(x), rtol=0.02, atol=0.05)
    assert layer.weight.grad.isfinite().all()


def test_coupling_zero_is_the_plain_layer_to_the_last_bit():
    layer = ImplicitBiasLinear(3, 12).to(DEVICE)
    x = torch.randn(5, 3, device=DEVICE)
    assert torch.equal(layer(x), layer.to_standard()(x))


def test_a_fixed_coupling_is_looked_at_when_it_changed():
    layer = ImplicitBiasLinear(3, 12, coupling=-0.5, learn_coupling=False).to(DEVICE)
    x = torch.randn(5, 3, device=DEVICE)
    layer(x)
    layer.raw_coupling.fill_(0.2)
    with pytest.raises(ValueError, match=r"coupling \* slope needs to be below 1 .*, got 0\.2 \* 10 = 2"):
        layer(x)


@pytest.mark.parametrize(
    "options", [{}, {"learn_slope": True}, {"learn_coupling": False}, {"coupling": 0.05, "learn_slope": True}]
)
def test_gradients_of_gradients(options):
    """A gradient penalty: how large the input's gradient is, made small. What follows works in place."""
    layer = ImplicitBiasLinear(3, 12, **{"coupling": -0.5, "slope": 3.0} | options).to(DEVICE)
    plain = copy.deepcopy(layer).cpu().double()
    plain.tolerance = 1e-10
    data = torch.randn(5, 3)
    for each, x in ((layer, data.to(DEVICE)), (plain, data.double())):
        x.requires_grad_()
        (g,) = torch.autograd.grad(each(x).relu_().pow(2).sum(), x, create_graph=True)
        (g.square().sum() + each(x).sum()).backward()
    for ours, theirs in zip(layer.parameters(), plain.parameters(), strict=True):
        # Derivatives at a solution that is good to 1e-4, with terms of both signs.
        torch.testing.assert_close(
            ours.grad.cpu().double(), theirs.grad, rtol=1e-2, atol=1e-2 * theirs.grad.abs().max().item() + 1e-3
        )


def test_forward_mode_takes_the_operations_of_torch():
    layer = ImplicitBiasLinear(3, 12, coupling=-0.5).to(DEVICE)
    x, t = torch.randn(2, 5, 3, device=DEVICE)
    with forward_ad.dual_level():
        moved = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, t))).tangent
    expected = torch.autograd.functional.jvp(layer, x, t, create_graph=True)[1]
    torch.testing.assert_close(moved, expected, rtol=1e-2, atol=1e-2)


def test_what_is_taken():
    a, number = torch.randn(2, 80), torch.zeros(1)
    assert learnt_field.takes(a, number, number, 80, 1e-4)
    assert not learnt_field.takes(a.double(), number, number, 80, 1e-4)
    assert not learnt_field.takes(a, number.double(), number, 80, 1e-4)
    assert not learnt_field.takes(a, number, number, 80, 1e-6)
    assert not learnt_field.takes(a, number, number, 1, 1e-4)
    assert not learnt_field.takes(a[:0], number, number, 80, 1e-4)
    assert not torch.func.vmap(lambda t: torch.tensor(learnt_field.takes(t, number, number, 80, 1e-4)))(a).any()
