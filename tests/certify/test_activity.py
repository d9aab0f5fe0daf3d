"""Activity of layers and networks: proofs against dense sampling, exhaustive corners and exact arithmetic."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from neuronal.certify import multipliers
from neuronal.certify.activity import certify_activity
from neuronal.certify.check import check
from neuronal.certify.intervals import intervals
from neuronal.certify.layer_activity import certify_layer
from neuronal.certify.multipliers import lower_bound, propose
from neuronal.geometry.lowering import lower
from neuronal.geometry.program import evaluate
from neuronal.nn.farkas import FarkasLinear
from neuronal.nn.implicit_bias import ImplicitBiasLinear
from neuronal.nn.zero_bias import ZeroBiasLinear
from tests.certify.networks import NormAndSkip
from tests.geometry.networks import linear
from tests.models.networks import small


def exact_bound(weight, bias, lam, low, high):
    """min over the box of lam'(W x + b) / sum(lam), in rationals."""
    lam = [Fraction(float(v)) for v in lam]
    total = sum(v * Fraction(float(b)) for v, b in zip(lam, bias, strict=True))
    for column, one, two in zip(np.asarray(weight).T, low, high, strict=True):
        g = sum(v * Fraction(float(w)) for v, w in zip(lam, column, strict=True))
        total += min(g * Fraction(float(one)), g * Fraction(float(two)))
    return total / sum(lam)


@settings(max_examples=60, deadline=None)
@given(m=st.integers(1, 8), n=st.integers(1, 5), seed=st.integers(0, 10**6), size=st.sampled_from([1e-6, 1.0, 1e6]))
def test_the_bound_in_floats_is_below_the_exact_one_and_next_to_it(m, n, seed, size):
    random = np.random.default_rng(seed)
    weight, bias = random.normal(size=(m, n)) * size, random.normal(size=m)
    low = random.normal(size=n)
    high = low + random.random(n)
    lam = random.random(m) * (random.random(m) < 0.7) + 1e-3
    exact = exact_bound(weight, bias, lam, low, high)
    got = lower_bound(weight, bias, lam, low, high)
    assert Fraction(got) <= exact
    assert float(exact) - got < 1e-12 * (1 + size)


@settings(max_examples=40, deadline=None)
@given(m=st.integers(1, 7), n=st.integers(1, 4), seed=st.integers(0, 10**6), shift=st.floats(-1, 2))
def test_verdicts_of_small_layers_on_a_box(m, n, seed, shift):
    """The largest unit is convex, so a fine grid knows its minimum up to the grid's step."""
    torch.manual_seed(seed)
    layer = nn.Linear(n, m).double()
    layer.bias.data += shift
    certificate = certify_layer(layer, (-1.0, 1.0))
    grid = torch.tensor(list(product(torch.linspace(-1, 1, {1: 401, 2: 61, 3: 17, 4: 9}[n]).tolist(), repeat=n)))
    least = layer(grid.double()).amax(1).min().item()
    if certificate.verdict == "certified":
        assert least >= certificate.evidence.margin > 0
    else:
        assert certificate.verdict == "refuted"
        assert layer(certificate.witness).max() <= 0
        assert certificate.witness.abs().max() <= 1
    alive = set((layer(grid.double()) > 0).any(0).nonzero().flatten().tolist())
    assert not alive & set(certificate.evidence.dead_on_box)
    corners = torch.tensor(list(product([-1.0, 1.0], repeat=n))).double()
    dead = (layer(corners).amax(0) < -1e-9).nonzero().flatten().tolist()
    assert set(dead) <= set(certificate.evidence.dead_on_box)


