"""Steps of networks, and graphs of them, at a tiny size on the CPU."""

import pytest
import torch
from torch import nn

from neuronal.bench.gpu import graphs, networks
from neuronal.bench.gpu.ceilings import Setting
from neuronal.bench.gpu.networks import CASES, Case
from neuronal.nn.families import FAMILIES
from neuronal.train.recording import captured, one_line

CPU = Setting(torch.device("cpu"), 2)
TINY = Case("cnn", 8, 2, 3, "none", {"zero_bias": 1.00, "farkas": 1.02}, eager=True)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(networks, "CASES", (TINY,))
    monkeypatch.setattr(networks, "STEPS", 2)


def test_every_neuron_stands_beside_the_standard_one():
    rows = list(networks.rows(CPU))
    names = [row.name.rpartition(": ")[2] for row in rows]
    assert names[:3] == ["standard, eager", "zero_bias, eager", "farkas, eager"]
    assert all(row.measured > 0 and row.shown["images/s"] > 0 for row in rows)
    assert rows[0].measured == 1


def test_the_verdict_is_on_compiled_networks():
    (timed, *_) = networks.measure_case(TINY, CPU, compiled=False)
    assert timed.row(CPU.ceilings).limit is None
    for neuron, limit in TINY.limits.items():
        one = networks.Timed(TINY, neuron, True, timed.time, 1.0, 1.0, limit)
        assert one.row(CPU.ceilings).limit == limit


def test_a_network_that_fails_is_a_line_of_the_table(monkeypatch):
    plain = networks.steps

    def failing(called, model, *rest):
        return failed if model.recipe["neuron"] == "farkas" else plain(called, model, *rest)

    def failed():
        raise RuntimeError("no memory\nat all")

    monkeypatch.setattr(networks, "steps", failing)
    rows = list(networks.rows(CPU))
    names = [row.name.rpartition(": ")[2] for row in rows]
    assert names[:3] == ["farkas", "standard, eager", "zero_bias, eager"]
    assert rows[0].measured is None
    assert rows[0].met is False
    assert rows[0].note == "RuntimeError: no memory"


def test_the_networks_are_those_asked_for():
    assert {(case.model, case.side, case.batch) for case in CASES} == {("resnet18", 32, 512), ("resnet50", 224, 128)}
    assert {neuron: limit for case in CASES for neuron, limit in case.limits.items()} == {
        "geometric": 1.05,
        "zero_bias": 1.00,
        "farkas": 1.05,
    }
    assert all(case.eager == (case.model == "resnet18") for case in CASES)


def test_a_step_is_one_of_sgd_with_momentum():
    torch.manual_seed(0)
    model, (x, y) = networks.network(TINY, "standard", CPU.device), networks.batch(TINY, CPU.device)
    before = [p.detach().clone() for p in model.parameters()]
    networks.steps(model, model, x, y, 2)()
    assert all(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())


def test_operations_of_a_linear_layer():
    # Forward and the gradient of the weight; the images ask for none. A product and a sum are two.
    assert networks.flops_per_image(nn.Linear(5, 7, bias=False), torch.randn(4, 5)) == 2 * 2 * 5 * 7


def test_on_a_cpu_a_recording_is_the_action():
    done = []
    again = captured(lambda: done.append(1), CPU.device)
    assert again() is None
    assert done == [1]


def test_errors_are_one_line():
    assert one_line(RuntimeError("a\nb")) == "RuntimeError: a"
    assert one_line(RuntimeError()) == "RuntimeError"


@pytest.fixture
def data():
    return torch.randn(2, 3, 8, 8), torch.tensor([0, 1])


def net(*inside):
    return nn.Sequential(nn.Conv2d(3, 4, 3), *inside, nn.Flatten(), nn.LazyLinear(10))


def test_a_step_in_one_piece(data):
    model = net(nn.ReLU())
    model(data[0])
    row = graphs.one("plain", model, *data)
    assert (row.measured, row.met, row.note) == (0, True, "")
    assert row.shown == {"graph breaks": 0, "backward": "whole", "CUDA graph": "yes"}


def test_a_break_is_counted_and_explained(data):
    class Looks(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum().item() > 0 else x

    model = net(Looks())
    model(data[0])
    row = graphs.one("looks", model, *data)
    assert row.shown["graph breaks"] >= 1
    assert row.shown["backward"] == "not tried"
    assert row.met is False
    assert row.note


def test_trouble_in_backward_is_told(data):
    class Odd(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no way back")

    class Layer(nn.Module):
        def forward(self, x):
            return Odd.apply(x)

    model = net(Layer())
    with torch.no_grad():
        model(data[0])
    assert graphs.backward_trouble(model, *data)


def test_every_family_is_looked_at():
    assert set(graphs.NEURONS) == set(FAMILIES)
