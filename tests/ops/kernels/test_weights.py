"""Fused weights of geometric and Farkas layers against plain steps, by Triton's interpreter where there is no GPU."""

import pytest
import torch

from neuronal.ops import at_once, sphere
from tests.ops.kernels.cases import FARKAS, GEOMETRIC, farkas, geometric

pytest.importorskip("triton", reason="Triton is not installed")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="tests/gpu runs the kernels themselves")


@pytest.mark.parametrize("shape", GEOMETRIC)
def test_geometric_weights(shape):
    geometric(shape, device="cpu")
    geometric(shape, device="cpu", angles="poles", bias=False)
    if len(shape) == 4:
        geometric(shape, device="cpu", channels_last=True)
        geometric(shape, device="cpu", dtype=torch.bfloat16)


@pytest.mark.parametrize("shape", FARKAS)
def test_farkas_weights(shape):
    farkas(shape, device="cpu")
    farkas(shape, device="cpu", aggregate="mean", cutoff=0.5)
    farkas(shape, device="cpu", bias=False)
    if len(shape) == 4:
        farkas(shape, device="cpu", channels_last=True)
        farkas(shape, device="cpu", dtype=torch.bfloat16)


def test_vectors_shared_among_units_or_pieces_of_others():
    """What a parametrisation may make of scales and offsets; and the gradient of a sum, one number for all."""
    delta, one, pieces = torch.randn(4, 5), torch.randn(()), torch.randn(4, 2)
    results = []
    for dtype in (torch.float32, torch.float64):
        scale, offset = (t.to(dtype).requires_grad_() for t in (one, pieces))
        if dtype == torch.float32:
            layers = at_once.geometric([delta] * 2, [scale.expand(4)] * 2, [offset[:, 0], None], [(4, 6)] * 2)
        else:
            weight = scale * sphere.direction(delta.double())
            layers = [(weight, scale * offset[:, 0]), (weight, None)]
        total = layers[0][0].sum() + layers[1][0].square().sum() + layers[0][1].sum()
        results.append([layers[0][1], *torch.autograd.grad(total, (scale, offset))])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_offsets_of_farkas_layers_that_are_pieces_of_others():
    rows, pieces, last = torch.randn(4, 5), torch.randn(4, 2, requires_grad=True), torch.randn(())
    fixed = {"bases": [1.0] * 2, "margins": [0.1] * 2, "cutoffs": [0.0] * 2}
    found = at_once.closed([rows] * 2, [pieces[:, 1], None], [last, None], **fixed)[0][1]
    expected = torch.cat([pieces[:, 1], (torch.nn.functional.softplus(last) + 0.1 - pieces[:, 1].sum()).view(1)])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    weights = torch.arange(5.0)
    for given in (weights, torch.ones(()).expand(5)):
        ours, theirs = (torch.autograd.grad(one, pieces, given, retain_graph=True)[0] for one in (found, expected))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("learnt", [(0,), (1,), (2,), (0, 2)], ids=str)
def test_gradients_of_a_layer_of_which_parts_are_frozen_can_be_differentiated_again(learnt):
    given = [torch.randn(4, 5), torch.randn(4), torch.randn(4)]
    results = []
    for dtype in (torch.float32, torch.float64):
        delta, scale, offset = parts = [t.to(dtype).requires_grad_(i in learnt) for i, t in enumerate(given)]
        if dtype == torch.float32:
            made = sphere._WeightAndBias.apply(*parts, (4, 6), False, dtype)
        else:
            made = (scale.unsqueeze(1) * sphere.direction(delta), scale * offset)
        total = sum(one.pow(3).sum() for one in made)
        wanted = [parts[i] for i in learnt]
        first = torch.autograd.grad(total, wanted, create_graph=True)
        results.append(torch.autograd.grad(sum(one.square().sum() for one in first), wanted))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)
