"""relu(close(x + h)) and its gradients by kernels, against formulas in float64 and against torch."""

from contextlib import nullcontext

import pytest
import torch
from torch.nn import functional as F
from torch.testing._internal.two_tensor import TwoTensor

from neuronal.nn import FarkasResidual
from neuronal.ops.farkas import relu_of_closed_sum
from tests.ops.kernels.cases import SUMS, farkas_sum

pytest.importorskip("triton", reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("widen", [False, True])
@pytest.mark.parametrize("shape", SUMS, ids=str)
def test_sums_and_gradients(shape, widen):
    farkas_sum(shape, device=DEVICE, widen=widen)
    farkas_sum(shape, device=DEVICE, widen=widen, aggregate="mean", cutoff=0.5)
    farkas_sum(shape, device=DEVICE, widen=widen, dtype=torch.bfloat16, aggregate="mean")
    if len(shape) == 4:
        farkas_sum(shape, device=DEVICE, widen=widen, channels_last=True)
        farkas_sum(shape, device=DEVICE, widen=widen, channels_last=True, dtype=torch.bfloat16)


@pytest.mark.parametrize("above", [0.5, -0.5])
@pytest.mark.parametrize("aggregate", ["sum", "mean"])
@pytest.mark.parametrize("widen", [False, True])
def test_the_papers_rule(widen, aggregate, above):
    """The last bias is free where it is larger than what is needed, and has no part in anything where it is not."""
    for channels_last in (False, True):
        how = {"channels_last": channels_last, "widen": widen, "aggregate": aggregate, "cutoff": 0.25, "above": above}
        farkas_sum((2, 6, 3, 5), device=DEVICE, **how)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(
    ("dtype", "other"), [(torch.float16, None), (torch.float32, torch.bfloat16), (torch.bfloat16, torch.float16)]
)
def test_precisions(dtype, other, channels_last):
    farkas_sum((2, 6, 3, 5), device=DEVICE, dtype=dtype, other=other, channels_last=channels_last)


@pytest.mark.parametrize("channels_last", [False, True])
def test_programs_that_take_several_tiles(channels_last, monkeypatch):
    monkeypatch.setattr("neuronal.ops.kernels.farkas_sum.PROGRAMS", 3)
    monkeypatch.setattr("neuronal.ops.kernels.farkas_sum.TILE", 64)
    farkas_sum((3, 5, 6, 7), device=DEVICE, channels_last=channels_last)


def both(x, h, widen, g):
    """What the kernels and what torch's own steps give: results and gradients for x, h, offsets and the last bias."""
    close = FarkasResidual(x.shape[1], widen).to(DEVICE)
    balance = close.balance
    fixed = {"base": balance.base, "margin": balance.margin, "cutoff": balance.cutoff}
    leaves = [x.to(DEVICE).requires_grad_(), h.to(DEVICE).requires_grad_(), balance.offsets, balance.last]
    for y in (relu_of_closed_sum(*leaves, **fixed), F.relu(close(leaves[0] + leaves[1]))):
        yield y, torch.autograd.grad(y, leaves, g.to(DEVICE))


@pytest.mark.parametrize("widen", [False, True])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("channel", [0, 3, 4])
def test_what_is_no_number_goes_where_it_goes_in_torch(channel, value, widen):
    x, h, g = torch.randn(3, 5, 4), torch.randn(3, 5, 4), torch.randn(3, 5 + widen, 4)
    x[1, channel, 2] = value
    (y, found), (wanted, expected) = both(x, h, widen, g)
    torch.testing.assert_close(y, wanted, equal_nan=True)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)


def test_nothing_passes_at_zero():
    """A number that is exactly 0 before the ReLU has no gradient, as in torch."""
    offsets, last = torch.tensor([0.5, -0.25], device=DEVICE), torch.zeros((), device=DEVICE, requires_grad=True)
    x = torch.tensor([[-0.5, 0.25], [1.0, 2.0]], device=DEVICE, requires_grad=True)
    y = relu_of_closed_sum(x, torch.zeros_like(x), offsets, last, base=1.0, margin=0.1, cutoff=0.0)
    assert (y[0, :2] == 0).all()
    assert y[0, 2] > 0
    assert y[1, 2] == 0
    y.backward(torch.ones_like(y))
    assert x.grad.tolist() == [[-1, -1], [1, 1]]
    assert last.grad == 0.5


