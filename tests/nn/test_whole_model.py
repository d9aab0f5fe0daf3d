"""Weights of a whole model from one kernel, against the same model whose layers make their own: interpreted on a CPU."""

import copy
import pickle

import pytest
import torch
from torch import nn

from neuronal.data.dataset import Split
from neuronal.nn import at_once
from neuronal.ops import operators
from neuronal.ops.kernels import launch
from neuronal.train.loop import fit
from neuronal.train.optim import Plan
from tests.nn.test_every_layer import NEURONS

pytest.importorskip("triton", reason="needs triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BOTH = ["geometric", "farkas"]


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr("neuronal.nn.whole_model.on_device", lambda parameter: True)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def network(neuron, *, bias=True):
    layers = NEURONS[neuron]
    torch.manual_seed(0)
    return nn.Sequential(
        layers["Conv2d"](3, 6, 3, padding=1, bias=bias),
        nn.ReLU(),
        layers["Conv2d"](6, 4, 1, bias=False),
        nn.ReLU(),
        layers["Conv2d"](4, 5, (2, 3), bias=bias),
        nn.Flatten(),
        layers["Linear"](5 * 6, 7, bias=bias),
    ).to(DEVICE)


def images(channels_last=False):
    x = torch.randn(2, 3, 4, 4, device=DEVICE)
    return x.contiguous(memory_format=torch.channels_last) if channels_last else x


def launches(monkeypatch, neuron):
    """Counts how often weights of several layers are made."""
    name = {"geometric": "geometric_weights", "farkas": "farkas_weights"}[neuron]
    called = []
    real = getattr(operators, name)
    monkeypatch.setattr(operators, name, lambda *given: called.append(1) or real(*given))
    return called


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("neuron", BOTH)
def test_outputs_and_gradients_are_those_of_the_layers(neuron, bias, channels_last, monkeypatch):
    plain = network(neuron, bias=bias)
    if channels_last:
        plain = plain.to(memory_format=torch.channels_last)
    true = copy.deepcopy(plain).double()
    whole = at_once(at_once(plain))
    called = launches(monkeypatch, neuron)
    x = images(channels_last)
    g = torch.randn(2, 7, device=DEVICE)
    found, expected = whole(x), true(x.double())
    assert called == [1]
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    found.backward(g)
    expected.backward(g.double())
    for p, q in zip(whole.parameters(), true.parameters(), strict=True):
        torch.testing.assert_close(p.grad.double(), q.grad, rtol=1e-4, atol=1e-5)
        assert p.grad.stride() == p.stride()


@pytest.mark.parametrize("neuron", BOTH)
def test_under_autocast_weights_come_in_its_precision(neuron):
    whole = at_once(network(neuron))
    seen = []
    whole[2].register_forward_pre_hook(lambda layer, _: seen.append(layer._made[0].dtype))
    with torch.autocast(DEVICE, torch.bfloat16):
        y = whole(images())
    y.float().sum().backward()
    assert seen == [torch.bfloat16]
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in whole.parameters())


class Parts(nn.Module):
    """Layers by name, and a call that says which."""

    def __init__(self, neuron):
        super().__init__()
        linear = NEURONS[neuron]["Linear"]
        torch.manual_seed(0)
        self.first, self.left, self.right = (linear(5, 5).to(DEVICE) for _ in range(3))

    def forward(self, x, *, name):
        return getattr(self, name)(self.first(x))


