"""The kernels against plain torch in float64: in Triton's interpreter on a CPU, for real on a GPU (tests/gpu)."""

import pytest
import torch

from neuronal.ops import mean_field
from neuronal.ops.kernels import mean_field as kernels
from neuronal.ops.mean_field import solve
from tests.ops.test_mean_field import dense_gradients, violation

pytest.importorskip("triton", reason="needs triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Units that attract and repel each other, narrow and wide against 1 / slope.
CASES = [
    (-0.5, 10.0, 1.0),
    (-0.5, 10.0, 0.05),
    (-2.0, 10.0, 0.3),
    (0.05, 10.0, 1.0),
    (0.09, 10.0, 0.1),
    (-0.3, 1.0, 1.0),
]
LENGTHS = [2, 20, 64, 300]
SLOPE = 10.0


def solved(a, coupling, slope, tolerance=1e-4):
    rows = len(a)
    lam, p = (torch.full((rows,), v, device=a.device) for v in (coupling, slope))
    return kernels.solve(a, lam, p, tolerance, 60)


@pytest.mark.parametrize("units", LENGTHS)
@pytest.mark.parametrize(("coupling", "slope", "spread"), CASES)
def test_the_residual_is_a_bound_on_the_true_one_and_within_the_tolerance(units, coupling, slope, spread):
    a = spread * torch.randn(2, units, device=DEVICE)
    z, kept, residual, steps, converged = solved(a, coupling, slope)
    assert torch.equal(z, kept)
    assert converged.all()
    assert (residual <= 1e-4).all()
    assert (steps >= 1).all()
    assert (violation(z.cpu(), a.cpu(), coupling, slope) <= residual.cpu().double()).all()
    # A residual r moves the solution by at most r (contracting) or r / (1 - coupling slope).
    true = solve(a.double(), coupling, slope, tolerance=1e-10).value
    room = 1 - max(0.0, coupling * slope)
    assert ((z - true).abs().amax(1) <= 1.01 * residual / room * a.abs().amax(1).clamp_min(1)).all()


@pytest.mark.parametrize("units", LENGTHS)
@pytest.mark.parametrize(("coupling", "slope", "spread"), CASES)
def test_gradients_against_a_dense_implicit_solve(units, coupling, slope, spread):
    a = spread * torch.randn(1, units, dtype=torch.float64)
    z = solve(a, coupling, slope).value.float().to(DEVICE)
    g = 1e-6 * torch.randn(1, units, device=DEVICE)
    lam, p = (torch.full((1,), v, device=DEVICE) for v in (coupling, slope))
    v, (d_coupling, d_slope) = kernels.vjp(g, z, lam, p, True, True)
    true, *rest = dense_gradients(z.cpu(), g.cpu(), lam.item(), p.item())
    assert (v.cpu().double() - true).norm() <= 1e-4 * true.norm()
    for ours, theirs in zip((d_coupling, d_slope), rest, strict=True):
        assert (ours.cpu().double() - theirs).abs() <= 1e-4 * (theirs.abs() + true.abs().sum())


def test_rows_that_share_a_program_each_get_a_grid_that_will_do():
    """Narrow rows beside wide ones, weak couplings beside strong ones, and one row more than a program takes."""
    units = 100
    scale = torch.logspace(-1.5, 0.1, 17, device=DEVICE)
    a = scale.unsqueeze(1) * torch.randn(17, units, device=DEVICE)
    coupling = torch.tensor([-0.5, 0.05, -0.1], device=DEVICE)
    z, _, residual, _, converged = kernels.solve(a, coupling, torch.full((1,), 10.0, device=DEVICE), 1e-4, 60)
    assert converged.all()
    for row in range(17):
        own = violation(z[row : row + 1].cpu(), a[row : row + 1].cpu(), coupling[row % 3].item(), 10.0)
        assert own <= residual[row].item()


@pytest.mark.parametrize("spacing", [0.2, 0.35, 0.49])
def test_the_gradient_errs_by_the_fourth_power_of_the_distance_of_nodes(spacing):
    """The widest rows that are put on a grid, with a strong coupling; wider ones are solved without."""
    z = torch.randn(1, 65, device=DEVICE)
    z *= spacing * 238 / SLOPE / (z.max() - z.min())
    g, lam, p = torch.randn_like(z), torch.tensor([-2.0], device=DEVICE), torch.tensor([SLOPE], device=DEVICE)
    v, _ = kernels.vjp(g, z, lam, p, False, False)
    true, *_ = dense_gradients(z.cpu(), g.cpu(), -2.0, SLOPE)
    assert (v.cpu().double() - true).norm() <= (1e-4 + 0.03 * spacing**4) * true.norm()


# Of infinities, which a GPU does not mention.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("units", [20, 80])
def test_rows_of_all_kinds(units):
    """No coupling, constant, with NaN, with infinity, two values, shifted, wide, coupling NaN, the end of the range."""
    a = torch.randn(9, units, device=DEVICE)
    coupling = torch.full((9,), -0.5, device=DEVICE)
    coupling[0] = 0.0
    a[1] = 3.0
    a[2, 5], a[3, 7] = torch.nan, torch.inf
    a[4] = a[4].sign()
    a[5] += 50
    a[6, 3] = 30.0
    coupling[7] = torch.nan
    a[8] *= 1e37
    slope = torch.full((1,), 10.0, device=DEVICE)
    z, _, residual, steps, converged = kernels.solve(a, coupling, slope, 1e-4, 60)
    assert converged.tolist() == [True, True, False, False, True, True, True, False, True]
    torch.testing.assert_close(z[:2], a[:2], rtol=0, atol=0)
    assert not steps[:2].any()
    assert not residual[:2].any()
    assert z[[2, 3, 7]].isnan().all()
    assert residual[[2, 3, 7]].isnan().all()
    solved = [4, 5, 6, 8]
    assert (violation(z[solved].cpu(), a[solved].cpu(), -0.5, 10.0) <= residual[solved].cpu()).all()
    v, of_rows = kernels.vjp(torch.ones_like(z), z, coupling, slope, True, True)
    assert v.isfinite().all(1).tolist() == converged.tolist()
    assert of_rows.isfinite().all(0).tolist() == converged.tolist()


@pytest.mark.usefixtures("as_on_cuda")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_solve_takes_them(dtype):
    a = torch.randn(3, 80, device=DEVICE).to(dtype)
    a[1, 3] = 30.0
    x, y = a.clone().requires_grad_(), a.double().requires_grad_()
    lam, mu = (
        torch.full((3,), -0.5, device=DEVICE, dtype=t, requires_grad=True) for t in (torch.float32, torch.float64)
    )
    found, true = solve(x, lam, 10.0), solve(y, mu, 10.0, tolerance=1e-9)
    assert found.converged.all()
    assert found.value.dtype == dtype
    rounding = {torch.float32: 0.0, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    torch.testing.assert_close(found.value.double(), true.value, rtol=rounding, atol=3e-3)
    g = torch.randn_like(a)
    found.value.backward(g)
    true.value.backward(g.double())
    torch.testing.assert_close(x.grad.double(), y.grad, rtol=1e-3 + rounding, atol=1e-3)
    torch.testing.assert_close(lam.grad.double(), mu.grad, rtol=1e-3, atol=2e-3)


@pytest.mark.usefixtures("as_on_cuda")
def test_too_few_steps_are_reported():
    found = solve(torch.randn(2, 80, device=DEVICE), -0.5, 10.0, max_steps=1)
    assert not found.converged.any()
    assert (found.residual > 1e-4).all()


def test_what_is_covered():
    a = torch.randn(2, 80)
    assert not kernels.covers(a, 1e-4)
    assert not kernels.covers(a.to(DEVICE), 1e-6)
    assert not kernels.covers(a.to(DEVICE).double(), 1e-4)
    assert mean_field.kernels is kernels
