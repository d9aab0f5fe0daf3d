import threading

import pytest
import torch

from neuronal.ops.coupling_mean import _mean, _mean_vjp, coupling_mean
from neuronal.ops.field import Field
from neuronal.ops.grid import Precision, bound
from neuronal.ops.mean_field import solve
from neuronal.ops.workspace import Workspace, release, workspace
from tests.ops.dense_field import solve_dense

# The corners of what is promised: strong and weak coupling, both signs, flat and steep.
CASES = [(-0.5, 10.0), (-2.0, 10.0), (-10.0, 50.0), (-10.0, 1.0), (0.05, 10.0), (0.018, 50.0), (0.9, 1.0), (-0.1, 3.0)]


def violation(z, a, coupling, slope):
    """The true equation in float64, pair by pair, relative to max(1, max|a|)."""
    z, a = z.double(), a.double()
    h = torch.stack([(slope * (row.unsqueeze(0) - row.unsqueeze(1))).tanh().mean(1) for row in z])
    return (z - a + coupling * h).abs().amax(1) / a.abs().amax(1).clamp_min(1)


def rows_of_all_kinds(n, dtype=torch.float64):
    """Ordinary, wide, constant, with an outlier, narrow, two-valued, shifted."""
    a = torch.randn(7, n, dtype=dtype)
    a[1] *= 100
    a[2] = 3.0
    a[3, n // 2] = 1e4
    a[4] *= 1e-3
    a[5] = a[5].sign()
    a[6] += 50
    return a


@pytest.mark.parametrize(("coupling", "slope"), CASES)
@pytest.mark.parametrize("n", [1, 2, 7, 300])
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float32, 1e-4), (torch.float32, 2e-5), (torch.float64, 1e-4), (torch.float64, 1e-10)],
)
def test_the_residual_is_a_bound_on_the_true_one_and_within_the_tolerance(coupling, slope, n, dtype, tolerance):
    if tolerance == 2e-5 and -coupling * slope > 100:
        # z itself, rounded to float32, violates the equation by |coupling| slope times its rounding: 500 * 6e-8.
        tolerance = 1e-4
    a = rows_of_all_kinds(n).to(dtype)
    solution = solve(a, coupling, slope, tolerance=tolerance)
    assert solution.converged.all()
    assert (solution.residual <= tolerance).all()
    # What the oracle itself rounds: 1e-14 of the largest values times the coupling.
    assert (violation(solution.value, a, coupling, slope) <= solution.residual.double() + 1e-13).all()


@pytest.mark.parametrize(("coupling", "slope"), CASES)
def test_against_the_dense_solve(coupling, slope):
    a = rows_of_all_kinds(60)
    fast, dense = solve(a, coupling, slope, tolerance=1e-11).value, solve_dense(a, coupling, slope)
    # A residual r moves the solution by at most r (contracting) or r / (1 - coupling slope).
    most = 1e-11 / (1 - max(0, coupling * slope)) * a.abs().amax(1, keepdim=True).clamp_min(1)
    assert ((fast - dense).abs() <= 2 * most).all()


