import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronal.ops.sphere import angles_of, direction


def by_hand(delta):
    """The formula of the paper, coordinate by coordinate, in torch's own differentiable steps."""
    theta = delta + math.pi / 2
    product, coordinates = torch.ones_like(theta[..., 0]), []
    for k in range(theta.shape[-1]):
        coordinates.append(product * theta[..., k].cos())
        product = product * theta[..., k].sin()
    return torch.stack([*coordinates, product], -1)


def uniform(units, n, dtype=torch.float64, seed=0):
    w = torch.randn(units, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (w / w.norm(dim=1, keepdim=True)).to(dtype)


SIZES = [2, 3, 5, 31, 32, 33, 34, 64, 65, 129, 1025]


@pytest.mark.parametrize("n", SIZES)
def test_direction_and_gradient_against_the_formula(n):
    delta = torch.randn(4, n - 1, dtype=torch.float64, requires_grad=True)
    g = torch.randn(4, n, dtype=torch.float64)
    u, oracle = direction(delta), by_hand(delta)
    torch.testing.assert_close(u, oracle, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(u.norm(dim=-1), torch.ones(4, dtype=torch.float64))
    (ours,), (theirs,) = (torch.autograd.grad(out, delta, g) for out in (u, oracle))
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("n", [2, 3, 33, 40])
def test_first_and_second_derivatives_by_differences(n):
    delta = torch.randn(2, n - 1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(direction, delta, fast_mode=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(direction, delta, fast_mode=True)


SPARSE = [
    [1.0, 0, 0, 0, 0],
    [-1.0, 0, 0, 0, 0],
    [0, 0, 0, 0, 1.0],
    [0, 0, 0, 0, -1.0],
    [0, 0, 0, -1.0, 0],
    [0, 2.0, 0, -1.0, 0],
    [3.0, 0, 0, 0, -4.0],
    [0, 0, 0, 0, 0],
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zeros_in_the_direction_have_finite_exact_gradients(dtype):
    delta, _ = angles_of(torch.tensor(SPARSE, dtype=dtype))
    delta.requires_grad_()
    # The derivative with respect to an angle behind zeros is itself a matter of 1e-17: compare in double, absolutely.
    g = torch.randn(len(SPARSE), 5, dtype=torch.float64)
    (ours,) = torch.autograd.grad(direction(delta), delta, g.to(dtype), create_graph=True)
    exact = delta.detach().double().requires_grad_()
    (oracle,) = torch.autograd.grad(by_hand(exact), exact, g)
    assert ours.isfinite().all()
    tolerance = 1e-6 if dtype == torch.float32 else 1e-14
    torch.testing.assert_close(ours.double(), oracle, rtol=tolerance, atol=tolerance)
    (second,) = torch.autograd.grad(ours.square().sum(), delta)
    assert second.isfinite().all()


def test_tiny_sines_are_not_lost():
    """Four sines of 4e-8: their product is 1e-30, and a gradient that divides by it has no digits left."""
    delta = torch.full((1, 7), 0.3)
    delta[0, 1:5] = torch.pi / 2
    low = delta.requires_grad_()
    high = delta.detach().double().requires_grad_()
    g = uniform(1, 8)
    assert direction(low)[0, -1].abs() < 1e-20
    (ours,), (oracle,) = (
        torch.autograd.grad(direction(low), low, g.float()),
        torch.autograd.grad(by_hand(high), high, g),
    )
    # Every entry to float32 precision of itself, however small.
    torch.testing.assert_close(ours.double(), oracle, rtol=1e-5, atol=1e-45)


@pytest.mark.parametrize("n", [27, 576, 1152, 4608])
def test_float32_stays_close_to_float64(n):
    """Bounds: twice the errors measured beforehand for a plain running product at these sizes."""
    delta, _ = angles_of(uniform(64, n))
    low = delta.float().requires_grad_()
    high = low.detach().double().requires_grad_()
    g = uniform(64, n, seed=1)
    u, exact = direction(low), direction(high)
    assert ((u.double() - exact).norm(dim=1)).max() < 5e-6
    (ours,), (theirs,) = torch.autograd.grad(u, low, g.float()), torch.autograd.grad(exact, high, g)
    assert ((ours.double() - theirs).norm(dim=1) / theirs.norm(dim=1)).max() < 1e-5


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6, width=32) | st.sampled_from([0.0, -0.0, 1e-30, 1e30, -1e30]), min_size=2, max_size=9)
)
def test_every_vector_comes_back(values):
    w = torch.tensor([values], dtype=torch.float64)
    delta, length = angles_of(w)
    back = length[:, None] * direction(delta)
    assert length.item() == pytest.approx(math.hypot(*values), rel=1e-12)
    torch.testing.assert_close(back, w, rtol=1e-9, atol=1e-14 * max(map(abs, values)))


def test_angles_lie_where_the_paper_has_them():
    theta = angles_of(uniform(1000, 6))[0] + math.pi / 2
    assert ((theta[:, :-1] >= 0) & (theta[:, :-1] <= math.pi)).all()
    assert (theta[:, -1].max() - theta[:, -1].min()) > 6


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype):
    delta = angles_of(uniform(64, 576))[0].to(dtype)
    u = direction(delta)
    assert u.dtype == dtype
    assert torch.equal(u, direction(delta.float()).to(dtype))


def test_what_is_stored_keeps_its_digits_in_bfloat16():
    """Stored as delta the direction is as good as plain weights in bfloat16; stored as theta it is 20 times worse."""
    w = uniform(64, 4608)
    delta, _ = angles_of(w)
    stored = direction(delta.bfloat16().double())
    theta = direction((delta + math.pi / 2).bfloat16().double() - math.pi / 2)
    plain = w.bfloat16().double()
    errors = [(kind - w).norm(dim=1).mean().item() for kind in (stored, plain, theta)]
    assert errors[0] < 1.2 * errors[1]
    assert errors[2] > 20 * errors[0]


def test_transforms():
    delta, x = torch.randn(3, 4, dtype=torch.float64), torch.randn(7, 5, dtype=torch.float64)

    def f(d, row):
        return (direction(d) @ row).square().sum()

    grads = torch.func.vmap(torch.func.grad(f), (None, 0))(delta, x)
    for grad, row in zip(grads, x, strict=True):
        d = delta.clone().requires_grad_()
        torch.testing.assert_close(grad, torch.autograd.grad((by_hand(d) @ row).square().sum(), d)[0])
    batched = torch.randn(6, 3, 4, dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(direction, in_dims=1)(batched), by_hand(batched.movedim(1, 0)))
    hessian = torch.func.hessian(f)(delta[:1], x[0])
    oracle = torch.autograd.functional.hessian(lambda d: (by_hand(d) @ x[0]).square().sum(), delta[:1])
    torch.testing.assert_close(hessian, oracle)


def test_one_dimension_is_refused():
    with pytest.raises(ValueError, match="In one dimension it is a sign"):
        direction(torch.zeros(3, 0))
    with pytest.raises(ValueError, match="at least two entries, got 1"):
        angles_of(torch.zeros(3, 1))