@settings(max_examples=30, deadline=None)
@given(m=st.integers(2, 12), n=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_verdicts_of_small_layers_everywhere(m, n, seed):
    torch.manual_seed(seed)
    layer = nn.Linear(n, m)
    certificate = certify_layer(layer)
    if certificate.verdict == "certified":
        lam = certificate.evidence.multipliers
        weight, bias = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
        for column in weight.T:
            assert sum(a * Fraction(float(b)) for a, b in zip(lam, column, strict=True)) == 0
        assert sum(a * Fraction(float(b)) for a, b in zip(lam, bias, strict=True)) > 0
        assert min(lam) >= 0
        for size in (0.1, 1.0, 100.0, 1e6):
            x = torch.randn(2000, n, dtype=torch.float64) * size
            z = x @ layer.weight.double().T + layer.bias.double()
            assert z.amax(1).min() > 0
    elif certificate.verdict == "refuted":
        assert layer(certificate.witness).max() <= 0
    if m <= n:
        assert certificate.verdict == "refuted"


def test_two_units_that_face_each_other_by_hand():
    layer = linear([[1.0], [-1.0]], [0.3, -0.2])
    certificate = certify_layer(layer)
    assert certificate.verdict == "certified"
    assert certificate.evidence.margin == pytest.approx(0.05)
    layer.bias.data = torch.tensor([0.3, -0.3])  # at x = -0.3 both are exactly 0
    assert certify_layer(layer).verdict != "certified"
    layer.bias.data = torch.tensor([0.3, -0.4])
    assert certify_layer(layer).verdict == "refuted"
    assert certify_layer(layer, (0.0, 1.0)).verdict == "certified"
    assert certify_layer(layer, (-0.38, -0.32)).verdict == "refuted"
    assert certify_layer(layer, cutoff=-0.1).verdict == "certified"


def test_farkas_layers_are_certified_by_construction_everywhere():
    for options in ({}, {"aggregate": "mean"}, {"learn_multipliers": True}, {"cutoff": 1.5}, {"cutoff": -1.0}):
        layer = FarkasLinear(20, 12, **options)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.add_(torch.randn_like(parameter))
        certificate = certify_layer(layer)
        assert (certificate.verdict, certificate.evidence.by) == ("certified", "construction")
        assert certificate.evidence.margin == pytest.approx(layer.promise().item() - layer.balance.cutoff, rel=1e-4)
        # The layer as it computes keeps the promise up to the radius.
        z = layer.double()(torch.randn(5000, 20, dtype=torch.float64).clamp(-1, 1) * certificate.evidence.radius)
        assert z.amax(1).min() > layer.balance.cutoff


def test_farkas_layers_without_a_strict_bias_are_not():
    layer = FarkasLinear(5, 3, rule="max")  # with more units than inputs there may be other multipliers
    layer.balance.last.data.fill_(-10.0)
    assert certify_layer(layer).verdict != "certified"
    silent = certify_layer(FarkasLinear(5, 8, bias=False))
    assert silent.verdict == "refuted"
    assert silent.witness.eq(0).all()


@pytest.mark.parametrize("shape", [(), (2,), (2, 7, 7)])
def test_silenced_convolutions(shape):
    layer = nn.Conv2d(2, 3, 3, padding=1, dilation=1)
    low, high = torch.zeros(shape), torch.ones(shape)
    certificate = certify_layer(layer, (low, high))
    assert certificate.verdict == "refuted"
    assert (layer(certificate.witness).amax(1) <= 0).any()
    assert ((certificate.witness >= 0) & (certificate.witness <= 1)).all()


def test_units_dead_on_the_box_and_dead_on_data_are_told_apart():
    layer = linear([[1.0], [1.0], [-1.0]], [0.0, -2.0, -0.9])
    certificate = certify_layer(layer, (-1.0, 1.0), data=torch.tensor([[0.5], [0.2]]))
    assert certificate.evidence.dead_on_box == (1,)
    assert certificate.evidence.dead_on_data == (1, 2)


def test_zero_bias_layers_are_silent_at_zero():
    assert certify_layer(ZeroBiasLinear(5, 8)).verdict == "refuted"
    silent = certify_layer(ZeroBiasLinear(1, 80))  # looks both ways, so only zero silences it
    assert silent.verdict == "refuted"
    assert silent.witness.eq(0).all()


def test_what_the_solver_says_is_never_trusted(monkeypatch):
    layer = nn.Linear(3, 2)
    honest = propose(layer.weight.detach().double().numpy(), np.zeros(2), -np.ones(3), np.ones(3))
    for planted in (np.array([2.0, -1.0]), np.array([0.5, 0.5]), np.array([np.nan, 1.0])):
        lie = multipliers.Proposal(planted, np.zeros(3))
        monkeypatch.setattr("neuronal.certify.layer_activity.propose", lambda *_, lie=lie: lie)
        monkeypatch.setattr("neuronal.certify.layer_activity.propose_everywhere", lambda *_, lie=lie: lie.multipliers)
        layer.bias.data = torch.tensor([-1.0, -1.0])
        assert certify_layer(layer, (-1.0, 1.0)).verdict != "certified"
        assert certify_layer(layer).verdict != "certified"
    monkeypatch.setattr("neuronal.certify.layer_activity.propose", lambda *_: None)
    assert certify_layer(nn.Linear(3, 2).requires_grad_(False), (0.5, 1.0)).verdict != "certified"
    assert honest is not None


def test_a_large_layer_is_answered_honestly():
    """More inputs than exact elimination is for: multipliers cancel only nearly, which is said with a radius."""
    torch.manual_seed(0)
    layer = nn.Linear(128, 400)
    certificate = certify_layer(layer)
    assert certificate.verdict == "unknown"
    assert "give a box" in certificate.reason
    radius = certificate.evidence.radius
    assert radius > 1e3
    assert certify_layer(layer, (-1.0, 1.0)).verdict == "certified"


# Networks


@pytest.mark.parametrize(
    ("name", "neuron", "norm"),
    [("fcn", "standard", "none"), ("cnn", "geometric", "none"), ("resnet9", "zero_bias", "none")],
)
def test_networks_are_refuted_by_the_model_itself(name, neuron, norm):
    model = small(name, neuron, norm=norm)
    certificate = certify_activity(model, (torch.zeros(2, 8, 8), torch.ones(2, 8, 8)))
    assert certificate.verdict == "refuted"
    x = certificate.witness
    assert ((x >= 0) & (x <= 1)).all()
    outputs = []
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_hook(lambda _, __, y: outputs.append(y.clone()))
    model.eval()(x)
    silent = [bool((y.amax(1) <= 0).any()) for y in outputs]
    assert silent == [layer.verdict == "refuted" for layer in certificate.evidence.layers]


@pytest.mark.parametrize("seed", range(4))
def test_functional_relus_norms_and_skips(seed):
    torch.manual_seed(seed)
    model = NormAndSkip(0.5)
    model.norm.running_mean.normal_()
    model.norm.running_var.uniform_(0.5, 2)
    model.norm.weight.data.normal_()
    low, high = torch.full((3,), -0.1), torch.full((3,), 0.1)
    certificate = certify_activity(model, (low, high))
    x = torch.rand(4000, 3) * 0.2 - 0.1
    model.eval()
    first = model.first(x)
    second = first.relu() + model.norm(model.branch(first.relu()))
    for layer, z in zip(certificate.evidence.layers, (first, second), strict=True):
        if layer.verdict == "certified":
            assert z.amax(1).min() > 0
            if layer.margin is not None:
                assert z.amax(1).min() >= layer.margin - 1e-6
        assert not set(layer.dead_on_box) & set((z > 0).any(0).nonzero().flatten().tolist())


@pytest.mark.parametrize("seed", range(3))
def test_intervals_hold_every_value(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.LeakyReLU(0.1), nn.MaxPool2d(2), nn.Conv2d(4, 3, 2), nn.ReLU(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(3, 4),
    ).eval()  # fmt: skip
    net[1].running_mean.normal_()
    program = lower(net, torch.rand(1, 2, 6, 6))
    low = torch.rand(2, 6, 6).double() - 0.5
    high = low + torch.rand(2, 6, 6)
    corners = torch.where(torch.rand(300, 2, 6, 6) > 0.5, low, high)
    live = {0: corners}
    for step, _, (bottom, top) in intervals(program, low, high):
        live[step.output] = evaluate(step.op, *(live[i] for i in step.inputs))
        assert (live[step.output] >= bottom).all()
        assert (live[step.output] <= top).all()


def test_a_point_has_an_interval_no_wider_than_rounding():
    net = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3))
    x = torch.randn(5).double()
    *_, (_, _, (low, high)) = intervals(lower(net, x.unsqueeze(0)), x, x)
    exact = net.double()(x)
    assert (low <= exact).all()
    assert (high >= exact).all()
    assert (high - low).max() < 1e-12


