"""The steps themselves, against the matrix autograd finds for them."""

import copy

import pytest
import torch
from torch import nn

from neuronal.geometry.lowering import lower
from neuronal.geometry.program import Affine, Kink
from tests.geometry.networks import network
from tests.geometry.test_lowering import CASES, settled


def dense(step, shape):
    """The step's matrix, with the outputs' dimensions first, and its value at zero."""
    zero = torch.zeros(1, *shape, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(step, zero)
    return jacobian.reshape(-1, zero.numel()), step(zero)[0]


def affine_steps(case):
    shape, model = CASES[case]
    program = lower(settled(copy.deepcopy(model)), torch.randn(1, *shape, dtype=torch.float64))
    shapes = {0: shape} | {step.output: step.shape for step in program.steps}
    return [(step.op, shapes[step.inputs[0]]) for step in program.steps if isinstance(step.op, Affine)]


@pytest.mark.parametrize("case", CASES)
def test_every_affine_step_is_its_matrix(case):
    for op, shape in affine_steps(case):
        matrix, constant = dense(op, shape)
        x = torch.rand(3, *shape, dtype=torch.float64)
        flat = x.flatten(1)
        signed = torch.randn_like(x)
        torch.testing.assert_close(op.linear(signed).flatten(1), signed.flatten(1) @ matrix.T, atol=1e-12, rtol=1e-12)
        torch.testing.assert_close(op.absolute(x).flatten(1), flat @ matrix.abs().T, atol=1e-12, rtol=1e-12)
        b = op.bias()
        torch.testing.assert_close(torch.zeros_like(constant) if b is None else b.expand_as(constant), constant)
        torch.testing.assert_close(op(x), op.linear(x) + constant, atol=1e-12, rtol=1e-12)
        size = op.bias_size()
        assert (constant.abs() <= (0 if size is None else size.expand_as(constant)) + 1e-15).all()
        # Products and additions of one output, and its bias: never more than roundings are counted.
        entries = int((matrix != 0).sum(1).max())
        assert op.terms >= entries + (b is not None) or (op.terms == 0 and _copies(matrix))
        assert op.terms > 0 or b is None


def _copies(matrix):
    """Whether every output is an input, its opposite or zero."""
    return bool((matrix.abs().sum(1) <= 1).all() and ((matrix == 0) | (matrix.abs() == 1)).all())


def test_the_parts_of_a_batch_norms_shift_are_not_forgotten():
    norm = nn.BatchNorm1d(1, eps=0.0).double().eval()
    with torch.no_grad():
        norm.running_mean.fill_(1000.0)
        norm.bias.fill_(1000.0)
    (step,) = lower(norm, torch.zeros(1, 1, dtype=torch.float64)).steps
    assert step.op.bias().item() == 0
    assert step.op.bias_size().item() == 2000


def test_another_precision_or_place():
    model, shape = network("residual")
    program = lower(model, torch.randn(1, *shape))
    x = torch.randn(2, *shape)
    rough = program.to(torch.float32)
    assert rough.dtype == torch.float32
    assert rough(x).dtype == torch.float32
    assert program.dtype == torch.float64
    torch.testing.assert_close(rough(x).double(), program(x.double()), atol=1e-4, rtol=1e-4)
    assert program.to(device="meta").device.type == "meta"


def test_kinks():
    x = torch.tensor([-2.0, -0.0, 0.0, 3.0])
    for slope, values in ((0.0, [0, 0, 0, 3]), (0.5, [-1, 0, 0, 3]), (-1.0, [2, 0, 0, 3])):
        kink = Kink(torch.tensor(slope))
        assert kink(x).tolist() == values
        assert kink.is_relu == (slope == 0)
        assert kink.is_exact == (slope != 0.5)
