"""The kernels of mean couplings against a dense sum in float64; interpreted where there is no GPU."""

import pytest
import torch

from neuronal.ops.coupling_mean import _mean, _mean_vjp, coupling_mean
from neuronal.ops.kernels import mean_field

pytest.importorskip("triton", reason="needs triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# What numpy has to say on numbers that are meant to be infinite.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(mean_field, "on_device", lambda a: True)


def dense(z, slope):
    return torch.tanh(slope.view(-1, 1, 1) * (z.unsqueeze(1) - z.unsqueeze(2))).mean(2)


def compare(z, slope):
    """Means and both gradients with the dense ones."""
    g = torch.randn_like(z)
    true = [t.detach().double().requires_grad_() for t in (z, slope)]
    found, expected = coupling_mean(z, slope), dense(*true)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)
    ours = torch.autograd.grad(found, (z, slope), g)
    theirs = torch.autograd.grad(expected, true, g.double())
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("units", [1, 2, 49, 64, 65, 200])
@pytest.mark.parametrize("spread", [0.01, 1.0, 100.0])
def test_means_and_gradients(units, spread):
    torch.manual_seed(0)
    z = (spread * torch.randn(5, units, device=DEVICE)).requires_grad_()
    slope = torch.tensor([0.1, 1.0, 10.0, 3.0, 30.0], device=DEVICE).requires_grad_()
    compare(z, slope)


# Slope times width; at 160 the kernels change from one way to the other.
WIDTHS = [1e-3, 1.0, 40.0, 80.0, 159.9, 160.1, 1e4]


@pytest.mark.parametrize("units", [2, 33])
@pytest.mark.parametrize("kind", ["even", "normal", "two heaps", "far from 0"])
def test_rows_of_different_widths(units, kind):
    """In one launch; where units are in two heaps, all of them are as far from the middle as can be."""
    z = torch.randn(len(WIDTHS), units) if kind == "normal" else torch.rand(len(WIDTHS), units)
    z = torch.arange(units) % 2 + 1e-3 * z if kind == "two heaps" else z
    z = z * (torch.tensor(WIDTHS) / 10 / (z.amax(1) - z.amin(1))).unsqueeze(1)
    z = z + 1000 if kind == "far from 0" else z
    compare(z.to(DEVICE).requires_grad_(), torch.full((len(WIDTHS),), 10.0, device=DEVICE).requires_grad_())


def test_rows_of_several_programs():
    z = torch.randn(2, 257, device=DEVICE)
    compare(z.requires_grad_(), torch.tensor([10.0, 100.0], device=DEVICE).requires_grad_())


@pytest.mark.parametrize("slope", [1e-30, 1e-6, 1e6, 1e30])
def test_slopes_out_of_proportion(slope):
    z = torch.randn(2, 70, device=DEVICE)
    z[1] = 0.3
    compare(z.requires_grad_(), torch.full((2,), slope, device=DEVICE).requires_grad_())


def test_rows_of_a_thousand():
    z, slope = torch.randn(1, 1025, device=DEVICE), torch.full((1,), 10.0, device=DEVICE)
    expected = dense(z.double(), slope.double())
    torch.testing.assert_close(coupling_mean(z, slope).double(), expected, rtol=0, atol=4e-6)


def test_equal_units_do_not_feel_each_other():
    z, slope = torch.full((3, 100), 0.7, device=DEVICE), torch.tensor([1e-3, 10.0, 1e30], device=DEVICE)
    assert (coupling_mean(z, slope) == 0).all()


@pytest.mark.parametrize("fused", [False, True])
def test_a_slope_without_gradient(monkeypatch, fused):
    monkeypatch.setattr(mean_field, "on_device", lambda a: fused)
    z = torch.randn(3, 70, device=DEVICE).mul_(torch.tensor([[1.0], [10.0], [100.0]], device=DEVICE)).requires_grad_()
    slope, g = torch.full((3,), 3.0, device=DEVICE), torch.randn(3, 70, device=DEVICE)
    (alone,) = torch.autograd.grad(coupling_mean(z, slope), z, g)
    together, _ = torch.autograd.grad(coupling_mean(z, slope.requires_grad_()), (z, slope), g)
    torch.testing.assert_close(alone, together, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", [1e10, 1e30, 1e36, 3e38])
def test_units_out_of_all_proportion(size):
    """Their couplings are at the ends, where no slope moves them."""
    z = torch.tensor([[size, -size, size / 2, 0.5]], device=DEVICE, requires_grad=True)
    slope = torch.ones(1, device=DEVICE, requires_grad=True)
    found = coupling_mean(z, slope)
    torch.testing.assert_close(found.cpu(), torch.tensor([[-0.75, 0.75, -0.25, 0.25]]), rtol=0, atol=1e-6)
    for gradient in torch.autograd.grad(found, (z, slope), torch.randn_like(z)):
        assert gradient.abs().max() < 1e-6


@pytest.mark.parametrize("fused", [False, True])
def test_what_the_compiler_is_told(monkeypatch, fused):
    """Rows of one image whose channels come last lie in memory the other way round."""
    monkeypatch.setattr(mean_field, "on_device", lambda a: fused)
    z, slope, g = torch.randn(7, 3, device=DEVICE).T, torch.ones(3, device=DEVICE), torch.randn(3, 7, device=DEVICE)
    torch.library.opcheck(_mean, (z, slope), test_utils="test_faketensor")
    torch.library.opcheck(_mean_vjp, (g, z, slope), test_utils="test_faketensor")


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_rows_with_something_else_have_no_means_and_others_theirs(wrong):
    z = torch.randn(3, 70, device=DEVICE)
    z[1, 66] = wrong
    z.requires_grad_()
    slope = torch.full((3,), 10.0, device=DEVICE, requires_grad=True)
    found = coupling_mean(z, slope)
    assert found[1].isnan().all()
    torch.testing.assert_close(
        found[[0, 2]].double(), dense(z[[0, 2]].double(), slope[[0, 2]].double()), rtol=0, atol=1e-6
    )
    of_z, of_slope = torch.autograd.grad(found, (z, slope), torch.ones_like(found))
    assert of_z[1].isnan().all()
    assert of_slope[1].isnan()
    assert of_z[[0, 2]].isfinite().all()
    assert of_slope[[0, 2]].isfinite().all()


@pytest.mark.parametrize(
    ("row", "slope"), [((2e8, 2e8 + 16), 10.0), ((1e8, 1e8 + 8, 1e8), 19.0), ((1e4, 1e4 + 2**-10, 1e4), 153600.0)]
)
def test_a_middle_that_is_rounded_is_not_in_the_middle(row, slope):
    z, p = torch.tensor([row], device=DEVICE, requires_grad=True), torch.tensor([slope], device=DEVICE)
    found, expected = coupling_mean(z, p), dense(z.detach().double(), p.double())
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)
    (gradient,) = torch.autograd.grad(found, z, torch.ones_like(z))
    assert gradient.isfinite().all()


def test_rows_of_thousands_with_one_unit_apart():
    """All terms of a sum are rounded the same way."""
    z = torch.zeros(1, 4096, device=DEVICE)
    z[0, 1:] = torch.tensor(0.98824).logit() / 2
    slope = torch.ones(1, device=DEVICE)
    expected = dense(z[:, :2].double(), slope.double())[0]
    share = torch.tensor([4095 / 4096, 1 / 4096], device=DEVICE, dtype=torch.float64)
    ends = coupling_mean(z, slope)[0, :2].double()
    torch.testing.assert_close(ends, 2 * expected * share, rtol=0, atol=4e-6)
