"""Lipschitz bounds against explicit operators, Jacobians and pairs of inputs."""

import copy
from fractions import Fraction
from math import sqrt

import pytest
import torch
from torch import nn

from neuronal.certify.check import check
from neuronal.certify.check_lipschitz import exported_constant
from neuronal.certify.lipschitz import NotLipschitz, certify_lipschitz_ball, lipschitz_bound
from neuronal.certify.norms import convolution_norm
from neuronal.nn.families import FAMILIES
from neuronal.nn.implicit_bias import ImplicitBiasConv2d, ImplicitBiasLinear
from tests.certify.networks import on_sphere, worst_in_ball
from tests.certify.rational import exact, forward
from tests.certify.test_scaling import stirred
from tests.geometry.networks import Does, linear
from tests.models.networks import small


def jacobian_norm(model, x):
    j = torch.autograd.functional.jacobian(lambda v: model(v.unsqueeze(0)).flatten(), x)
    return torch.linalg.matrix_norm(j.flatten(1), 2).item()


CONVOLUTIONS = [
    nn.Conv2d(2, 3, 3, padding=1),
    nn.Conv2d(2, 3, 3),
    nn.Conv2d(1, 5, 2, 2),
    nn.Conv2d(4, 6, 3, 2, 1, groups=2),
    nn.Conv2d(2, 2, (5, 3), padding=2),
    nn.Conv2d(2, 3, 3, padding=2, dilation=2),
    nn.Conv2d(3, 4, 1),
    # A stride and a dilation may meet the same input more often than either alone.
    *[
        nn.Conv1d(1, 1, k, s, padding=4, dilation=d)
        for k, s, d in ((3, 2, 2), (2, 3, 3), (4, 4, 2), (3, 4, 6), (5, 2, 3))
    ],
]


@pytest.mark.parametrize("conv", CONVOLUTIONS, ids=repr)
def test_norms_of_convolutions(conv):
    conv = conv.double()
    x = torch.zeros(conv.in_channels, *((9, 9) if isinstance(conv, nn.Conv2d) else (64,)), dtype=torch.float64)
    for seed in range(5):
        torch.manual_seed(seed)
        conv.reset_parameters()
        if seed == 4:
            conv.weight.data.fill_(1.0)
        exact, bound = jacobian_norm(conv, x), lipschitz_bound(conv, x.unsqueeze(0)).bound
        assert exact <= bound
        if seed in (0, 4):
            # The norm that is looked for is rounded too. Each is exported anew, which takes a quarter of a second.
            assert exact <= exported_constant(conv, x.unsqueeze(0)) * (1 + 1e-12)
        if max(conv.stride) == max(conv.dilation) == 1 and any(conv.padding):
            # The grid of frequencies loses 1.3 percent a dimension, the border of a small image some more.
            assert bound < 1.25 * exact


