"""Rows that 256 nodes do not hold and 1,024 do, against all pairs in float64: interpreted on a CPU, for real on a GPU."""

import pytest
import torch

from neuronal.ops.kernels import mean_field as kernels
from tests.ops.test_mean_field import dense_gradients, violation

pytest.importorskip("triton", reason="needs triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
COUPLINGS = [-2.0, -0.5, -0.05, 0.05, 0.09]
KINDS = ["normal", "half", "outlier"]
SLOPE = 10.0
# In the unit of length of the slope; 256 nodes hold 119, and 1,024 hold 503.
WIDTHS = (130.0, 250.0, 350.0, 480.0)


def rows_of(kind, units, *widths):
    """Rows of such widths: normal, half of them equal as dark pixels are, or with one that is far from the others."""
    a = torch.randn(len(widths), units)
    if kind == "half":
        a[:, ::2] = a[:, :1]
    elif kind == "outlier":
        a[:, 3] = 50.0
    return a / (a.amax(1) - a.amin(1)).unsqueeze(1) * torch.tensor(widths).unsqueeze(1) / SLOPE


def solved(a, couplings, max_steps=60):
    lam, p = torch.tensor(couplings, device=DEVICE), torch.tensor([SLOPE], device=DEVICE)
    z, kept, *rest = kernels.solve(a.to(DEVICE), lam, p, 1e-4, max_steps)
    assert torch.equal(z.nan_to_num(), kept.nan_to_num())
    return kernels.Found(z.cpu(), kept, *(of_rows.cpu() for of_rows in rest))


class Nothing:
    def __getitem__(self, programs):
        return lambda *given, **options: None


@pytest.fixture
def no_pairs(monkeypatch):
    """What nodes do not solve stays as it is."""
    from neuronal.ops.kernels import wide

    monkeypatch.setattr(wide, "forward", Nothing())
    monkeypatch.setattr(wide, "backward", Nothing())


@pytest.mark.usefixtures("no_pairs")
@pytest.mark.parametrize("units", [65, 130])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("coupling", COUPLINGS[1:])
def test_nodes_solve_them_and_the_residual_is_a_bound(units, kind, coupling):
    a = rows_of(kind, units, *WIDTHS)
    found = solved(a, [coupling])
    assert (found.residual <= 1e-4).all()
    assert (found.steps >= 1).all()
    assert (violation(found.value, a, coupling, SLOPE) <= found.residual.double()).all()


@pytest.mark.usefixtures("no_pairs")
def test_rows_that_end_too_wide_are_not_tried_on_few_nodes(monkeypatch):
    """Units at both ends stay, so nodes that are close enough for s times the target are not for the solution."""
    from neuronal.ops.kernels import grid

    a = torch.randn(2, 130).clamp(-2, 2) * 0.8
    a[1, :2] = torch.tensor([-5.0, 5.0])
    both = solved(a, [-0.5])
    assert (both.residual <= 1e-4).all()
    original = grid.forward

    class OnFewNodes:
        def __getitem__(self, programs):
            return lambda *given, **options: None if options["AGAIN"] else original[programs](*given, **options)

    monkeypatch.setattr(grid, "forward", OnFewNodes())
    found = solved(a, [-0.5])
    assert found.residual[0] <= 1e-4
    assert found.residual[1] == float("inf")
    assert found.steps[1] == 1
    assert torch.equal(found.value[1], a[1])


@pytest.mark.usefixtures("no_pairs")
@pytest.mark.parametrize("kind", KINDS)
def test_strong_couplings(kind):
    """Newton's method may run away, and splines err by too much where nodes are far apart; but the residual says so."""
    a = rows_of(kind, 65, *WIDTHS)
    found = solved(a, COUPLINGS[:1])
    assert (
        violation(found.value, a, COUPLINGS[0], SLOPE)[found.residual < 1] <= found.residual[found.residual < 1]
    ).all()
    if kind == "normal":
        assert (found.residual[:2] <= 1e-4).all()


@pytest.mark.slow
@pytest.mark.usefixtures("no_pairs")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("coupling", [-0.5, 0.09])
def test_rows_of_an_image(kind, coupling):
    a = rows_of(kind, 784, *WIDTHS)
    found = solved(a, [coupling])
    assert (found.residual <= 1e-4).all()
    assert (violation(found.value, a, coupling, SLOPE) <= found.residual.double()).all()


# Of NaN, which a GPU does not mention.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_of_all_widths_in_one_call():
    """Those of few nodes, of many, too wide for any, and without numbers; couplings are of channels."""
    units, widths, couplings = 65, (20.0, 200.0, 2000.0, 60.0, 5.0, 400.0), [-0.5, 0.09, -0.05]
    a = rows_of("normal", units, *widths)
    a[4, 5] = torch.nan
    has_numbers = [True, True, True, True, False, True]
    found = solved(a, couplings)
    assert found.converged.tolist() == has_numbers
    assert (~found.value.isnan()).all(1).tolist() == (~found.value.isnan()).any(1).tolist() == has_numbers
    lam, p = torch.tensor(couplings, device=DEVICE), torch.tensor([SLOPE], device=DEVICE)
    g = torch.randn(len(widths), units)
    v, of_rows = kernels.vjp(g.to(DEVICE), found.value.to(DEVICE), lam, p, True, True)
    assert v.isfinite().all(1).tolist() == v.isfinite().any(1).tolist() == has_numbers
    for row in (0, 1, 2, 3, 5):
        z, coupling = found.value[row : row + 1], couplings[row % 3]
        assert violation(z, a[row : row + 1], coupling, SLOPE) <= found.residual[row]
        agrees(v[row], of_rows[:, row], z, g[row : row + 1], lam[row % 3].item())


def agrees(v, of_row, z, g, coupling):
    width = SLOPE * (z.max() - z.min()).item()
    # Wider ones are solved without nodes.
    spacing = width / 238 if width <= 119 else width / 1006 if width <= 503 else 0.0
    true, *rest = dense_gradients(z, g, coupling, SLOPE)
    # Splines err by the fourth power of the distance of nodes, most where many units are in one place.
    limit = 1e-4 + 0.12 * spacing**4
    assert (v.cpu().double() - true).norm() <= limit * true.norm()
    for ours, theirs in zip(of_row.cpu(), rest, strict=True):
        assert (ours.double() - theirs).abs() <= limit * (theirs.abs() + true.abs().sum())


@pytest.mark.usefixtures("no_pairs")
@pytest.mark.parametrize("units", [65, 130, 784])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_gradients_against_a_dense_implicit_solve(units, kind, coupling):
    z = rows_of(kind, units, *WIDTHS) if units < 784 else rows_of(kind, units, 300.0)
    g = 1e-6 * torch.randn_like(z)
    lam, p = torch.tensor([coupling], device=DEVICE), torch.tensor([SLOPE], device=DEVICE)
    v, of_rows = kernels.vjp(g.to(DEVICE), z.to(DEVICE), lam, p, True, True)
    for row in range(len(z)):
        agrees(v[row], of_rows[:, row], z[row : row + 1], g[row : row + 1], lam.item())


def test_out_of_steps_is_said():
    found = solved(rows_of("half", 65, 200.0), [-2.0], max_steps=1)
    assert found.steps.tolist() == [1]
    assert not found.converged.any()
    assert (found.residual > 1e-4).all()


@pytest.mark.parametrize("programs", [3, 2, 1])
def test_rows_that_are_done_are_left_alone(programs):
    """Solved, without numbers, or out of steps; others beside them are worked on, and programs without one do nothing.

    There are three groups of four rows, which fewer programs take one by one.
    """
    from neuronal.ops.kernels import grid
    from neuronal.ops.kernels.tables import tables

    rows, units, open_rows = 9, 65, (2, 7)
    a = rows_of("normal", units, *(200.0,) * rows).to(DEVICE)
    z, work = torch.full_like(a, 7.0), torch.full_like(a, 7.0)
    residual, steps = torch.full((rows,), 1e-5, device=DEVICE), torch.full((rows,), 2, device=DEVICE)
    residual[2], residual[7] = torch.inf, 0.5
    residual[3], residual[6], steps[6] = torch.nan, 0.5, 60
    before = residual.clone()
    lam, p = torch.tensor([-0.5], device=DEVICE), torch.tensor([SLOPE], device=DEVICE)
    given = (a, lam, p, z, work, residual, steps, *tables(a.device), rows, 1, 1, 1e-4, 60, units)
    grid.forward[(programs,)](*given, ROWS=4, AGAIN=True, W=8, V=32, num_warps=4, num_stages=1)
    for row in range(rows):
        if row in open_rows:
            assert residual[row] <= 1e-4
            assert violation(z[row : row + 1].cpu(), a[row : row + 1].cpu(), -0.5, SLOPE) <= residual[row].item()
            assert torch.equal(z[row], work[row])
        else:
            assert (z[row] == 7).all()
            assert (work[row] == 7).all()
            torch.testing.assert_close(residual[row], before[row], rtol=0, atol=0, equal_nan=True)
            assert steps[row] == (60 if row == 6 else 2)


def test_gradients_that_are_there_are_left_alone():
    from neuronal.ops.kernels import gradient

    rows, units = 5, 65
    z = rows_of("normal", units, *(200.0,) * rows).to(DEVICE)
    v, of_rows = torch.full_like(z, 7.0), torch.full((2, rows), 7.0, device=DEVICE)
    of_rows[0, 1] = of_rows[0, 4] = torch.nan
    lam, p = torch.tensor([-0.5], device=DEVICE), torch.tensor([SLOPE], device=DEVICE)
    given = (torch.ones_like(z), z, lam, p, v, torch.empty_like(z), of_rows, of_rows[1], rows, 1, 1)
    options = {"units": units, "WITH_COUPLING": True, "WITH_SLOPE": True, "NODES": 1024, "AGAIN": True, "C": 32}
    # Two programs, of which each has an open row.
    gradient.backward[(2,)](*given, **options, num_warps=4, num_stages=1)
    assert (v == 7).all(1).tolist() == (of_rows == 7).all(0).tolist() == [True, False, True, True, False]
    assert of_rows.isfinite().all()


@pytest.mark.usefixtures("no_pairs")
@pytest.mark.parametrize("kind", ["close", "half equal", "equal", "far from 0"])
@pytest.mark.parametrize("coupling", [-0.5, 0.051, 0.06, 0.09])
def test_a_coupling_that_is_not_learnt_has_the_same_gradients(coupling, kind):
    """Where units push each other apart the nodes have several rounds, of which the first can leave next to nothing."""
    z = torch.randn(1, 65, device=DEVICE) * {"close": 0.01, "far from 0": 0.001}.get(kind, 0.1)
    z[:, : {"half equal": 33, "equal": 65}.get(kind, 0)] = 0.05
    z += 100 * (kind == "far from 0")
    g, lam, p = torch.randn_like(z), torch.tensor([coupling], device=DEVICE), torch.tensor([10.0], device=DEVICE)
    true, *_ = dense_gradients(z.cpu(), g.cpu(), coupling, 10.0)
    for learnt in (False, True):
        v, of_rows = kernels.vjp(g, z, lam, p, learnt, False)
        assert (v.cpu().double() - true).norm() <= 1e-4 * true.norm()
        assert of_rows[0].isfinite().all()