def dense_gradients(z, g, coupling, slope):
    """The implicit function theorem written out in float64 at the solution z that was returned."""
    z, g, n = z.detach().double(), g.double(), z.shape[1]
    d = z.unsqueeze(1) - z.unsqueeze(2)
    t = (slope * d).tanh()
    K = slope * (1 - t.square()) / n
    A = coupling * K + torch.diag_embed(1 - coupling * K.sum(2))
    v = torch.linalg.solve(A.mT, g)
    d_slope = -(v * coupling * (d * (1 - t.square())).mean(2)).sum()
    return v, -(v * t.mean(2)).sum(), d_slope


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-8), (torch.float32, 1e-4)])
@pytest.mark.parametrize(("coupling", "slope"), [*CASES, (-2.0, 1.0), (-2.0, 50.0), (-10.0, 10.0), (0.0, 10.0)])
@pytest.mark.parametrize("n", [20, 96, 200])
def test_gradients_against_a_dense_implicit_solve(n, coupling, slope, dtype, error):
    a = torch.randn(6, n, dtype=torch.float64)
    a[1] *= 30
    a[2, 3] = 1e3
    a[3] *= 0.01
    if dtype == torch.float32:
        a[4, 1], a[5, : n // 2] = 1e6, 3000.0 + a[5, : n // 2]
    g = torch.randn(6, n, dtype=torch.float64)
    x = a.to(dtype).requires_grad_()
    lam, p = (torch.tensor(v, dtype=dtype, requires_grad=True) for v in (coupling, slope))
    z = solve(x, lam, p, tolerance=1e-12 if dtype == torch.float64 else 1e-4).value
    found = torch.autograd.grad(z, (x, lam, p), g.to(dtype))
    v, *rest = dense_gradients(z, g, lam.item(), p.item())
    assert ((found[0].double() - v).norm(dim=1) <= error * v.norm(dim=1)).all()
    for ours, theirs in zip(found[1:], rest, strict=True):
        # A sum over rows and units of both signs: against the size of what is summed.
        assert (ours.double() - theirs).abs() <= error * (theirs.abs() + v.abs().sum())


@pytest.mark.parametrize("points", [4, 6, 8, 12])
@pytest.mark.parametrize("spacing", [0.1, 0.3])
def test_the_error_of_the_grid_is_within_its_bound(points, spacing):
    """Two units at every offset to the grid and at every distance: the worst case is among them."""
    offsets = torch.linspace(0, spacing, 37, dtype=torch.float64)
    distances = torch.linspace(0.01, 6, 211, dtype=torch.float64)
    first = offsets.repeat_interleave(len(distances))
    x = torch.stack([torch.zeros_like(first), first, first + distances.repeat(len(offsets))], 1)
    precision = Precision(points, spacing, bound(points) * spacing**points, torch.float64)
    h = Field(x, precision, Workspace()).means()
    exact = (x.unsqueeze(1) - x.unsqueeze(2)).tanh().mean(2)
    assert (h - exact).abs().max() <= precision.error + 1e-14
    assert (h - exact).abs().max() >= 0.01 * precision.error


@pytest.mark.parametrize("units", [1, 2, 96, 97, 400])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 2e-6), (torch.float64, 2e-12)])
def test_means_of_long_and_wide_rows(units, dtype, error):
    """Against all pairs; a slope without gradient leaves the other gradient as it is."""
    z = (torch.randn(4, units) * torch.tensor([[0.01], [1.0], [100.0], [1.0]])).to(dtype).requires_grad_()
    slope = torch.tensor([0.1, 10.0, 3.0, 30.0], dtype=dtype, requires_grad=True)
    g = torch.randn_like(z)
    true_z, true_slope = (t.detach().double().requires_grad_() for t in (z, slope))
    expected = (true_slope[:, None, None] * (true_z.unsqueeze(1) - true_z.unsqueeze(2))).tanh().mean(2)
    found = coupling_mean(z, slope)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=error)
    ours = torch.autograd.grad(found, (z, slope), g)
    for one, other in zip(ours, torch.autograd.grad(expected, (true_z, true_slope), g.double()), strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=30 * error * units**0.5)
    (alone,) = torch.autograd.grad(coupling_mean(z, slope.detach()), z, g)
    assert torch.equal(alone, ours[0])


def test_what_the_compiler_is_told_of_means():
    """Rows of one image whose channels come last lie in memory the other way round."""
    z, slope, g = torch.randn(7, 3).T, torch.ones(3), torch.randn(3, 7)
    torch.library.opcheck(_mean, (z, slope), test_utils="test_faketensor")
    torch.library.opcheck(_mean_vjp, (g, z, slope), test_utils="test_faketensor")


@pytest.mark.parametrize("n", [6, 400])
def test_rows_with_nan_or_infinity_are_nan_and_the_others_are_not(n):
    a = torch.randn(6, n)
    clean = solve(a, -0.5, 10.0)
    a[1, 3], a[3, 0], a[4, 5] = torch.nan, torch.inf, -torch.inf
    x = a.requires_grad_()
    coupling = torch.tensor([*[-0.5] * 5, torch.nan], requires_grad=True)
    solution = solve(x, coupling, 10.0)
    assert solution.value[[1, 3, 4, 5]].isnan().all()
    assert solution.converged.tolist() == [True, False, True, False, False, False]
    torch.testing.assert_close(solution.value[[0, 2]], clean.value[[0, 2]], rtol=0, atol=2e-4)
    solution.value.sum().backward()
    assert x.grad[[0, 2]].isfinite().all()
    assert coupling.grad[[0, 2]].isfinite().all()


@pytest.mark.parametrize("n", [6, 200])
def test_rows_take_couplings_and_slopes_in_turn(n):
    a = torch.randn(6, n, dtype=torch.float64)
    lam, p = torch.tensor([-0.5, 0.05], dtype=torch.float64), torch.tensor([10.0, 5.0, 2.0], dtype=torch.float64)
    found = []
    for given in ((lam, p), (lam.repeat(3), p.repeat(2))):
        given = tuple(t.clone().requires_grad_() for t in given)
        z = solve(a, *given, tolerance=1e-10).value
        found.append((z, *torch.autograd.grad(z.square().sum(), given)))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=0, atol=1e-12)
    torch.testing.assert_close(found[0][1], found[1][1].view(3, 2).sum(0), rtol=0, atol=1e-9)
    torch.testing.assert_close(found[0][2], found[1][2].view(2, 3).sum(0), rtol=0, atol=1e-9)


