"""Fused weights of geometric and Farkas layers against plain steps: by Triton's interpreter where there is no GPU."""

import copy

import pytest
import torch
from torch import nn

from neuronal.ops import dispatch, farkas, sphere
from tests.nn.test_every_layer import NEURONS
from tests.ops.kernels import cases
from tests.ops.kernels.cases import FARKAS, GEOMETRIC

pytest.importorskip("triton", reason="needs triton")
pytestmark = pytest.mark.usefixtures("as_on_cuda")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
OPTIONS = {
    cases.geometric: ({}, {"angles": "poles", "bias": False}),
    cases.farkas: ({}, {"aggregate": "mean", "cutoff": 0.5}, {"bias": False}),
}
BOTH = pytest.mark.parametrize("neuron", ["geometric", "farkas"])


@pytest.mark.parametrize(
    ("compare", "shape"), [*((cases.geometric, s) for s in GEOMETRIC), *((cases.farkas, s) for s in FARKAS)]
)
def test_weights(compare, shape):
    for_images = ({"channels_last": True}, {"dtype": torch.bfloat16}) if len(shape) == 4 else ()
    for options in (*OPTIONS[compare], *for_images):
        compare(shape, device=DEVICE, **options)


def network(neuron, *, bias=True):
    layers = NEURONS[neuron]
    return nn.Sequential(
        layers["Conv2d"](3, 6, 3, padding=1, bias=bias),
        nn.ReLU(),
        layers["Conv2d"](6, 5, (2, 3), bias=bias),
        nn.Flatten(),
        layers["Linear"](5 * 6, 7, bias=bias),
    ).to(DEVICE)


@pytest.fixture
def calls(monkeypatch):
    """One entry for every layer whose weight a kernel made."""
    made = []
    for function in (sphere._WeightAndBias, farkas._WeightAndBias):
        forward = function.forward
        monkeypatch.setattr(function, "forward", staticmethod(lambda *a, f=forward: made.append(1) or f(*a)))
    return made


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("bias", [True, False])
@BOTH
def test_outputs_and_gradients_of_a_network(neuron, bias, order, calls):
    plain = network(neuron, bias=bias).to(memory_format=order)
    true = copy.deepcopy(plain).double()
    x = torch.randn(2, 3, 4, 4, device=DEVICE).contiguous(memory_format=order)
    g = torch.randn(2, 7, device=DEVICE)
    found, expected = plain(x), true(x.double())
    assert len(calls) == 3
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    found.backward(g)
    expected.backward(g.double())
    for p, q in zip(plain.parameters(), true.parameters(), strict=True):
        torch.testing.assert_close(p.grad.double(), q.grad, rtol=1e-4, atol=1e-5)
        assert p.grad.stride() == p.stride()


@BOTH
def test_under_autocast_weights_come_in_its_precision(neuron):
    net = network(neuron)
    layer = net[0]
    with torch.autocast(DEVICE, torch.bfloat16):
        assert layer._weight_and_bias()[0].dtype == torch.bfloat16
        net(torch.randn(2, 3, 4, 4, device=DEVICE)).float().sum().backward()
    assert layer._weight_and_bias()[0].dtype == torch.float32
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("frozen", [(), ("0.",), ("delta", "rows"), ("scale", "offset", "last")], ids=str)
@BOTH
def test_gradients_can_be_differentiated_again(neuron, frozen):
    plain = network(neuron)
    for name, parameter in plain.named_parameters():
        parameter.requires_grad_(not any(part in name for part in frozen))
    true = copy.deepcopy(plain).double()
    x = torch.randn(2, 3, 4, 4, device=DEVICE)
    for model, inputs in ((plain, x), (true, x.double())):
        learnt = [p for p in model.parameters() if p.requires_grad]
        first = torch.autograd.grad(model(inputs).square().sum(), learnt, create_graph=True)
        sum(one.square().sum() for one in first).backward()
    for p, q in zip(plain.parameters(), true.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None)
        if q.grad is not None:
            torch.testing.assert_close(p.grad.double(), q.grad, rtol=2e-3, atol=1e-3)


def test_vectors_shared_among_units_or_pieces_of_others():
    """What a parametrisation may make of scales and offsets; and the gradient of a sum, one number for all."""
    delta, one, pieces = (torch.randn(shape, device=DEVICE) for shape in ((4, 5), (), (4, 2)))
    results = []
    for dtype in (torch.float32, torch.float64):
        scale, offset = (t.to(dtype).requires_grad_() for t in (one, pieces))
        weight, bias = sphere.weight_and_bias(delta.to(dtype), scale.expand(4), offset[:, 0], (4, 6))
        results.append([bias, *torch.autograd.grad(weight.sum() + bias.sum(), (scale, offset))])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_offsets_of_farkas_layers_that_are_pieces_of_others():
    rows, pieces, last = (torch.randn(shape, device=DEVICE) for shape in ((4, 5), (4, 2), ()))
    pieces.requires_grad_()
    found = farkas.weight_and_bias(rows, pieces[:, 1], last, base=1.0, margin=0.1, cutoff=0.0)[1]
    expected = torch.cat([pieces[:, 1], (nn.functional.softplus(last) + 0.1 - pieces[:, 1].sum()).view(1)])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    weights = torch.arange(5.0, device=DEVICE)
    for given in (weights, torch.ones((), device=DEVICE).expand(5)):
        ours, theirs = (torch.autograd.grad(one, pieces, given, retain_graph=True)[0] for one in (found, expected))
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_what_the_kernels_do_not_know_is_computed_in_plain_steps(calls, monkeypatch):
    """Learnt multipliers and the paper's bias, float64, transforms of ``torch.func``, machines without Triton."""
    linear = {name: kinds["Linear"] for name, kinds in NEURONS.items()}
    x = torch.randn(2, 3, device=DEVICE)
    for options in ({"learn_multipliers": True}, {"rule": "max"}):
        linear["farkas"](3, 4, **options).to(DEVICE)(x)
    for neuron in ("geometric", "farkas"):
        layer = linear[neuron](3, 4).to(DEVICE)
        torch.func.vmap(layer)(x)
        copy.deepcopy(layer).double()(x.double())
    monkeypatch.setattr(dispatch, "HAS_TRITON", False)
    layer(x)
    assert not calls