@pytest.mark.parametrize("neuron", BOTH)
def test_a_part_without_autocast_has_weights_in_full_precision(neuron):
    class Mixed(Parts):
        def forward(self, x):
            y = self.first(x)
            with torch.autocast(DEVICE, enabled=False):
                return self.left(y.float())

    plain = Mixed(neuron)
    true = copy.deepcopy(plain)
    x = torch.randn(2, 5, device=DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16):
        found, expected = at_once(plain)(x), true(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("neuron", BOTH)
def test_a_layer_that_is_not_used_gets_no_gradient(neuron, again):
    """Weight decay and momentum would move one that gets zeros."""
    plain = Parts(neuron)
    true = copy.deepcopy(plain)
    x = torch.randn(2, 5, device=DEVICE)
    both = []
    for model in (at_once(plain), true):
        y = model(x, name="left").square().sum()
        both.append(torch.autograd.grad(y, list(model.parameters()), create_graph=again, allow_unused=True))
    for found, expected in zip(*both, strict=True):
        assert (found is None) == (expected is None)
        if expected is not None:
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("frozen", [(), ("0.",), ("scale", "offset", "rows")], ids=str)
@pytest.mark.parametrize("neuron", BOTH)
def test_gradients_can_be_differentiated_again(neuron, frozen):
    plain = network(neuron)
    for name, parameter in plain.named_parameters():
        parameter.requires_grad_(not any(one in name for one in frozen))
    true = copy.deepcopy(plain).double()
    x = images()
    for model, inputs in ((at_once(plain), x), (true, x.double())):
        y = model(inputs).square().sum()
        learnt = [p for p in model.parameters() if p.requires_grad]
        first = torch.autograd.grad(y, learnt, create_graph=True)
        sum(one.square().sum() for one in first).backward()
    for p, q in zip(plain.parameters(), true.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None)
        if q.grad is not None:
            torch.testing.assert_close(p.grad.double(), q.grad, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("neuron", BOTH)
def test_a_compiled_model_computes_the_same(neuron):
    plain = network(neuron)
    true = copy.deepcopy(plain)
    compiled = torch.compile(at_once(plain), backend="aot_eager", fullgraph=True)
    x = images()
    torch.testing.assert_close(compiled(x), true(x), rtol=1e-5, atol=1e-5)
    compiled(x).square().sum().backward()
    true(x).square().sum().backward()
    for p, q in zip(plain.parameters(), true.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-4, atol=1e-4)
    torch.compiler.reset()


@pytest.mark.parametrize("neuron", BOTH)
def test_the_compiler_makes_one_graph_of_it(neuron):
    """Weights, network and all; hooks of a model would be graphs of their own."""
    seen = []

    def backend(graph, _):
        seen.append(graph)
        return graph.forward

    torch.compile(at_once(network(neuron)), backend=backend)(images())
    torch.compiler.reset()
    (graph,) = seen
    assert sum("_weights" in str(node.target) or "autograd" in str(node.target) for node in graph.graph.nodes) == 1


@pytest.mark.parametrize("neuron", BOTH)
def test_copies_are_of_their_own_and_pickled_models_plain(neuron):
    whole = at_once(network(neuron))
    other = copy.deepcopy(whole)
    assert other.forward.__self__ is other
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    x = images()
    expected = whole(x)
    assert not torch.equal(other(x), expected)
    loaded = pickle.loads(pickle.dumps(whole))
    torch.testing.assert_close(loaded(x), expected)
    assert at_once(loaded) is loaded
    torch.testing.assert_close(loaded(x), expected)


def test_accelerate_wraps_and_unwraps_it():
    plain = network("geometric")
    true = copy.deepcopy(plain)
    split = Split(torch.randn(16, 3, 4, 4), torch.randint(7, (16,)))
    plan = Plan(epochs=2, batch_size=8, optim="sgd", lr=0.1, precision="bf16")
    losses = [[e.loss for e in fit(model, split, plan).epochs] for model in (at_once(plain), true)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)
    x = images()
    torch.testing.assert_close(plain(x), true(x), rtol=0.05, atol=0.05)
    torch.testing.assert_close(at_once(true)(x), plain(x), rtol=0.05, atol=0.05)


def test_a_forward_of_somebody_else_is_refused():
    model = network("farkas")
    model.forward = lambda x: x
    with pytest.raises(ValueError, match="whose forward nobody has replaced"):
        at_once(model)


@pytest.mark.parametrize("neuron", BOTH)
def test_nothing_is_kept_behind_a_call(neuron):
    whole = at_once(network(neuron))
    whole(images())
    assert all(getattr(layer, "_made", None) is None for layer in whole.modules())
    with pytest.raises(RuntimeError):
        whole(torch.randn(2, 5, 4, 4, device=DEVICE))
    assert all(getattr(layer, "_made", None) is None for layer in whole.modules())
    again = copy.deepcopy(whole)
    with torch.no_grad():
        again[0].scale.zero_() if neuron == "geometric" else again[0].rows.zero_()
        assert not torch.equal(again(images()), whole(images()))


def test_nothing_is_kept_when_weights_cannot_be_made(monkeypatch):
    whole = at_once(nn.Sequential(network("geometric"), nn.Flatten(), network("farkas")))

    def refused(*_):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(operators, "farkas_weights", refused)
    with pytest.raises(RuntimeError, match="out of memory"):
        whole(images())
    assert all(getattr(layer, "_made", None) is None for layer in whole.modules())


def test_layers_that_the_kernels_do_not_know_make_their_own(monkeypatch):
    called = launches(monkeypatch, "farkas")
    linear = NEURONS["farkas"]["Linear"]
    whole = at_once(nn.Sequential(linear(3, 4, learn_multipliers=True), linear(4, 5, rule="max"), linear(5, 6)))
    y = whole(torch.randn(2, 3))
    assert y.shape == (2, 6)
    assert not called
    called = launches(monkeypatch, "geometric")
    linear = NEURONS["geometric"]["Linear"]
    relu = at_once(nn.Sequential(linear(3, 4, activation="relu"), linear(4, 1), linear(1, 3), nn.ReLU(), linear(3, 2)))
    relu.double()(torch.randn(2, 3).double())
    assert not called


@pytest.mark.parametrize("neuron", BOTH)
def test_more_layers_than_a_launch_takes(neuron, monkeypatch):
    monkeypatch.setattr(launch, "MOST", 3)
    plain = network(neuron)
    true = copy.deepcopy(plain).double()
    x = images()
    torch.testing.assert_close(at_once(plain)(x).double(), true(x.double()), rtol=1e-5, atol=1e-5)
