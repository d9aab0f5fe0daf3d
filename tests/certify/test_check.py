"""Certificates verified again, and planted mistakes that must not pass."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from torch import nn

from neuronal.certify.activity import certify_activity
from neuronal.certify.check import check
from neuronal.certify.check_scaling import exported_degree
from neuronal.certify.scaling import certify_scaling
from neuronal.nn.farkas import FarkasConv2d, FarkasLinear
from neuronal.nn.farkas_block import FarkasBasicBlock, FarkasResidual
from neuronal.nn.geometric import GeometricConv2d, GeometricLinear
from neuronal.nn.implicit_bias import ImplicitBiasLinear
from tests.certify.networks import NormAndSkip
from tests.certify.test_scaling import FUNCTIONS, MODULES, stirred
from tests.geometry.networks import Does
from tests.models.networks import small


def with_evidence(certificate, **changes):
    return replace(certificate, evidence=replace(certificate.evidence, **changes))


@pytest.mark.parametrize(
    ("name", "neuron", "norm"),
    [
        ("fcn", "zero_bias", "none"),
        ("cnn", "zero_bias", "nf"),
        ("resnet9", "zero_bias", "fixup"),
        ("resnet18", "zero_bias", "none"),
        ("cnn", "standard", "batch"),
        ("fcn", "farkas", "none"),
        ("vit_tiny", "standard", "layer"),
    ],
)
def test_networks_and_scaling(name, neuron, norm):
    model = stirred(small(name, neuron, norm=norm))
    certificate = certify_scaling(model)
    assert certificate.verdict == ("certified" if neuron == "zero_bias" else "refuted")
    assert check(certificate, model)


# Not in the checker's own table, which is smaller: it does not confirm what it does not know.
UNKNOWN_TO_THE_CHECKER = {"bilinear", "spectrum", "put into zeros", "zero written beside"}


@pytest.mark.parametrize("name", [n for n, (_, d) in FUNCTIONS.items() if d is not None])
def test_functions_and_scaling(name):
    model = Does(FUNCTIONS[name][0])
    certificate = certify_scaling(model, torch.randn(2, 6))
    confirmed = check(certificate, model)
    assert confirmed or name in UNKNOWN_TO_THE_CHECKER
    assert not check(with_evidence(certificate, degree=Fraction(7)), model)


@pytest.mark.parametrize("name", MODULES)
def test_the_checker_gives_no_module_a_wrong_degree(name):
    module, shape, degree = MODULES[name]
    assert exported_degree(module.eval(), shape) in {degree, None}


@pytest.mark.parametrize("name", [n for n, (_, d) in FUNCTIONS.items() if d is None and "scales" in n])
def test_the_checker_sees_arguments_that_scale(name):
    assert exported_degree(Does(FUNCTIONS[name][0]), (6,)) is None


def test_a_bias_that_came_later_is_found():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False))
    certificate = certify_scaling(model)
    assert check(certificate, model)
    model[0].bias = nn.Parameter(torch.zeros(4))
    assert check(certificate, model)
    model[0].bias.data[2] = 1e-6
    assert not check(certificate, model)


def test_coupling_and_scaling():
    layer = ImplicitBiasLinear(4, 4, bias=False, coupling=-0.5)
    free = ImplicitBiasLinear(4, 4, bias=False)
    free.load_state_dict(layer.state_dict())
    free.raw_coupling.data.zero_()
    certificate = certify_scaling(free)
    assert certificate.verdict == "certified"
    assert check(certificate, free)
    assert not check(certificate, layer)


def loud(layer):
    """A Farkas layer of the paper's whose free bias wins."""
    layer.balance.last.data.fill_(3.0)
    return layer


LAYERS = {
    "everywhere": (lambda: nn.Linear(3, 30), None),
    "box": (lambda: nn.Linear(10, 30), (-0.1, 0.1)),
    "conv": (lambda: nn.Conv2d(2, 40, 3, padding=1), (0.0, 1.0)),
    "conv, reflecting": (lambda: nn.Conv2d(2, 40, 3, padding=1, padding_mode="reflect"), (0.0, 1.0)),
    "conv without padding": (lambda: nn.Conv2d(2, 40, 3), (0.0, 1.0)),
    "grouped": (lambda: nn.Conv2d(2, 40, 3, groups=2), (0.0, 1.0)),
    "farkas": (lambda: FarkasLinear(6, 5), None),
    "farkas on a box": (lambda: FarkasLinear(6, 5), (-1.0, 1.0)),
    "farkas, grouped": (lambda: FarkasConv2d(4, 8, 3, groups=4), (0.0, 1.0)),
    "farkas, maximum": (lambda: loud(FarkasLinear(6, 5, rule="max")), None),
    "residual": (lambda: FarkasResidual(5), None),
    "geometric": (lambda: GeometricLinear(2, 40, activation="relu"), (0.5, 1.0)),
    "geometric conv": (lambda: GeometricConv2d(1, 60, 3), (0.2, 1.0)),
    "silent": (lambda: nn.Linear(30, 5), (-1.0, 1.0)),
    "silent conv": (lambda: nn.Conv2d(2, 2, 3, padding=1), (-1.0, 1.0)),
}


def judged(name):
    """A layer, its box and its certificate."""
    torch.manual_seed(3)
    make, box = LAYERS[name]
    layer = make()
    return layer, box, certify_activity(layer, box)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_and_activity(name):
    layer, box, certificate = judged(name)
    assert certificate.verdict == ("refuted" if "silent" in name else "certified")
    assert check(certificate, layer)
    if certificate.verdict == "refuted":
        assert (layer(certificate.witness).amax(1) <= 0).any()
        loud = FarkasLinear(30, 5) if name == "silent" else FarkasConv2d(2, 4, 3, padding=1)
        assert not check(certificate, loud)
        return
    size = (layer.channels if name == "residual" else getattr(layer, "in_channels", None), 6, 6)
    size = size if size[0] else (layer.in_features,)
    low, high = box or (-5.0, 5.0)
    x = low + (high - low) * torch.cat([torch.rand(200, *size), torch.rand(200, *size).round()])
    assert layer(x).amax(1).min() >= (certificate.evidence.margin or 0.0) * 0.99 - 1e-6


