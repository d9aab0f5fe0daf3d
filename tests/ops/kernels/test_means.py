"""The kernels of mean couplings against a dense sum in float64; interpreted where there is no GPU."""

import pytest
import torch

from neuronal.ops.coupling_mean import _mean, _mean_vjp, coupling_mean
from neuronal.ops.kernels import mean_field

pytest.importorskip("triton", reason="needs triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(mean_field, "on_device", lambda a: True)


def dense(z, slope):
    return torch.tanh(slope.view(-1, 1, 1) * (z.unsqueeze(1) - z.unsqueeze(2))).mean(2)


@pytest.mark.parametrize("units", [1, 2, 49, 64, 65, 200])
@pytest.mark.parametrize("spread", [0.01, 1.0, 100.0])
def test_means_and_gradients(units, spread):
    torch.manual_seed(0)
    z = (spread * torch.randn(5, units, device=DEVICE)).requires_grad_()
    slope = torch.tensor([0.1, 1.0, 10.0, 3.0, 30.0], device=DEVICE).requires_grad_()
    g = torch.randn(5, units, device=DEVICE)
    true = [t.detach().double().requires_grad_() for t in (z, slope)]
    found, expected = coupling_mean(z, slope), dense(*true)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-6)
    ours = torch.autograd.grad(found, (z, slope), g)
    theirs = torch.autograd.grad(expected, true, g.double())
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:invalid value encountered", "ignore:overflow encountered")
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


@pytest.mark.filterwarnings("ignore:invalid value encountered", "ignore:overflow encountered")
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