def test_the_grid_of_frequencies_misses_no_peak_between_its_points():
    for seed in range(20):
        weight = torch.randn(1, 1, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        fine = torch.fft.fft(weight[0, 0], n=100_000).abs().max().item()
        bound = convolution_norm(weight, (1,))
        assert fine <= bound < 1.02 * fine


CASES = [(m, n, "none") for m in ("fcn", "cnn", "ucn", "resnet9") for n in FAMILIES]
CASES += [("cnn", "standard", "batch"), ("vgg6", "standard", "weight"), ("resnet18", "zero_bias", "nf")]


@pytest.mark.parametrize(("name", "neuron", "norm"), CASES)
def test_no_pair_of_inputs_and_no_jacobian_exceeds_the_bound(name, neuron, norm):
    model = stirred(small(name, neuron, norm=norm))
    found = lipschitz_bound(model, torch.zeros(1, 2, 8, 8))
    model = model.double().eval()
    for size in (0.1, 1.0, 10.0):
        x, y = torch.randn(2, 40, 2, 8, 8, dtype=torch.float64) * size
        y = torch.where(torch.arange(40).view(-1, 1, 1, 1) % 2 == 0, y, x + y * 1e-4)
        with torch.no_grad():
            ratio = (model(x) - model(y)).flatten(1).norm(dim=1) / (x - y).flatten(1).norm(dim=1)
        assert ratio.max() <= found.bound
    assert jacobian_norm(model, torch.rand(2, 8, 8).double()) <= found.bound
    assert found.steps[-1].constant == pytest.approx(found.bound, rel=1e-6)


@pytest.mark.parametrize("coupling", [-2.0, -0.3, 0.0, 0.05, 0.09])
def test_couplings(coupling):
    """Alone, on an identity: at most 1, or 1 / (1 - coupling * slope), which is reached."""
    layer = ImplicitBiasLinear(40, 40, bias=False, coupling=coupling, learn_coupling=False).double()
    layer.weight.data = torch.eye(40).double()
    layer.tolerance = 1e-10
    bound = lipschitz_bound(layer, torch.zeros(1, 40)).bound
    assert bound == pytest.approx(1 if coupling <= 0 else 1 / (1 - 10 * coupling), rel=1e-6)
    x = torch.randn(40).double() * 1e-3  # where tanh is steepest
    top = jacobian_norm(layer, x)
    assert top <= bound * (1 + 1e-7)
    if coupling > 0:
        assert top > 0.9 * bound


def test_a_residual_branch_adds():
    class Skip(nn.Linear):
        def forward(self, x):
            return x + super().forward(x)

    model = Skip(4, 4)
    top = torch.linalg.matrix_norm(model.weight, 2).item()
    assert lipschitz_bound(model, torch.zeros(1, 4)).bound == pytest.approx(1 + top, rel=1e-5)
    model.weight.data = torch.eye(4)
    assert 2 <= lipschitz_bound(model, torch.zeros(1, 4)).bound < 2.0001


# What a bound may be at most: the true norm of linear maps, or how many windows of a maximum can share a number.
PARTS = {
    "max": (nn.MaxPool2d(2), 1),
    "max, overlapping": (nn.MaxPool2d(3, 1, 1), 3),
    "max, strided": (nn.MaxPool2d(3, 2, 1), 2),
    "max, dilated": (nn.MaxPool2d(2, 1, dilation=2), 2),
    "max, one dimension": (nn.Sequential(nn.Flatten(2), nn.MaxPool1d(2)), 1),
    "mean": (nn.AvgPool2d(2), 1 / 2),
    "mean, overlapping": (nn.AvgPool2d(3, 2, 1), 2 / 3),
    "mean, uncounted": (nn.AvgPool2d(3, 2, 1, count_include_pad=False), 5 / 6),
    "mean, ceil": (nn.AvgPool2d(2, 2, ceil_mode=True), 1),
    "adaptive mean": (nn.AdaptiveAvgPool2d(3), 2 / 3),
    "adaptive mean, up": (nn.AdaptiveAvgPool2d(9), 2),
    "adaptive max": (nn.AdaptiveMaxPool2d(3), 2),
    "flatten": (nn.Flatten(), 1),
    "leaky": (nn.LeakyReLU(3.0), 3),
    "prelu": (nn.PReLU(init=-2.0), 2),
    "norm": (stirred(nn.BatchNorm2d(1)), 7),
    "tanh": (nn.Tanh(), 1),
    "clip": (nn.Hardtanh(), 1),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts(name):
    part, most = PARTS[name]
    part = part.double().eval()
    bound = lipschitz_bound(part, torch.zeros(1, 1, 7, 7)).bound
    for seed in range(10):
        torch.manual_seed(seed)
        x = torch.rand(1, 7, 7).double()
        x[0, seed % 7, 3] += 5 * (seed % 2)
        assert jacobian_norm(part, x) <= bound * (1 + 1e-12)
    assert bound <= most * (1 + 1e-6)


def test_a_linear_classifier_by_hand():
    model = linear([[1.0, 0.0], [0.0, 1.0]])
    certificate = certify_lipschitz_ball(model, torch.tensor([3.0, 1.0]))
    # The line x1 = x2 is sqrt(2) away, and the bound is tight.
    assert certificate.evidence.radius == pytest.approx(sqrt(2), rel=1e-6)
    assert certificate.evidence.radius <= sqrt(2)
    assert certify_lipschitz_ball(model, torch.ones(2)).verdict == "unknown"


def test_the_error_covers_what_float64_rounds():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(30, 40), nn.ReLU(), nn.Linear(40, 3))
    with torch.no_grad():
        model[0].weight *= 1e3
    x = torch.randn(30)
    real = forward(model, exact(x))
    certificate = certify_lipschitz_ball(model, x)
    computed = model.double()(x.double().unsqueeze(0))[0].tolist()
    distance = sqrt(sum((float(Fraction(a) - b)) ** 2 for a, b in zip(computed, real, strict=True)))
    assert 0 < distance <= certificate.evidence.error < 1e-6


def test_the_error_covers_what_is_left_of_the_equation():
    torch.manual_seed(0)
    model = nn.Sequential(ImplicitBiasConv2d(1, 2, 3, coupling=-0.7), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 36, 3))
    x = torch.randn(1, 8, 8)
    certificate = certify_lipschitz_ball(model, x)
    assert 1e-16 < certificate.evidence.error < 1e-6
    precise = model.double()
    precise[0].tolerance = 1e-13
    logits = precise(x.double().unsqueeze(0))[0]
    margin = (logits.max() - logits.topk(2).values[1]).item()
    assert abs(margin - certificate.evidence.margin) <= sqrt(2) * certificate.evidence.error + 1e-9


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), "LayerNorm at '1' computes aten.native_layer_norm"),
        (nn.Sequential(nn.Linear(4, 4), nn.Softmax(1)), "Softmax at '1'"),
        (ImplicitBiasLinear(4, 4, coupling=-0.5, steps=1), "ImplicitBiasLinear"),
        (nn.Sequential(nn.Unflatten(1, (2, 2)), nn.InstanceNorm1d(2)), "InstanceNorm1d at '1'"),
        (Does(lambda x: x * x), "Does computes aten.mul.Tensor"),
        (Does(lambda x: x if x.max() < 9 else x + 1), "Does"),
    ],
)
def test_what_has_no_constant_is_named(model, words):
    with pytest.raises(NotLipschitz, match=words):
        lipschitz_bound(model, torch.randn(1, 4))