NETWORK, UNIT = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), (torch.zeros(2), torch.ones(2))


@pytest.mark.parametrize(
    ("model", "box", "options", "error", "message"),
    [
        (NETWORK, None, {}, ValueError, "a network needs box"),
        (NETWORK, UNIT, {"cutoff": -1.0}, ValueError, "above 0, where ReLU bends"),
        (NETWORK, (0.0, 1.0), {}, ValueError, "got numbers"),
        (nn.Linear(2, 2), (0.0, float("inf")), {}, ValueError, "finite sides"),
        (nn.Linear(2, 2), (1.0, 0.0), {}, ValueError, "low <= high"),
        (nn.Linear(3, 2), UNIT, {}, ValueError, "fit one input of 3"),
        (ImplicitBiasLinear(2, 2), None, {}, TypeError, "not affine"),
        (nn.Sequential(nn.Linear(2, 2)), UNIT, {}, ValueError, "no ReLU"),
    ],
)
def test_what_cannot_be_asked_is_named(model, box, options, error, message):
    with pytest.raises(error, match=message):
        certify_activity(model, box, **options)


class Shifted(nn.Module):
    """Units that face each other, one of them always active; then a constant, and a ReLU."""

    def __init__(self, layer, shift):
        super().__init__()
        self.layer, self.shift, self.relu = layer, nn.Parameter(shift), nn.ReLU()
        with torch.no_grad():
            layer.weight.zero_()
            layer.weight.flatten(1)[:, 0] = torch.tensor([1.0, -1.0, 1.0, -1.0])
            layer.bias.copy_(torch.tensor([-0.2, 0.8, -0.2, 0.8]))

    def forward(self, x):
        return self.relu(self.layer(x) + self.shift)