def test_empty_input():
    x = torch.empty(0, 5, requires_grad=True)
    z = solve(x, -0.5, 10.0).value
    assert z.shape == (0, 5)
    z.sum().backward()


@pytest.mark.parametrize(
    ("a", "coupling", "slope", "tolerance", "words"),
    [
        (torch.zeros(3), -0.5, 10.0, 1e-4, r"floats of shape \(rows, N\), got torch.float32 \(3,\)"),
        (torch.zeros(1, 3, dtype=torch.complex64), -0.1, 1.0, 1e-4, r"got torch\.complex64"),
        (torch.zeros(1, 3).double(), 0.1, 10.0, 1e-4, r"coupling \* slope .* below 1 .*, got 0\.1 \* 10 = 1\. With"),
        (torch.zeros(1, 3), -0.1, -1.0, 1e-4, "slope needs to be above 0, got -1"),
        (torch.zeros(1, 3), -0.1, 1.0, 0, "tolerance needs to be above 0, got 0"),
        (torch.zeros(6, 3), torch.zeros(4), 1.0, 1e-4, "as many as divide the 6 rows, got 4"),
    ],
)
def test_wrong_input_is_refused(a, coupling, slope, tolerance, words):
    with pytest.raises(ValueError, match=words):
        solve(a, coupling, slope, tolerance=tolerance)


@pytest.mark.parametrize("n", [20, 200])
def test_a_solve_in_inference_mode_leaves_later_ones_alone(n):
    release()
    a = torch.randn(4, n)
    with torch.inference_mode():
        inside = solve(a, -0.5, 10.0).value
    x = a.clone().requires_grad_()
    outside = solve(x, -0.5, 10.0).value
    outside.sum().backward()
    assert torch.equal(inside, outside)
    with torch.inference_mode():
        assert torch.equal(solve(a, -0.5, 10.0).value, inside)


@pytest.mark.parametrize("n", [20, 200])
def test_means_of_rows_with_nan_or_infinity_are_nan_and_the_others_are_not(n):
    z = torch.randn(4, n)
    clean = coupling_mean(z, torch.full((4,), 10.0))
    z[0, 3], z[2, 0] = torch.nan, torch.inf
    z.requires_grad_()
    found = coupling_mean(z, torch.full((4,), 10.0))
    assert found[[0, 2]].isnan().all()
    torch.testing.assert_close(found[[1, 3]], clean[[1, 3]], rtol=0, atol=2e-6)
    found[[1, 3]].sum().backward()
    assert z.grad[[1, 3]].isfinite().all()


@pytest.mark.parametrize("n", [20, 200])
def test_rows_at_the_end_of_the_range_are_solved(n):
    a = 1e37 * torch.randn(2, n)
    solution = solve(a, -0.5, 10.0)
    assert solution.converged.all()
    torch.testing.assert_close(solution.value, a)


def test_units_that_are_all_equal_stay_to_the_last_bit():
    a = torch.full((3, 784), 1.37)
    solution = solve(a, -10.0, 50.0, tolerance=2e-5)
    assert torch.equal(solution.value, a)
    assert solution.converged.all()


def test_no_steps_are_spent_on_what_rounding_forbids():
    solution = solve(1 + 0.01 * torch.randn(2, 784), -10.0, 50.0, tolerance=1e-6)
    assert not solution.converged.any()
    assert solution.steps.max() < 25


def test_out_of_steps_is_said():
    solution = solve(torch.randn(2, 50), -2.0, 10.0, max_steps=1)
    assert not solution.converged.any()
    assert (solution.residual > 1e-4).all()
    assert solution.steps.tolist() == [1, 1]


def test_half_precision_is_solved_in_float32():
    a = torch.randn(2, 50).bfloat16()
    solution = solve(a, -0.5, 10.0)
    assert solution.value.dtype == torch.bfloat16
    torch.testing.assert_close(solution.value, solve(a.float(), -0.5, 10.0).value.bfloat16())


def test_each_thread_has_its_own_memory():
    mine = workspace("row")
    theirs = []
    thread = threading.Thread(target=lambda: theirs.append(workspace("row")))
    thread.start()
    thread.join()
    assert workspace("row") is mine
    assert theirs[0] is not mine
