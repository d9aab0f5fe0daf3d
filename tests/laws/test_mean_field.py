"""Laws of the implicit-bias equation, with oracles that share nothing with the solver."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronal.ops.mean_field import solve

problems = st.builds(
    lambda rows, n, kappa, slope, scale, seed: (
        torch.randn(rows, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale,
        kappa / slope,
        slope,
    ),
    rows=st.integers(1, 4),
    n=st.integers(1, 60),
    kappa=st.floats(-100, 0.9),
    slope=st.floats(1, 50),
    scale=st.sampled_from([1e-3, 0.1, 1.0, 10.0, 1e3]),
    seed=st.integers(0, 10**6),
)


@settings(max_examples=80, deadline=None)
@given(problems)
def test_mean_and_order_are_kept(problem):
    a, coupling, slope = problem
    z = solve(a, coupling, slope, tolerance=1e-11).value
    size = a.abs().amax(1).clamp_min(1)
    assert ((z.mean(1) - a.mean(1)).abs() <= 1e-10 * size).all()
    climbing = z.gather(1, a.argsort(1)).diff(dim=1)
    assert (climbing >= -1e-10 * size.unsqueeze(1)).all()


@settings(max_examples=60, deadline=None)
@given(problems, st.floats(1e-3, 10), st.integers(0, 10**6))
def test_contracting_couplings_do_not_expand_distances(problem, size, seed):
    a, coupling, slope = problem
    coupling = -abs(coupling)
    b = a + size * torch.randn(a.shape, generator=torch.Generator().manual_seed(seed), dtype=a.dtype)
    y, z = (solve(t, coupling, slope, tolerance=1e-11).value for t in (a, b))
    error = 1e-10 * torch.maximum(a.abs().amax(1), b.abs().amax(1)).clamp_min(1) * a.shape[1]
    assert ((y - z).norm(dim=1) <= (a - b).norm(dim=1) + error).all()


@settings(max_examples=40, deadline=None)
@given(problems)
def test_without_coupling_nothing_happens_to_the_last_bit(problem):
    a, _, slope = problem
    assert torch.equal(solve(a, 0.0, slope).value, a)


@settings(max_examples=40, deadline=None)
@given(problems, st.integers(0, 10**6))
def test_a_row_does_not_depend_on_its_companions(problem, seed):
    a, coupling, slope = problem
    others = 1e3 * torch.randn(3, a.shape[1], generator=torch.Generator().manual_seed(seed), dtype=a.dtype)
    alone = solve(a, coupling, slope, tolerance=1e-10).value
    together = solve(torch.cat([others, a]), coupling, slope, tolerance=1e-10).value[3:]
    expanding = 1 / (1 - max(0.0, coupling * slope))
    assert ((alone - together).abs() <= 2e-10 * expanding * a.abs().amax(1, keepdim=True).clamp_min(1)).all()


def energy_descent(a, coupling, slope, steps=20_000):
    """Gradient descent on 1/2 |z - a|^2 + |coupling| / (2 N p) sum_ij log cosh(p (z_i - z_j)), the paper's Eq. 12."""
    z = a.clone()
    rate = 1 / (1 - coupling * slope)
    for _ in range(steps):
        pull = (slope * (z.unsqueeze(1) - z.unsqueeze(2))).tanh().mean(2)
        change = rate * (z - a + coupling * pull)
        z = z - change
        if change.abs().max() < 1e-14:
            break
    return z


@pytest.mark.parametrize(("coupling", "slope"), [(-0.5, 10.0), (-2.0, 10.0), (-1.0, 30.0), (-0.1, 1.0)])
def test_the_solution_minimises_the_energy(coupling, slope):
    a = torch.randn(4, 40, dtype=torch.float64)
    z = solve(a, coupling, slope, tolerance=1e-12).value
    torch.testing.assert_close(z, energy_descent(a, coupling, slope), rtol=0, atol=1e-9)


def pool_adjacent_violators(y):
    """The nearest non-decreasing sequence, by the classical algorithm."""
    blocks = []
    for value in y:
        blocks.append([value, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (v2, n2), (v1, n1) = blocks.pop(), blocks.pop()
            blocks.append([(v1 * n1 + v2 * n2) / (n1 + n2), n1 + n2])
    return [value for value, count in blocks for _ in range(count)]


@pytest.mark.parametrize("coupling", [-0.3, -1.0])
def test_steep_slopes_tend_to_isotonic_regression(coupling):
    """As p grows, z tends to the proximal map of the mean absolute difference: sort, shift by rank, pool violators."""
    a = torch.randn(3, 25, dtype=torch.float64)
    n = a.shape[1]
    gaps = []
    for slope in (1e2, 1e3, 1e4):
        z = solve(a, coupling, slope, tolerance=1e-11).value
        for row, own in zip(z, a, strict=True):
            ordered, order = own.sort()
            rank = torch.arange(n, dtype=torch.float64)
            pulled = ordered + coupling * (2 * rank - n + 1) / n
            limit = torch.empty(n, dtype=torch.float64)
            limit[order] = torch.tensor(pool_adjacent_violators(pulled.tolist()), dtype=torch.float64)
            gaps.append((row - limit).abs().max().item())
    first, second, third = (max(gaps[i : i + 3]) for i in (0, 3, 6))
    assert third < 1e-2
    assert third < second < first
