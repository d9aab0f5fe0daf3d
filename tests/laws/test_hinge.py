"""Laws of the geometric parameterisation (arXiv:2305.15912, Theorem 3 and Section 4.1)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronal.nn import GeometricConv2d, GeometricLinear
from neuronal.ops.hinge import hinge
from neuronal.ops.sphere import angles_of, direction


@pytest.mark.parametrize("layer", [GeometricLinear(4, 6, dtype=torch.float64), GeometricConv2d(2, 5, 3).double()])
def test_scale_does_not_move_the_hinge_and_offset_moves_nothing_else(layer):
    torch.nn.init.normal_(layer.offset)
    before = hinge(layer.weight, layer.bias)
    with torch.no_grad():
        layer.scale.uniform_(0.1, 10)
    after = hinge(layer.weight, layer.bias)
    torch.testing.assert_close(after.normal, before.normal)
    torch.testing.assert_close(after.location, before.location)
    with torch.no_grad():
        layer.offset += 0.3
    moved = hinge(layer.weight, layer.bias)
    torch.testing.assert_close(moved.normal, before.normal)
    torch.testing.assert_close(moved.location, before.location - 0.3 * before.normal)


@settings(max_examples=100, deadline=None)
@given(n=st.integers(2, 200), size=st.floats(1e-6, 2), seed=st.integers(0, 10**6))
def test_a_step_in_the_angles_turns_the_direction_by_at_most_its_length(n, size, seed):
    random = torch.Generator().manual_seed(seed)
    delta, _ = angles_of(torch.randn(8, n, generator=random, dtype=torch.float64))
    step = torch.randn(8, n - 1, generator=random, dtype=torch.float64)
    step *= size / step.norm(dim=1, keepdim=True)
    u, v = direction(delta), direction(delta + step)
    # The angle from the chord: the arc cosine has no digits left for small angles.
    turned = 2 * torch.asin(((u - v).norm(dim=1) / 2).clamp_max(1))
    assert (turned <= size * (1 + 1e-9) + 1e-12).all()


def test_the_metric_is_diagonal_with_products_of_squared_sines():
    """Theorem 3: to first order the squared turn is sum_k (prod_{i<k} sin^2 theta_i) eps_k^2."""
    delta = torch.randn(7, dtype=torch.float64) / 2
    J = torch.autograd.functional.jacobian(direction, delta)
    sines = delta.cos().square()
    expected = torch.cat([torch.ones(1, dtype=torch.float64), sines.cumprod(0)[:-1]])
    torch.testing.assert_close(J.T @ J, expected.diag(), rtol=1e-10, atol=1e-12)