@pytest.mark.parametrize(
    ("layer", "shape", "shift"),
    [
        (nn.Conv2d(1, 4, 1), (1, 4, 4), (4,)),
        (nn.Conv1d(1, 4, 1), (1, 4), (4,)),
        (nn.Conv3d(1, 4, 1), (1, 4, 4, 4), (1, 4, 1, 1)),
        (nn.Linear(2, 4), (4, 2), (4, 1)),
    ],
)
def test_a_constant_for_each_position_is_not_one_for_each_unit(layer, shape, shift):
    """At the last position all units are off for inputs around 0.5, which no candidate for a witness is."""
    model = Shifted(layer, torch.tensor([0.0, 0.0, 0.0, -0.5]).view(shift))
    certificate = certify_activity(model, (torch.zeros(shape), torch.full(shape, 3.0)))
    silent = model(torch.full((1, *shape), 0.5))
    assert not (silent > 0).any(2 if isinstance(layer, nn.Linear) else 1).all()
    assert certificate.verdict == "unknown"
    per_unit = (4,) if isinstance(layer, nn.Linear) else (4, *[1] * (len(shape) - 1))
    model = Shifted(layer, torch.tensor([0.0, 0.0, 0.0, -0.5]).view(per_unit))
    certificate = certify_activity(model, (torch.zeros(shape), torch.full(shape, 3.0)))
    assert certificate.verdict == "certified"
    assert check(certificate, model)


