from math import inf

import pytest
import torch

from neuronal.ops.damped import loop, num_steps, pairwise_mean
from neuronal.ops.mean_field import solve

ROWS = torch.cat([torch.randn(4, 30), 5 * torch.randn(4, 30), torch.linspace(-1, 1, 30).sign().expand(2, 30)]).double()


@pytest.mark.parametrize("slope", [1.0, 10.0])
@pytest.mark.parametrize("product", [-20.0, -0.5, 0.0, 0.5, 0.95])
def test_as_many_steps_as_are_said_bring_every_unit_within_the_error(product, slope):
    """Against Newton's method in float64."""
    coupling = product / slope
    true = solve(ROWS, coupling, slope, tolerance=1e-12).value
    for error in (1e-2, 1e-5, 1e-8):
        z = ROWS
        for _ in range(num_steps(coupling, slope, error)):
            z = z + 2 / (2 - product) * (ROWS - coupling * pairwise_mean(z, slope) - z)
        assert (z - true).abs().max() <= error + 1e-11


def test_a_step_shrinks_the_distance_by_what_is_said():
    """From anywhere: the worst of random starts stays within the factor, and comes near it."""
    for product in (-8.0, -0.5, 0.8):
        a = 0.02 * torch.randn(3, 12, dtype=torch.float64)
        true = solve(a, product, 1.0, tolerance=1e-13).value
        z = true + 10 ** torch.empty(200, 1, 1, dtype=torch.float64).uniform_(-3, 1) * torch.randn(200, 3, 12)
        after = z + 2 / (2 - product) * (a - product * pairwise_mean(z, 1.0) - z)
        shrunk = (after - true).norm(dim=-1) / (z - true).norm(dim=-1)
        assert 0.6 * abs(product) / (2 - product) < shrunk.max() <= abs(product) / (2 - product) + 1e-9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_loop_of_onnx_gives_what_the_operator_does(dtype):
    a = torch.cat([ROWS, ROWS]).to(dtype)
    coupling, slope = torch.tensor([-0.5, 0.08], dtype=dtype), torch.tensor([10.0], dtype=dtype)
    true = solve(a.double(), coupling.double().repeat(10), 10.0, tolerance=1e-12).value
    z, residual, steps, converged = loop(a, coupling, slope, 1e-5, 60)
    # A residual r is a distance of at most r / (1 - coupling slope), in the Euclidean norm.
    bound = 1e-5 * a.abs().amax(1).clamp_min(1) * 30**0.5 / (1 - 0.8)
    assert ((z - true).abs().amax(1) <= bound).all()
    assert converged.all()
    assert residual.max() <= 1e-5
    assert (steps > 1).all()


def test_the_loop_leaves_rows_without_numbers_alone():
    a = torch.randn(3, 5)
    a[0, 2], a[1, 1] = torch.nan, inf
    z, _, _, converged = loop(a, torch.tensor([-0.5]), torch.tensor([10.0]), 1e-4, 60)
    assert converged.tolist() == [False, False, True]
    torch.testing.assert_close(z[2:], solve(a[2:], -0.5, 10.0).value, rtol=0, atol=1e-3)
    assert not z[:2].isfinite().all(1).any()
