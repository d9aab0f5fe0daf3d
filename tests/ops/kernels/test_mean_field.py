"""The kernels of the equation against all pairs in float64: in Triton's interpreter on a CPU, for real on a GPU (tests/gpu).

Short rows are summed pair by pair. Long ones are tried on 256 nodes, then on 1,024, and last tile by tile.
"""

import pytest
import torch

from neuronal.ops.kernels import mean_field as kernels
from neuronal.ops.mean_field import solve
from tests.ops.test_mean_field import dense_gradients, violation

pytest.importorskip("triton", reason="needs triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SLOPE = 10.0
# Lengths of rows, and widths in the unit of length of the slope: 256 nodes hold 119, and 1,024 hold 503.
STAGES = {
    "pairs": ((2, 20, 64), (0.5, 5.0, 50.0, 800.0)),
    "256 nodes": ((65, 130), (0.5, 5.0, 50.0, 100.0)),
    "1,024 nodes": ((65, 130), (130.0, 250.0, 350.0, 480.0)),
    "tiles": ((2, 65, 130), (150.0, 1e4, 1e7)),
}
EVERY = [(stage, units, widths) for stage, (lengths, widths) in STAGES.items() for units in lengths]
KINDS = ["normal", "half", "outlier"]
COUPLINGS = [-2.0, -0.5, -0.05, 0.05, 0.09]
SLOW = [] if DEVICE == "cuda" else [pytest.mark.slow]
# A long row takes the interpreter seconds; every stage has one length, and a coupling of each sign.
QUICK = {"pairs": COUPLINGS, "256 nodes": (-0.5, 0.05), "1,024 nodes": (-0.05, 0.09), "tiles": (-2.0, 0.05)}


def cases(*more):
    """Rows of every stage and length with every coupling."""
    for stage, units, widths in (*EVERY, *more):
        for coupling in COUPLINGS:
            is_long = coupling not in QUICK[stage] or units > 65
            yield pytest.param(stage, units, widths, coupling, marks=SLOW if is_long else [])


def rows_of(kind, units, *widths):
    """Rows of such widths: normal, half of them equal as dark pixels are, or with one that is far from the others."""
    a = torch.randn(len(widths), units)
    if kind == "half":
        a[:, 2::2] = a[:, :1]
    elif kind == "outlier":
        a[:, -1] = 50.0
    return a / (a.amax(1) - a.amin(1)).unsqueeze(1) * torch.tensor(widths).unsqueeze(1) / SLOPE


def solved(a, couplings, *, slope=SLOPE, max_steps=60):
    lam, p = torch.tensor(couplings, device=DEVICE), torch.tensor([slope], device=DEVICE)
    z, kept, *rest = kernels.solve(a.to(DEVICE), lam, p, 1e-4, max_steps)
    assert torch.equal(z.nan_to_num(), kept.nan_to_num())
    return kernels.Found(z.cpu(), kept, *(of_rows.cpu() for of_rows in rest))


def differentiated(g, z, couplings, *, learnt=True):
    lam, p = torch.tensor(couplings, device=DEVICE), torch.tensor([SLOPE], device=DEVICE)
    v, of_rows = kernels.vjp(g.to(DEVICE), z.to(DEVICE), lam, p, learnt, learnt)
    return v.cpu(), of_rows.cpu()


class Kernel:
    """What is started in the place of a kernel."""

    def __init__(self, action=lambda *given, **options: None):
        self.action = action

    def __getitem__(self, programs):
        return self.action


@pytest.fixture
def only(monkeypatch):
    """Leaves one stage of those for long rows."""
    from neuronal.ops.kernels import gradient, grid, wide

    def of(stage):
        if stage == "tiles":
            monkeypatch.setattr(
                grid, "forward", Kernel(lambda *given, **_: (given[5].fill_(torch.inf), given[6].zero_()))
            )
            monkeypatch.setattr(
                gradient, "backward", Kernel(lambda *given, **_: [of.fill_(torch.nan) for of in given[6:8]])
            )
            # So that a program has several rows.
            monkeypatch.setattr(kernels, "_programs", lambda groups: 2)
        elif stage != "pairs":
            monkeypatch.setattr(wide, "forward", Kernel())
            monkeypatch.setattr(wide, "backward", Kernel())

    return of


@pytest.mark.parametrize(("stage", "units", "widths", "coupling"), list(cases()))
def test_the_residual_is_a_bound_on_the_true_one_and_within_the_tolerance(stage, units, widths, coupling, only):
    only(stage)
    a = torch.cat([rows_of(kind, units, *widths) for kind in KINDS])
    found = solved(a, [coupling])
    # With a strong coupling Newton's method may run away where nodes are far apart; but the residual says so.
    is_strong = coupling == -2.0 and "nodes" in stage
    assert (found.residual[: 2 if is_strong else None] <= 1e-4).all()
    sure = found.residual < 1
    assert (violation(found.value, a, coupling, SLOPE) <= found.residual.double())[sure].all()
    assert stage == "tiles" or (found.steps >= 1).all()
    if stage in ("pairs", "256 nodes"):
        # A residual r moves the solution by at most r (contracting) or r / (1 - coupling slope).
        true = solve(a.double(), coupling, SLOPE, tolerance=1e-10).value
        moved = 1.01 * found.residual / (1 - max(0.0, coupling * SLOPE)) * a.abs().amax(1).clamp_min(1)
        assert ((found.value - true).abs().amax(1) <= moved)[sure].all()


@pytest.mark.parametrize(("units", "kind"), [(9, "outlier"), (33, "clusters"), (33, "equal"), (20, "shifted")])
@pytest.mark.parametrize(("coupling", "slope"), [(-2.0, 10.0), (-4.0, 25.0), (0.09, 10.0), (-0.3, 1.0)])
def test_hard_rows(units, kind, coupling, slope, only, monkeypatch):
    """Where plain Newton steps would run away; tiles that are wide; units that are equal."""
    monkeypatch.setattr(kernels, "FEW", 1)
    only("tiles")
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
    found = solved(a, [coupling], slope=slope)
    assert found.converged.all()
    assert (violation(found.value, a, coupling, slope) <= found.residual.double()).all()


def agrees(v, of_row, z, g, coupling, limit):
    true, *rest = dense_gradients(z, g, coupling, SLOPE)
    assert (v.double() - true).norm() <= limit * true.norm()
    for ours, theirs in zip(of_row, rest, strict=True):
        # A sum over units of both signs: against the size of what is summed.
        assert (ours.double() - theirs).abs() <= limit * (theirs.abs() + true.abs().sum())


def limit_for(z, stage):
    """Splines err by the fourth power of the distance of nodes, most where many units are in one place."""
    width = SLOPE * (z.max() - z.min()).item()
    spacing = width / {"256 nodes": 238, "1,024 nodes": 1006}.get(stage, torch.inf)
    return 1e-4 + 0.12 * spacing**4


@pytest.mark.parametrize(("stage", "units", "widths", "coupling"), list(cases(("1,024 nodes", 784, (300.0,)))))
def test_gradients_against_a_dense_implicit_solve(stage, units, widths, coupling, only):
    only(stage)
    z = torch.cat([rows_of(kind, units, *widths) for kind in KINDS])
    g = 1e-6 * torch.randn_like(z)
    v, of_rows = differentiated(g, z, [coupling])
    for row in range(len(z)):
        one = slice(row, row + 1)
        agrees(v[row], of_rows[:, row], z[one], g[one], coupling, limit_for(z[one], stage))


@pytest.mark.parametrize("kind", ["close", "half equal", "equal", "far from 0"])
@pytest.mark.parametrize("coupling", [-0.5, 0.051, *(pytest.param(c, marks=SLOW) for c in (0.06, 0.09))])
def test_a_coupling_that_is_not_learnt_has_the_same_gradients(coupling, kind, only):
    """Where units push each other apart the nodes have several rounds, of which the first can leave next to nothing."""
    only("256 nodes")
    z = torch.randn(1, 65) * {"close": 0.01, "far from 0": 0.001}.get(kind, 0.1)
    z[:, : {"half equal": 33, "equal": 65}.get(kind, 0)] = 0.05
    z += 100 * (kind == "far from 0")
    g = torch.randn_like(z)
    true, *_ = dense_gradients(z, g, coupling, SLOPE)
    for learnt in (False, True):
        v, of_rows = differentiated(g, z, [coupling], learnt=learnt)
        assert (v.double() - true).norm() <= 1e-4 * true.norm()
        assert of_rows[0].isfinite().all()


def test_rows_that_share_a_program_each_get_a_grid_that_will_do():
    """Narrow rows beside wide ones, weak couplings beside strong ones, and one row more than a program takes."""
    couplings = [-0.5, 0.05, -0.1]
    a = torch.logspace(-1.5, 0.1, 17).unsqueeze(1) * torch.randn(17, 100)
    found = solved(a, couplings)
    assert found.converged.all()
    for row in range(17):
        one = slice(row, row + 1)
        assert violation(found.value[one], a[one], couplings[row % 3], SLOPE) <= found.residual[row]


# Of NaN, which a GPU does not mention.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_of_all_widths_in_one_call():
    """Those of few nodes, of many, too wide for any, and without numbers; couplings are of channels."""
    widths, couplings = (20.0, 200.0, 2000.0, 60.0, 5.0, 400.0), [-0.5, 0.09, -0.05]
    stages = ("256 nodes", "1,024 nodes", "tiles", "256 nodes", None, "1,024 nodes")
    a = rows_of("normal", 65, *widths)
    a[4, 5] = torch.nan
    has_numbers = [stage is not None for stage in stages]
    found = solved(a, couplings)
    assert found.converged.tolist() == has_numbers
    assert (~found.value.isnan()).all(1).tolist() == (~found.value.isnan()).any(1).tolist() == has_numbers
    g = torch.randn_like(a)
    v, of_rows = differentiated(g, found.value, couplings)
    assert v.isfinite().all(1).tolist() == v.isfinite().any(1).tolist() == has_numbers
    for row, stage in enumerate(stages):
        if stage:
            one, coupling = slice(row, row + 1), couplings[row % 3]
            z = found.value[one]
            assert violation(z, a[one], coupling, SLOPE) <= found.residual[row]
            agrees(v[row], of_rows[:, row], z, g[one], coupling, limit_for(z, stage))


# Of infinities, which a GPU does not mention.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("stage", "units"), [("pairs", 20), ("all", 80), ("tiles", 80)])
def test_rows_of_all_kinds(stage, units, only):
    """No coupling, constant, with NaN, with infinity, two values, shifted, wide, coupling NaN, the end of the range."""
    if stage == "tiles":
        only(stage)
    a, coupling = torch.randn(9, units), [0.0, *[-0.5] * 6, torch.nan, -0.5]
    a[1] = 3.0
    a[2, 5], a[3, 7] = torch.nan, torch.inf
    a[4] = a[4].sign()
    a[5] += 50
    a[6, 3] = 30.0
    a[8] = a[8].clamp(-3, 3) * 1e38
    found = solved(a, coupling)
    assert found.converged.tolist() == [True, True, False, False, True, True, True, False, True]
    if stage != "tiles":
        assert torch.equal(found.value[:2], a[:2])
        assert not found.steps[:2].any()
        assert not found.residual[:2].any()
    assert found.value[[2, 3, 7]].isnan().all()
    assert found.residual[[2, 3, 7]].isnan().all()
    some = [4, 5, 6, 8]
    assert (violation(found.value[some], a[some], -0.5, SLOPE) <= found.residual[some]).all()
    v, of_rows = differentiated(torch.ones_like(a), found.value, coupling)
    assert v.isfinite().all(1).tolist() == found.converged.tolist()
    assert of_rows.isfinite().all(0).tolist() == found.converged.tolist()


@pytest.mark.parametrize(("stage", "units"), [("pairs", 20), ("1,024 nodes", 65), ("tiles", 65)])
def test_out_of_steps_is_said(stage, units, only):
    only(stage)
    found = solved(rows_of("half", units, 150.0), [-2.0], max_steps=1)
    assert found.steps.tolist() == [1]
    assert stage == "1,024 nodes" or not found.converged.any()
    assert (found.residual > 1e-4).all()


@pytest.mark.parametrize("programs", [3, 2, 1])
@pytest.mark.parametrize("stage", ["1,024 nodes", "tiles"])
def test_rows_that_are_done_are_left_alone(stage, programs):
    """Solved, without numbers, or out of steps; others beside them are worked on, and programs without one do nothing.

    On nodes there are three groups of four rows, which fewer programs take one by one.
    """
    from neuronal.ops.kernels import grid, wide
    from neuronal.ops.kernels.tables import tables

    rows, units = 9, 65
    # What looks as if it had no numbers may have overflowed, and is looked at a last time.
    open_rows = (2, 3, 7) if stage == "tiles" else (2, 7)
    a = rows_of("normal", units, *(200.0,) * rows).to(DEVICE)
    z, work = torch.full_like(a, 7.0), torch.full_like(a, 7.0)
    residual, steps = torch.full((rows,), 1e-5, device=DEVICE), torch.full((rows,), 2, device=DEVICE)
    residual[2], residual[7] = torch.inf, 0.5
    residual[3], residual[6], steps[6] = torch.nan, 0.5, 60
    before = residual.clone()
    lam, p = torch.tensor([-0.5], device=DEVICE), torch.tensor([SLOPE], device=DEVICE)
    given, numbers = (a, lam, p, z, work, residual, steps), (rows, 1, 1, 1e-4, 60, units)
    if stage == "tiles":
        converged = torch.zeros(rows, dtype=torch.bool, device=DEVICE)
        space = torch.empty(programs * wide.SPACES * units, device=DEVICE)
        wide.forward[(programs,)](*given, converged, space, *numbers, num_warps=8)
        assert converged.tolist() == [row != 6 for row in range(rows)]
    else:
        options = {"ROWS": 4, "AGAIN": True, "W": 8, "V": 32, "num_warps": 4, "num_stages": 1}
        grid.forward[(programs,)](*given, *tables(a.device), *numbers, **options)
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


def test_what_is_covered():
    a = torch.randn(2, 80)
    assert not kernels.covers(a, 1e-4)
    assert not kernels.covers(a.to(DEVICE), 1e-6)
    assert not kernels.covers(a.to(DEVICE).double(), 1e-4)