@pytest.mark.parametrize("name", ["everywhere", "box", "conv", "grouped"])
def test_mistakes_in_multipliers_are_caught(name):
    layer, _, certificate = judged(name)
    lam = certificate.evidence.multipliers
    values = list(lam) if isinstance(lam, tuple) else lam.tolist()
    top = max(range(len(values)), key=lambda i: values[i])

    def planted(values):
        forged = tuple(values) if isinstance(lam, tuple) else torch.tensor(values, dtype=torch.float64)
        return with_evidence(certificate, multipliers=forged)

    assert check(planted(values), layer)
    assert not check(planted([-v if i == top else v for i, v in enumerate(values)]), layer)
    assert not check(planted([0 * v for v in values]), layer)
    if name == "everywhere":
        assert not check(
            planted([v * (1 + Fraction(1, 10**9)) if i == top else v for i, v in enumerate(values)]), layer
        )


@pytest.mark.parametrize("name", ["everywhere", "box", "conv", "farkas", "farkas, maximum", "residual"])
def test_a_dropped_bias_is_caught(name):
    layer, box, certificate = judged(name)
    assert check(certificate, layer)
    with torch.no_grad():
        if isinstance(layer, FarkasLinear | FarkasResidual):
            layer.balance.offsets = None
        else:
            layer.bias.zero_()
    if box is not None and layer(torch.zeros_like(layer.weight[:1])).max() > 0:
        return
    assert not check(certificate, layer)


def test_forgotten_padding_is_caught():
    padded = nn.Conv2d(1, 1, 3, padding=1)
    padded.weight.data.fill_(1.0)
    padded.bias.data.fill_(-5.0)
    bare = nn.Conv2d(1, 1, 3)
    bare.load_state_dict(padded.state_dict())
    certificate = certify_activity(bare, (1.0, 2.0))
    assert check(certificate, bare)
    assert certify_activity(padded, (1.0, 2.0)).verdict == "refuted"
    assert not check(certificate, padded)


def plain():
    model = nn.Sequential(nn.Linear(2, 30), nn.ReLU(), nn.Linear(30, 40), nn.BatchNorm1d(40), nn.ReLU())
    model[3].running_mean.normal_()
    model[3].bias.data.fill_(1.5)
    return model


# (network, shape of an input, half the side of the box, how its layers are shown)
NETWORKS = {
    "farkas": (lambda: small("cnn", "farkas", norm="none"), (2, 8, 8), 0.5, {"construction"}),
    "farkas residual": (lambda: small("resnet18", "farkas", norm="none"), (2, 8, 8), 0.5, {"construction"}),
    "farkas layers": (lambda: small("vgg6", "farkas", norm="none"), (2, 8, 8), 0.5, {"construction"}),
    "farkas network": (lambda: small("farkasnet18", "farkas", norm="none"), (2, 8, 8), 0.5, {"construction"}),
    "farkas block": (lambda: FarkasBasicBlock(4), (4, 5, 5), 0.5, {"construction"}),
    "norm and skip": (lambda: NormAndSkip(0.5), (3,), 0.1, {"interval"}),
    "plain": (plain, (2,), 3.0, {"box"}),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(1, 60, 3, padding=1), nn.BatchNorm2d(60), nn.ReLU()), (1, 5, 5), 0.4, {"box"},
    ),
    "silent": (lambda: small("cnn", "standard", norm="batch"), (2, 8, 8), 0.5, {""}),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_and_activity(name):
    torch.manual_seed(0)
    make, shape, side, shown = NETWORKS[name]
    model = make()
    x = side * (2 * torch.rand(10, *shape) - 1)
    certificate = certify_activity(model, (torch.full(shape, -side), torch.full(shape, side)), data=x)
    assert certificate.verdict == ("refuted" if name == "silent" else "certified")
    assert check(certificate, model)
    layers = certificate.evidence.layers
    assert {layer.by for layer in layers} & shown
    assert all(set(one.dead_on_box) <= set(one.dead_on_data) for one in layers)
    if name == "silent":
        with torch.no_grad():
            for module in model.modules():
                if isinstance(module, nn.BatchNorm2d | nn.BatchNorm1d):
                    module.bias += 100
        assert not check(certificate, model)
        return
    forged = tuple(replace(k, by="") for k in layers)
    assert not check(with_evidence(certificate, layers=forged), model)


def test_no_certificate_holds_for_what_has_become_no_number():
    layer = FarkasLinear(4, 8)
    certificates = [certify_activity(layer), certify_scaling(nn.Linear(3, 2, bias=False), torch.ones(2, 3))]
    assert all(certificate.verdict == "certified" for certificate in certificates)
    for certificate, model in zip(certificates, (layer, nn.Linear(3, 2, bias=False)), strict=True):
        assert check(certificate, model)
        with torch.no_grad():
            next(model.parameters()).fill_(torch.inf)
        assert not check(certificate, model)
        with pytest.raises(ValueError, match="has NaN or infinity in it: nothing can be shown of it"):
            certify_scaling(model, torch.ones(2, 4 if model is layer else 3))
    norm = nn.BatchNorm1d(3)
    norm.running_mean.fill_(torch.nan)
    with pytest.raises(ValueError, match="running_mean of BatchNorm1d has NaN"):
        certify_activity(norm)