def test_doors_and_an_untouched_model():
    model = nn.Sequential(nn.Linear(4, 1))
    with pytest.raises(ValueError, match="two outputs"):
        certify_lipschitz_ball(model, torch.randn(4))
    with pytest.raises(ValueError, match="batch dimension"):
        lipschitz_bound(model, torch.randn(4))
    assert model[0].weight.dtype == torch.float32
    assert model.training


def two_layers(neuron, **options):
    """A network of two such layers, and the shape of its inputs."""
    Linear = FAMILIES[neuron].Linear
    return lambda: nn.Sequential(Linear(6, 20, **options), nn.ReLU(), Linear(20, 4)), (6,)


CHECKED = {
    **{neuron: two_layers(neuron) for neuron in FAMILIES if neuron != "implicit_bias"},
    "coupled": two_layers("implicit_bias", coupling=-0.5),
    "pushed apart": two_layers("implicit_bias", coupling=0.05),
    "cnn": (lambda: small("cnn", "implicit_bias", norm="none"), (2, 8, 8)),
    "batch norm": (lambda: stirred(small("cnn", "standard", norm="batch")), (2, 8, 8)),
    "residual": (lambda: small("resnet18", "standard", norm="none"), (2, 8, 8)),
    "in place": (lambda: nn.Sequential(nn.ReLU(inplace=True), nn.Linear(6, 9), nn.PReLU(), nn.Linear(9, 4)), (6,)),
    "mirrored": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"),
            nn.AdaptiveMaxPool2d(3),
            nn.Flatten(),
            nn.Linear(27, 4),
        ),
        (2, 8, 8),
    ),
}


@pytest.mark.parametrize("name", CHECKED)
def test_balls_have_one_class_and_are_confirmed_but_not_of_other_weights(name):
    torch.manual_seed(2)
    make, shape = CHECKED[name]
    model, x = make(), torch.rand(shape)
    certificate = certify_lipschitz_ball(model, x)
    assert (certificate.kind, certificate.verdict, certificate.promise) == ("ball", "certified", "real")
    assert check(certificate, model)
    radius, label = certificate.evidence.radius, certificate.evidence.label
    exact = copy.deepcopy(model).double().eval()
    assert exact(x.double().unsqueeze(0)).argmax() == label
    assert (exact(on_sphere(x, 2, radius, 1000)).argmax(1) == label).all()
    assert worst_in_ball(exact, x.double(), label, 2, radius) > 0
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    assert not check(certificate, model)


def test_balls_are_confirmed_however_near_a_tie():
    certified = 0
    for gap in torch.logspace(-10, -4, 13).tolist():
        model = nn.Linear(2, 2).double()
        with torch.no_grad():
            model.weight.copy_(torch.eye(2))
            model.bias.copy_(torch.tensor([1e6 + gap, 1e6], dtype=torch.float64))
        certificate = certify_lipschitz_ball(model, torch.zeros(2).double())
        certified += certificate.verdict == "certified"
        assert certificate.verdict == "unknown" or check(certificate, model)
    assert certified > 3


SMALL_IMAGES = {
    "convolution": nn.Conv2d(1, 4, 3),
    "padded": nn.Conv2d(1, 4, 3, padding=1),
    "dilated": nn.Conv2d(1, 4, 2, dilation=2, stride=2),
    "pool": nn.Sequential(nn.Conv2d(1, 4, 1), nn.MaxPool2d(3, stride=2, padding=1)),
    "wide pool": nn.Sequential(nn.Conv2d(1, 4, 1), nn.MaxPool2d(3, stride=1)),
    "dilated pool": nn.Sequential(nn.Conv2d(1, 4, 1), nn.MaxPool2d(2, stride=1, dilation=2)),
}


@pytest.mark.parametrize("name", SMALL_IMAGES)
def test_balls_of_small_images_are_confirmed(name):
    """Their border is most of them: the sums of a convolution are those of the taps that lie inside."""
    for seed in range(4):
        torch.manual_seed(seed)
        x = torch.randn(1, 4, 4)
        body = copy.deepcopy(SMALL_IMAGES[name])
        for part in body.modules():
            if isinstance(part, nn.Conv2d):
                part.reset_parameters()
        model = nn.Sequential(body, nn.ReLU(), nn.Flatten())
        model.append(nn.Linear(model(x.unsqueeze(0)).shape[1], 3))
        certificate = certify_lipschitz_ball(model, x)
        assert certificate.verdict == "certified"
        assert check(certificate, model)