class Lowered(nn.Linear):
    def forward(self, x):
        return super().forward(x) - 100


class LoweredFarkas(FarkasLinear):
    def forward(self, x):
        return super().forward(x) - 100


def test_a_layer_with_a_forward_of_its_own_is_not_read_off_its_parameters():
    layer = Lowered(2, 3)
    nn.init.constant_(layer.bias, 10.0)
    box = torch.zeros(2), torch.ones(2)
    with pytest.raises(TypeError, match="forward of its own"):
        certify_activity(layer, box)
    hooked = nn.Linear(2, 3)
    certificate = certify_activity(FarkasLinear(2, 3))
    hooked.register_forward_hook(lambda *args: args[2] - 100)
    with pytest.raises(TypeError, match="or hooks"):
        certify_activity(hooked, box)
    network = nn.Sequential(FarkasLinear(3, 4), nn.ReLU())
    network[0].register_forward_hook(lambda _, __, z: -z)
    assert certify_activity(network, (torch.full((3,), -9.0), torch.full((3,), 9.0))).verdict != "certified"
    network = nn.Sequential(LoweredFarkas(2, 3), nn.ReLU())
    assert certify_activity(network, box).verdict == "refuted"
    assert check(certificate, FarkasLinear(2, 3))
    assert not check(certificate, LoweredFarkas(2, 3))


@pytest.mark.parametrize("bend", [nn.LeakyReLU(0.2), nn.PReLU()])
def test_a_unit_that_is_exactly_zero_is_dead_for_the_checker_too(bend):
    """Nothing is lost by underflow where there is nothing."""
    model = nn.Sequential(nn.Linear(2, 2, bias=False), bend, nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    with torch.no_grad():
        model[0].weight.zero_()
        model[2].weight.fill_(1.0)
        model[2].bias.copy_(torch.tensor([0.0, 1.0]))
    certificate = certify_activity(model, (-torch.ones(2), torch.ones(2)))
    assert certificate.evidence.layers[0].dead_on_box == (0,)
    assert check(certificate, model)


def test_a_leaky_relu_of_slope_0_rounds_nothing_for_the_checker_too():
    model = nn.Sequential(nn.Linear(1, 1), nn.PReLU(init=0.0), nn.Linear(1, 2, bias=False), nn.ReLU(), nn.Linear(2, 2))
    with torch.no_grad():
        model[0].weight.fill_(-1.0)
        model[0].bias.zero_()
    certificate = certify_activity(model, (torch.ones(1), 2 * torch.ones(1)))
    assert certificate.evidence.layers[0].dead_on_box == (0, 1)
    assert check(certificate, model)


@pytest.mark.parametrize(("slope", "shift"), [(0.5, -0.6), (-0.5, -0.1), (1.5, -1.6)])
def test_the_checkers_interval_behind_a_bend_is_as_narrow_as_it_can_be(slope, shift):
    """On [-1, 1] a leaky ReLU is at least the smaller of -slope and 0, a tenth above which the second unit is dead."""
    model = nn.Sequential(nn.Linear(1, 1), nn.LeakyReLU(slope), nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2)).double()
    with torch.no_grad():
        model[0].weight.fill_(1.0)
        model[0].bias.zero_()
        model[2].weight.copy_(torch.tensor([[0.0], [-1.0]]))
        model[2].bias.copy_(torch.tensor([1.0, shift]))
    certificate = certify_activity(model, (-torch.ones(1), torch.ones(1)))
    assert certificate.verdict == "certified"
    assert certificate.evidence.layers[0].dead_on_box == (1,)
    assert check(certificate, model)