def test_the_skip_and_the_branch_may_lie_in_other_orders():
    x, h, g = torch.randn(2, 6, 3, 4), torch.randn(2, 6, 3, 4), torch.randn(2, 6, 3, 4)
    last = torch.channels_last
    for one, other, given in (
        (x, h.contiguous(memory_format=last), g[:, :, :1, :1].expand(-1, -1, 3, 4)),
        (x.mT, h.mT, g.mT),
    ):
        (y, found), (wanted, expected) = both(one, other, False, given)
        torch.testing.assert_close(y, wanted)
        for got, want in zip(found, expected, strict=True):
            torch.testing.assert_close(got, want)


def test_offsets_that_are_a_piece_of_something():
    pieces, x, last = torch.randn(3, 2, device=DEVICE), torch.randn(2, 4, device=DEVICE), torch.randn((), device=DEVICE)
    fixed = {"base": 1.0, "margin": 0.1, "cutoff": 0.0}
    found, expected = (relu_of_closed_sum(x, x, b, last, **fixed) for b in (pieces[:, 1], pieces[:, 1].contiguous()))
    assert torch.equal(found, expected)


def second(leaves, y):
    first = torch.autograd.grad(y.pow(3).sum(), leaves, create_graph=True)
    return torch.autograd.grad(sum(one.square().sum() for one in first), leaves)


@pytest.mark.parametrize("widen", [False, True])
def test_gradients_can_be_differentiated_again(widen):
    close = FarkasResidual(5, widen).to(DEVICE)
    balance = close.balance
    leaves = [
        *(torch.randn(2, 5, 3, device=DEVICE, requires_grad=True) for _ in range(2)),
        balance.offsets,
        balance.last,
    ]
    fixed = {"base": balance.base, "margin": balance.margin, "cutoff": balance.cutoff}
    found = second(leaves, relu_of_closed_sum(*leaves, **fixed))
    for got, want in zip(found, second(leaves, F.relu(close(leaves[0] + leaves[1]))), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_many_gradients_at_once():
    """By ``vmap``, which kernels know nothing of."""
    x, h = torch.randn(2, 4, 3, device=DEVICE, requires_grad=True), torch.randn(2, 4, 3, device=DEVICE)
    offsets, last = torch.randn(3, device=DEVICE), torch.randn((), device=DEVICE)
    y = relu_of_closed_sum(x, h, offsets, last, base=1.0, margin=0.1, cutoff=0.0)
    g = torch.randn(5, *y.shape, device=DEVICE)
    (found,) = torch.autograd.grad(y, x, g, is_grads_batched=True, retain_graph=True)
    for one, given in zip(found, g, strict=True):
        torch.testing.assert_close(one, torch.autograd.grad(y, x, given, retain_graph=True)[0])


def test_gradients_of_a_kind_of_their_own():
    """Which have no memory that a kernel could read."""
    x, h = torch.randn(2, 4, 3, device=DEVICE, requires_grad=True), torch.randn(2, 4, 3, device=DEVICE)
    offsets, last = torch.randn(3, device=DEVICE), torch.randn((), device=DEVICE)
    y = relu_of_closed_sum(x, h, offsets, last, base=1.0, margin=0.1, cutoff=0.0)
    g = [torch.randn_like(y) for _ in range(2)]
    (found,) = torch.autograd.grad(y, x, TwoTensor(*g), retain_graph=True)
    for one, given in zip((found.a, found.b), g, strict=True):
        torch.testing.assert_close(one, torch.autograd.grad(y, x, given, retain_graph=True)[0])


def test_a_result_that_was_kept_elsewhere_may_come_back_in_another_order():
    """As hooks for saved tensors are free to do."""
    x, h = (torch.randn(2, 4, 3, 5, device=DEVICE, requires_grad=True) for _ in range(2))
    offsets, last = torch.randn(3, device=DEVICE), torch.randn((), device=DEVICE)
    hooks = torch.autograd.graph.saved_tensors_hooks(
        lambda y: y.mT.contiguous() if y.dim() else y, lambda y: y.mT if y.dim() else y
    )
    results = []
    for how in (nullcontext(), hooks):
        with how:
            y = relu_of_closed_sum(x, h, offsets, last, base=1.0, margin=0.1, cutoff=0.0)
        results.append(torch.autograd.grad(y.square().sum(), [x, h]))
    for found, expected in zip(*results, strict=True):
        assert torch.equal(found, expected)
