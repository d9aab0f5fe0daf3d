"""Derivatives of any order, in both modes and under torch.func, against all pairs written out and recorded."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from torch.utils._pytree import tree_leaves

from neuronal.ops.coupling_mean import coupling_mean, unit_sum
from neuronal.ops.mean_field import solve
from neuronal.ops.sphere import direction
from tests.ops.dense_field import solve_dense, solve_recorded
from tests.ops.test_mean_field import CASES

# Rows of the first length are summed pair by pair, of the second by way of a grid.
UNITS = [5, 98]


def exact(a, coupling, slope):
    return solve(a, coupling, slope, tolerance=1e-13).value


def dense_mean(z, slope):
    return (slope[:, None, None] * (z.unsqueeze(1) - z.unsqueeze(2))).tanh().mean(2)


def numbers():
    return torch.tensor([-0.5, 0.1], dtype=torch.float64), torch.tensor([3.0, 2.0], dtype=torch.float64)


def scalar(f):
    """A number of a, coupling and slope, with derivatives of all orders in each."""
    return lambda *given: (f(*given).pow(3) * torch.arange(1, given[0].shape[1] + 1)).sum()


def of_numbers(transform):
    """Derivatives for coupling and slope."""
    return lambda f, a, lam, p: transform(lambda *n: scalar(f)(a, *n), (0, 1))(lam, p)


def penalty(f, a, lam, p):
    """How large the gradient is, and the gradient of that."""
    return grad(lambda *given: grad(scalar(f))(*given).square().sum(), (0, 1, 2))(a, lam, p)


def recorded_penalty(f, *given):
    given = [t.clone().requires_grad_() for t in given]
    (g,) = torch.autograd.grad(scalar(f)(*given), given[0], create_graph=True)
    return torch.autograd.grad(g.square().sum(), given)


TRANSFORMS = {
    "jvp": lambda f, a, lam, p: jvp(f, (a, lam, p), (a.flip(1), p, lam)),
    "jacfwd": lambda f, a, lam, p: jacfwd(lambda *n: f(a, *n), (0, 1))(lam, p),
    "hessian": of_numbers(hessian),
    "reverse of reverse": of_numbers(lambda f, at: jacrev(jacrev(f, at), at)),
    "reverse of forward": of_numbers(lambda f, at: jacrev(jacfwd(f, at), at)),
    "third": of_numbers(lambda f, at: jacrev(hessian(f, at), at)),
    "hessian times vector": lambda f, a, lam, p: jvp(lambda a: grad(scalar(f))(a, lam, p), (a,), (a.flip(1),)),
    "gradient of gradient": penalty,
    "create_graph": recorded_penalty,
    "row by row": lambda f, *given: vmap(lambda *row: penalty(f, *(t[None] for t in row)))(*given),
    "several couplings": lambda f, a, lam, p: vmap(hessian(scalar(f), 1), (None, 0, None))(
        a, torch.stack([lam, lam / 2]), p
    ),
}


@pytest.mark.parametrize("n", UNITS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_solutions(transform, n):
    given = (torch.randn(2, n, dtype=torch.float64), *numbers())
    ours, theirs = (tree_leaves(TRANSFORMS[transform](f, *given)) for f in (exact, solve_recorded))
    for one, other in zip(ours, theirs, strict=True):
        assert (one - other).abs().max() <= 1e-10 * other.abs().max()


def test_whole_matrices_of_second_derivatives():
    given = (torch.randn(1, 5, dtype=torch.float64), *(t[:1] for t in numbers()))
    ours, theirs = (tree_leaves(hessian(scalar(f), (0, 1, 2))(*given)) for f in (exact, solve_recorded))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_solutions_against_differences():
    given = tuple(t.requires_grad_() for t in (torch.randn(2, 4, dtype=torch.float64), *numbers()))
    assert gradcheck(exact, given, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(exact, given, check_fwd_over_rev=True)


@pytest.mark.parametrize("n", UNITS)
@pytest.mark.parametrize(("coupling", "slope"), CASES)
def test_strong_couplings(coupling, slope, n):
    a = torch.randn(2, n, dtype=torch.float64)
    a[1] *= 10
    start = solve_dense(a, coupling, slope)
    given = (a, *(torch.tensor([number], dtype=torch.float64) for number in (coupling, slope)))
    ours = recorded_penalty(exact, *given)
    theirs = recorded_penalty(lambda a, *numbers: solve_recorded(a, *numbers, start=start, steps=4), *given)
    for one, other in zip(ours, theirs, strict=True):
        # Where tanh is 1 to the last bit, nothing depends on the coupling.
        assert (one - other).norm() <= 1e-7 * other.norm() + 1e-12


def test_couplings_that_rows_take_in_turn():
    a = torch.randn(6, 7, dtype=torch.float64)
    lam, p = numbers()
    ours = penalty(exact, a, lam, p[:1])
    theirs = penalty(lambda a, lam, p: solve_recorded(a, lam.repeat(3), p.expand(6)), a, lam, p[:1])
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_single_precision():
    a, lam, p = torch.randn(4, 300, dtype=torch.float64), *(t.repeat(2) for t in numbers())
    ours = recorded_penalty(lambda *given: solve(*given).value, a.float(), lam.float(), p.float())
    for one, other in zip(ours, recorded_penalty(solve_recorded, a, lam, p), strict=True):
        # A solution is good to 1e-4.
        assert (one.double() - other).norm() <= 2e-3 * other.norm()


@pytest.mark.parametrize("units", [2, 96, 97, 400])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 3e-6), (torch.float64, 3e-12)])
def test_sums_of_derivatives(units, order, dtype, error):
    """Narrow and wide rows, against what autograd says of tanh."""
    x = (torch.randn(4, units) * torch.tensor([[0.1], [1.0], [10.0], [3000.0]])).to(dtype)
    w = torch.randn_like(x)
    t = (x.double().unsqueeze(1) - x.double().unsqueeze(2)).requires_grad_()
    derivative = t.tanh()
    for _ in range(order):
        (derivative,) = torch.autograd.grad(derivative.sum(), t, create_graph=True)
    expected = (derivative * w.double().unsqueeze(1)).mean(2)
    torch.testing.assert_close(unit_sum(x, w, order).double(), expected, rtol=0, atol=error * w.abs().max().item())


def test_a_row_with_nan_does_not_spoil_the_others():
    x, w = torch.randn(2, 4, 120)
    clean = unit_sum(x, w, 2)
    x[0, 3], w[2, 1] = torch.nan, torch.inf
    found = unit_sum(x, w, 2)
    assert found[[0, 2]].isnan().all()
    torch.testing.assert_close(found[[1, 3]], clean[[1, 3]], rtol=0, atol=2e-6)


def test_means_against_differences():
    z, slope = torch.randn(2, 4, dtype=torch.float64, requires_grad=True), numbers()[1].requires_grad_()
    assert gradcheck(coupling_mean, (z, slope), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(coupling_mean, (z, slope), check_fwd_over_rev=True)
    weighted = torch.randn_like(z).requires_grad_()
    assert gradgradcheck(lambda x, w: unit_sum(x, w, 2), (z, weighted), check_fwd_over_rev=True)


@pytest.mark.parametrize("n", UNITS)
def test_means_row_by_row(n):
    z, slope = torch.randn(2, n, dtype=torch.float64), numbers()[1]
    ours, theirs = (
        vmap(hessian(lambda z, p, f=f: f(z[None], p[None]).pow(3).sum(), (0, 1)))(z, slope)
        for f in (coupling_mean, dense_mean)
    )
    for one, other in zip(tree_leaves(ours), tree_leaves(theirs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("f", [lambda t: exact(t, *numbers()), lambda t: coupling_mean(t, numbers()[1]), direction])
def test_forward_mode_of_forward_mode_says_that_torch_loses_it(f):
    t = torch.randn(2, 3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match=r"forward mode of forward mode is not offered.*Use torch\.func\.hessian"):
        jacfwd(jacfwd(f))(t)
