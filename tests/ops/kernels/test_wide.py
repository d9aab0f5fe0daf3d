"""Rows that the grid of nodes gives up on, against all pairs in float64: interpreted on a CPU, for real on a GPU."""

import pytest
import torch

from neuronal.ops.kernels import mean_field as kernels
from tests.ops.test_mean_field import dense_gradients, violation

pytest.importorskip("triton", reason="needs triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
COUPLINGS = [-2.0, -0.5, 0.05]
SLOPE = 10.0


def rows_of_range(units, *ranges):
    a = torch.randn(len(ranges), units)
    return a / (a.amax(1) - a.amin(1)).unsqueeze(1) * torch.tensor(ranges).unsqueeze(1)


def finished(a, couplings, *, slope=SLOPE, max_steps=60):
    """What becomes of rows of which the first kernel knows nothing."""
    from neuronal.ops.kernels import wide

    rows, units = a.shape
    a, lam, p = a.to(DEVICE), couplings.to(DEVICE), torch.tensor([slope], device=DEVICE)
    z, kept = torch.empty_like(a), torch.empty_like(a)
    residual = torch.full((rows,), torch.inf, device=DEVICE)
    steps = torch.zeros(rows, dtype=torch.long, device=DEVICE)
    converged = torch.zeros(rows, dtype=torch.bool, device=DEVICE)
    # Two programs, of which each has more than one row.
    space = torch.empty(2 * wide.SPACES * units, device=DEVICE)
    given = (a, lam, p, z, kept, residual, steps, converged, space, rows, len(lam), 1)
    wide.forward[(2,)](*given, 1e-4, max_steps, units, num_warps=8)
    assert torch.equal(z.nan_to_num(), kept.nan_to_num())
    return kernels.Found(z.cpu(), kept, residual.cpu(), steps.cpu(), converged.cpu())


@pytest.mark.parametrize("ranges", [(15.0,), (60.0, 1000.0, 1e6)])
@pytest.mark.parametrize("units", [2, 3, 65, 130])
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_wide_rows_are_solved_and_the_residual_is_a_bound(units, coupling, ranges):
    a = rows_of_range(units, *ranges)
    found = finished(a, torch.tensor([coupling]))
    assert found.converged.all()
    assert (found.residual <= 1e-4).all()
    assert (violation(found.value, a, coupling, SLOPE) <= found.residual.double()).all()


def test_couplings_are_those_of_the_channels():
    a = rows_of_range(257, 1000.0, 60.0)
    found = finished(a, torch.tensor([-0.5, 0.05]))
    for row, coupling in enumerate([-0.5, 0.05]):
        assert violation(found.value[row : row + 1], a[row : row + 1], coupling, SLOPE) <= found.residual[row]
        assert found.converged[row]


@pytest.mark.parametrize(("units", "kind"), [(9, "outlier"), (33, "clusters"), (33, "equal"), (20, "shifted")])
@pytest.mark.parametrize(("coupling", "slope"), [(-2.0, 10.0), (-4.0, 25.0), (0.09, 10.0)])
def test_hard_rows(units, kind, coupling, slope):
    """Strong couplings, where plain Newton steps would run away; tiles that are wide; units that are equal."""
    a = torch.randn(1, units)
    if kind == "outlier":
        a[0, 3] = 40.0
    elif kind == "clusters":
        a = 0.01 * a
        a[0, ::2] += 30
    elif kind == "equal":
        a = a.sign() * 20
    else:
        a += 50
    found = finished(a, torch.tensor([coupling]), slope=slope)
    assert found.converged.all()
    assert (violation(found.value, a, coupling, slope) <= found.residual.double()).all()


# Of overflows, which a GPU does not mention.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_at_the_end_of_the_range_and_without_numbers():
    a = torch.randn(5, 70)
    a[0] = a[0].clamp(-3, 3) * 1e38
    a[1, 3], a[2, 5] = torch.nan, -torch.inf
    a[4] = torch.linspace(-30, 30, 70)
    found = finished(a, torch.tensor([-0.5, -0.5, -0.5, torch.nan, -0.5]))
    assert found.converged.tolist() == [True, False, False, False, True]
    assert torch.equal(found.value[0], a[0])
    assert found.value[1:4].isnan().all()
    assert found.residual[1:4].isnan().all()
    alone = finished(a[4:], torch.tensor([-0.5]))
    assert torch.equal(alone.value[0], found.value[4])


def test_out_of_steps_is_said():
    found = finished(rows_of_range(65, 15.0), torch.tensor([-2.0]), max_steps=1)
    assert found.steps.tolist() == [1]
    assert not found.converged.any()
    assert (found.residual > 1e-4).all()


# Of NaN, which a GPU does not mention.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_wide_rows_beside_narrow_ones():
    """Both kernels after each other: each row is what it is alone."""
    units = 65
    a = torch.randn(4, units, device=DEVICE)
    a[1, 3], a[2, 5] = 80.0, torch.nan
    a[3] = rows_of_range(units, 60.0).to(DEVICE)
    lam, p = torch.tensor([-0.5, -0.3], device=DEVICE), torch.tensor([SLOPE], device=DEVICE)
    found = kernels.solve(a, lam, p, 1e-4, 60)
    assert found.converged.tolist() == [True, True, False, True]
    g = torch.randn(4, units, device=DEVICE)
    v, of_rows = kernels.vjp(g, found.value, lam, p, True, True)
    for row, coupling in ((0, -0.5), (1, -0.3), (3, -0.3)):
        z, own = found.value[row : row + 1].cpu(), a[row : row + 1].cpu()
        assert violation(z, own, coupling, SLOPE) <= found.residual[row].item()
        true, *rest = dense_gradients(z, g[row : row + 1].cpu(), lam[row % 2].item(), SLOPE)
        assert (v[row].cpu() - true).norm() <= 1e-4 * true.norm()
        for ours, theirs in zip(of_rows[:, row].cpu(), rest, strict=True):
            assert (ours - theirs).abs() <= 1e-4 * (theirs.abs() + true.abs().sum())
    assert v[2].isnan().all()


@pytest.mark.parametrize("units", [2, 3, 65, 130])
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_gradients_against_a_dense_implicit_solve(units, coupling):
    from neuronal.ops.kernels import wide

    z = rows_of_range(units, 15.0, 1e6)
    z[1, 2:] = z[0, 2:]
    z[1] += 3
    g = 1e-6 * torch.randn_like(z)
    v, of_rows = torch.empty_like(z).to(DEVICE), torch.full((2, 2), torch.nan, device=DEVICE)
    lam, p = torch.tensor([coupling], device=DEVICE), torch.tensor([SLOPE], device=DEVICE)
    space = torch.empty(wide.SPACES * units, device=DEVICE)
    given = (g.to(DEVICE), z.to(DEVICE), lam, p, v, of_rows, of_rows[1], space, 2, 1, 1, units)
    wide.backward[(1,)](*given, WITH_SLOPE=True, num_warps=8)
    for row in range(2):
        true, *rest = dense_gradients(z[row : row + 1], g[row : row + 1], lam.item(), SLOPE)
        assert (v[row].cpu() - true).norm() <= 2e-5 * true.norm()
        for ours, theirs in zip(of_rows[:, row].cpu(), rest, strict=True):
            assert (ours - theirs).abs() <= 2e-5 * (theirs.abs() + true.abs().sum())


def test_rows_that_are_done_are_left_alone():
    from neuronal.ops.kernels import wide

    a = torch.full((20, 3), 7.0, device=DEVICE)
    numbers = torch.tensor([-0.5], device=DEVICE), torch.tensor([SLOPE], device=DEVICE)
    residual, steps = torch.full((20,), 1e-5, device=DEVICE), torch.full((20,), 2, device=DEVICE)
    # Out of steps: nobody goes on with it.
    residual[5], steps[5] = 0.5, 60
    converged = torch.zeros(20, dtype=torch.bool, device=DEVICE)
    z = torch.zeros_like(a)
    wide.forward[(2,)](a, *numbers, z, z, residual, steps, converged, z, 20, 1, 1, 1e-4, 60, 3, num_warps=8)
    assert not z.any()
    assert converged.tolist() == [row != 5 for row in range(20)]
