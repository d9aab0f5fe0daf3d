"""Attacks that once gave false certificates, each as small as it gets. Every test failed before its cure."""

import math
import pickle
from dataclasses import replace

import pytest
import torch
from torch import nn

from neuronal.certify import (
    certify_activity,
    certify_ball,
    certify_cone,
    certify_hull,
    certify_lipschitz_ball,
    certify_scaling,
    certify_segment,
    certify_segments,
    check,
)
from neuronal.certify.certificate import Certificate
from neuronal.certify.evidence import SegmentEvidence
from neuronal.certify.statement import SEGMENT, scaling
from neuronal.convert import convert, fold_batch_norm
from neuronal.geometry import affine_map
from neuronal.geometry.lowering import NotPiecewiseLinear, lower
from tests.geometry.networks import linear

WHOLE = torch.tensor([[0.0, 1.0]]).double()
EYE = [[1.0, 0.0], [0.0, 1.0]]
FIRST = [[1.0, 0.0], [0.0, 0.0]]


class Model(nn.Module):
    """A linear layer ``inner`` and a forward around it."""

    def __init__(self, rule, weight, bias=None):
        super().__init__()
        self.rule, self.inner = rule, linear(weight, bias)

    def forward(self, x):
        return self.rule(self.inner, x)


def plain(layer, x):
    return layer(x)


def forged_segment(a, b, label=0, intervals=WHOLE):
    return Certificate("segment", SEGMENT, "certified", "real", "", None, SegmentEvidence(a, b, label, intervals))


# Models that work in place on their input

FIRST_OPERATIONS = {
    "relu": nn.ReLU(inplace=True),
    "hardtanh": nn.Hardtanh(inplace=True),
    "leaky": nn.LeakyReLU(0.1, inplace=True),
    "clamp": Model(lambda layer, x: layer(x.clamp_(-0.5, 2)), EYE, [0.0, 0.0]),
    "abs": Model(lambda layer, x: layer(x.abs_()), EYE, [0.0, 0.0]),
    "mul": Model(lambda layer, x: layer(x.mul_(0.5)), EYE, [0.0, 0.0]),
}


def classifier():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))


def in_place(name):
    torch.manual_seed(0)
    return nn.Sequential(FIRST_OPERATIONS[name], nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))


@pytest.mark.parametrize("name", FIRST_OPERATIONS)
@pytest.mark.parametrize("promise", ["real", "float32"])
def test_first_operations_in_place_agree_with_samples(name, promise):
    model = in_place(name)
    generator = torch.Generator().manual_seed(1)
    ends = 2 * torch.randn(20, 2, 2, generator=generator)
    t = torch.linspace(0, 1, 401).view(-1, 1)
    seen = set()
    for a, b in ends:
        certificate = certify_segment(model, a.clone(), b.clone(), promise=promise)
        seen.add(certificate.verdict)
        with torch.no_grad():
            classes = model((1 - t) * a + t * b).argmax(1)
        if certificate.verdict == "certified":
            assert classes.unique().numel() == 1
            assert check(certificate, model)
        if certificate.verdict == "refuted":
            assert check(certificate, model)
            assert not check(forged_segment(a, b, certificate.evidence.label), model)
    assert "certified" in seen


@pytest.mark.parametrize("name", FIRST_OPERATIONS)
def test_no_question_changes_the_model_or_the_callers_tensors(name):
    model = in_place(name).append(nn.BatchNorm1d(2)).append(nn.Dropout()).double()
    model[1].eval()
    model[1].weight.grad = torch.ones_like(model[1].weight)
    flags = [module.training for module in model.modules()]
    given = torch.tensor([[1.0, -3.0], [-0.5, 4.0], [0.2, -0.1]]).double()
    kept = given.clone()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    lower(model, given)
    with pytest.raises(NotPiecewiseLinear):
        lower(nn.Sequential(*model, nn.GELU()), given)
    certify_hull(model, given)
    certify_ball(model, given[0])
    certify_ball(model, given[1], norm="inf")
    certify_segment(model, given[0], given[1])
    certify_lipschitz_ball(model, given[2])
    affine_map(model, given)
    certify_scaling(model, given)
    convert(model, "geometric", example=given)
    assert torch.equal(given, kept)
    assert [module.training for module in model.modules()] == flags
    assert torch.equal(model[1].weight.grad, torch.ones_like(model[1].weight))
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    bias_free = nn.Sequential(nn.ReLU(inplace=True), linear(EYE), nn.ReLU(), linear(FIRST)).double()
    certify_cone(bias_free, given)
    certify_scaling(bias_free, given)
    assert torch.equal(given, kept)


def test_a_witness_of_inactivity_lies_in_the_box():
    model = nn.Sequential(nn.ReLU(inplace=True), linear(EYE, [-0.5, -0.5]), nn.ReLU())
    low, high = torch.tensor([-2.0, -2.0]), torch.tensor([-1.0, 1.0])
    certificate = certify_activity(model, (low, high))
    assert certificate.verdict == "refuted"
    assert ((certificate.witness[0] >= low) & (certificate.witness[0] <= high)).all()


# Attributes of the checker's sets


@pytest.mark.parametrize("mirrored", [lambda x: x.mT, lambda x: x.transpose(1, 2), lambda x: x.data.transpose(1, 2)])
def test_the_checker_sees_what_attributes_give(mirrored):
    model = Model(lambda layer, x: layer(((x + mirrored(x)) / 2).flatten(1)), [[0.0, 1.0, 0.0, 0.0], [0.0] * 4])
    a, b = torch.tensor([[0.0, 1.0], [0.0, 0.0]]), torch.tensor([[0.0, 1.0], [-3.0, 0.0]])
    assert not check(forged_segment(a, b), model)


@pytest.mark.parametrize("name", ["data", "real", "grad", "T", "H", "mH", "is_cuda", "names", "_base", "unknown"])
def test_the_checker_knows_no_attribute_that_could_hide_a_number(name):
    def rule(layer, x):
        value = getattr(x, name, None)
        return layer(x) if value is None or isinstance(value, bool) else layer(x + 2 * (value + 1))

    model = Model(rule, EYE, [0.0, 0.0])
    a, b = torch.tensor([1.0, 0.5]), torch.tensor([1.0, 0.9])
    confirmed = check(forged_segment(a, b), model)
    t = torch.linspace(0, 1, 101).view(-1, 1)
    try:
        with torch.no_grad():
            holds = bool((model((1 - t) * a + t * b).argmax(1) == 0).all())
    except (RuntimeError, TypeError):
        holds = False
    assert holds or not confirmed


# One row is another network than several


def test_the_checker_of_scaling_looks_at_one_row_too():
    honest = Model(plain, EYE)
    certificate = certify_scaling(honest, torch.randn(1, 2))
    assert check(certificate, honest)
    other = Model(lambda layer, x: layer(x) + (1.0 if len(x) == 1 else 0.0), EYE)
    assert not check(certificate, other)


class OneRow(nn.Module):
    """Minus itself for a single row, where no probe comes to lie."""

    def __init__(self):
        super().__init__()
        self.inner = linear(EYE, [0.0, 0.0]).double()

    def forward(self, x):
        y = self.inner(x)
        return torch.where((x[:, :1] - 500).abs() < 1, -y, y) if len(x) == 1 else y


class ManyRows(OneRow):
    """Minus itself for many rows, more than any probe has."""

    def forward(self, x):
        return -self.inner(x) if len(x) > 20 else self.inner(x)


def test_nothing_is_certified_of_another_network_for_one_row_wherever_it_differs():
    model, a = OneRow(), torch.tensor([500.0, 1.0]).double()
    batch, _ = model(a.expand(2, 2)).argmax(1)
    assert model(a.unsqueeze(0)).argmax(1) != batch
    assert certify_segment(model, a, 2 * a).verdict == "unknown"
    assert certify_hull(model, torch.stack([a, 2 * a])).verdict == "unknown"
    assert certify_ball(model, a).verdict == "unknown"
    assert certify_cone(model, torch.stack([a, 2 * a])).verdict == "unknown"


def test_a_class_is_the_same_for_each_vertex_alone_and_for_all_at_once():
    model, a = ManyRows(), torch.tensor([[5.0, 1.0]]).double().repeat(30, 1)
    assert {one.verdict for one in certify_segments(model, a[:5], 2 * a[:5])} == {"certified"}
    assert {one.verdict for one in certify_segments(model, a, 2 * a)} == {"unknown"}
    assert certify_hull(model, a).verdict == "unknown"


def test_a_model_that_squeezes_its_output_is_not_misread():
    model = Model(lambda layer, x: layer(x).squeeze(), EYE, [0.0, 0.0])
    assert certify_ball(model, torch.tensor([1.0, 0.0])).verdict == "unknown"


# Half precision and random numbers

NOISES = {
    "randn": lambda x: torch.randn(2, dtype=x.dtype),
    "rand": lambda x: 1e-5 * torch.rand(2, dtype=x.dtype),
    "normal": lambda x: torch.empty(2, dtype=x.dtype).normal_() * 1e-6,
    "dropout": lambda x: nn.functional.dropout(torch.ones(2, dtype=x.dtype), 0.5, training=True) * 1e-6,
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_noise_is_never_certified_and_never_confirmed(noise, dtype):
    model = Model(lambda layer, x: layer(x + NOISES[noise](x)), EYE).to(dtype)
    a = torch.tensor([1.0, -0.5]).to(dtype)
    assert certify_segment(model, a, 2 * a).verdict == "unknown"
    assert certify_ball(model, a).verdict == "unknown"
    assert certify_scaling(model, a.unsqueeze(0)).verdict != "certified"
    quiet = Model(plain, EYE).to(dtype)
    for certificate in (
        certify_segment(quiet, a, 2 * a),
        certify_ball(quiet, a),
        certify_scaling(quiet, a.unsqueeze(0)),
    ):
        assert certificate.verdict == "certified"
        assert not check(certificate, model)


def test_half_precision_is_compared_with_the_same_weights_in_float64():
    torch.manual_seed(0)
    honest = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).bfloat16()
    a = torch.randn(4).bfloat16()
    assert certify_segment(honest, a, a * 1.01).verdict == "certified"
    odd = Model(lambda layer, x: layer(x) * (1.0 if x.dtype == torch.float64 or len(x) > 2 else -1.0), EYE).bfloat16()
    assert certify_segment(odd, a[:2], a[:2] * 1.01).verdict == "unknown"


# Ways out of torch

EXITS = {
    "Parameter": lambda x: nn.Parameter(x)[0, 1].item(),
    "as_subclass": lambda x: x.as_subclass(nn.Parameter)[0, 1].item(),
    "dlpack": lambda x: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))[0, 1].item(),
    "pickle": lambda x: pickle.loads(pickle.dumps(x))[0, 1].item(),
    "data": lambda x: x.data[0, 1].item(),
    "storage": lambda x: x.storage()[1],
    "untyped_storage": lambda x: x.untyped_storage().tolist()[6] - 0.0,
}


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("way", EXITS)
def test_numbers_that_leave_torch_are_seen(way):
    def rule(layer, x):
        return -layer(x) if 30 < EXITS[way](x.contiguous()) < 70 else layer(x)

    model = Model(rule, FIRST)
    a, b = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 100.0])
    with pytest.raises(NotPiecewiseLinear):
        lower(model, a.unsqueeze(0))
    assert certify_segment(model, a, b).verdict == "unknown"
    assert not check(forged_segment(a, b), model)
    assert certify_scaling(model, a.unsqueeze(0)).verdict != "certified"


# Activity


def test_the_checker_of_activity_believes_nothing_of_a_layer():
    model = nn.Sequential(linear([*EYE, [1.0, 1.0]], [-0.5] * 3), nn.ReLU(), nn.Linear(3, 2))
    certificate = certify_activity(model, (torch.tensor([0.6, 0.6]), torch.tensor([1.0, 1.0])))
    assert check(certificate, model)
    evidence, zero = certificate.evidence, torch.zeros(2).double()
    low = replace(evidence, low=zero, layers=tuple(replace(one, cutoff=-1e9) for one in evidence.layers))
    assert not check(replace(certificate, evidence=low), model)
    silent = replace(evidence, layers=tuple(replace(one, verdict="refuted") for one in evidence.layers))
    outside = torch.tensor([[-9.0, -9.0]])
    assert not check(replace(certificate, verdict="refuted", witness=outside, evidence=silent), model)
    turned = replace(evidence, low=evidence.high, high=evidence.low)
    assert not check(replace(certificate, evidence=turned), model)


def test_a_silent_half_of_an_image_is_not_confirmed():
    layer = nn.Sequential(nn.Conv2d(1, 2, 1), nn.ReLU())
    layer[0].weight.data = torch.tensor([1.0, 0.5]).view(2, 1, 1, 1)
    layer[0].bias.data = torch.zeros(2)
    certificate = certify_activity(layer, (torch.full((1, 1, 2), 0.5), torch.ones(1, 1, 2)))
    assert check(certificate, layer)
    evidence = certificate.evidence
    wide = replace(evidence, low=torch.tensor([[[-1.0, 0.5]]]).double())
    for units in (2, 99, 1):
        forged = replace(wide, layers=tuple(replace(one, units=units) for one in evidence.layers))
        assert not check(replace(certificate, evidence=forged), layer)


# Precision of tampered tensors


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e5m2, torch.float64])
def test_the_tolerance_of_a_witness_is_the_models(dtype):
    model = Model(plain, FIRST, [-95.0, 0.0])
    a = torch.tensor([100.0, 0.1])
    evidence = SegmentEvidence(a, a, 0, torch.empty(0, 2).double(), 1, 0.5)
    witness = torch.tensor([94.0, 0.1]).to(dtype)
    assert not check(Certificate("segment", SEGMENT, "refuted", "real", "", witness, evidence), model)


def test_a_cones_own_witness_is_looked_at():
    model = linear(EYE)
    certificate = certify_cone(model, torch.tensor([[1.0, 0.1], [0.1, 1.0]]))
    assert certificate.verdict == "refuted"
    assert check(certificate, model)
    assert not check(replace(certificate, witness=None), model)
    assert not check(replace(certificate, witness=torch.tensor([5.0, 1.0])), model)


def test_intervals_of_short_numbers_hide_nothing():
    model = Model(lambda layer, x: layer(nn.functional.relu(x)), [[-1.0, 1.0], [0.0, 0.0]], [0.0, 0.0])
    # Class 1 only where t lies between 0.0019 and 0.00195, as bfloat16 rounds these.
    ends = torch.tensor([[0.0, 0.0019], [0.0019, 1.0]]).bfloat16()
    a, b = torch.tensor([0.0, 0.0]), torch.tensor([1.0, 0.0])
    assert not check(forged_segment(a, b, intervals=ends), model)


# Lipschitz balls


def test_a_bias_that_depends_on_the_input_has_a_constant():
    layer = linear([[0.01, 0.0], [0.0, 0.01]], [0.0, -1.0])
    certificate = certify_lipschitz_ball(layer, torch.tensor([0.0, 0.0]))
    assert check(certificate, layer)
    push = torch.tensor([[0.0, 100.0], [0.0, 0.0]])
    model = Model(lambda inner, x: torch.addmm(x @ push.to(x) + inner.bias, x, inner.weight), EYE)
    model.inner = layer
    assert not check(certificate, model)
    assert not check(replace(certificate, promise="float32"), layer)


# Scaling


def test_underflow_refutes_no_scaling():
    torch.manual_seed(0)
    model = Model(lambda layer, x: layer(x) * x.prod(1, keepdim=True), torch.randn(3, 12).tolist())
    certificate = certify_scaling(model, torch.randn(1, 12))
    assert certificate.verdict != "refuted"


def test_a_tiny_witness_refutes_nothing():
    model = nn.Linear(2, 2, bias=False)
    certificate = certify_scaling(model, torch.randn(1, 2))
    certificate = replace(certificate, statement=scaling(None, (2,)))
    evidence = replace(certificate.evidence, degree=None, scale=2.0**-10, deviation=1.0)
    for size in (1.0, 1e-38, 1e-300, 1e38):
        witness = torch.full((1, 2), size, dtype=torch.float64)
        for dtype in (torch.float32, torch.float64):
            forged = replace(certificate, verdict="refuted", witness=witness.to(dtype), evidence=evidence)
            assert not check(forged, model)


@pytest.mark.filterwarnings("ignore:The reduce argument")
@pytest.mark.parametrize("reduce", ["multiply", "add"])
def test_scatter_with_a_product_has_no_degree_of_a_sum(reduce):
    index = torch.zeros(1, 2, dtype=torch.long)

    def rule(layer, x):
        return layer(x) + 1e-12 * x.scatter(1, index.expand(len(x), 2), x, reduce=reduce)

    model = Model(rule, EYE)
    certificate = certify_scaling(model, torch.randn(1, 2))
    assert certificate.verdict != "certified"
    honest = certify_scaling(Model(plain, EYE), torch.randn(1, 2))
    assert not check(honest, model)


def test_convert_leaves_a_layer_with_a_forward_of_its_own():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    layer = model[0]
    layer.forward = lambda x: nn.functional.linear(x, layer.weight * 2, layer.bias)
    converted = convert(model, "geometric").model
    assert type(converted[0]) is nn.Linear
    x = torch.randn(5, 3)
    torch.testing.assert_close(converted(x), model(x))


POOLS = {
    "amax": lambda x: x.amax((2, 3)),
    "adaptive": lambda x: nn.functional.adaptive_max_pool2d(x, 1).flatten(1),
    "ceil_mode": lambda x: nn.functional.max_pool2d(x, 2, ceil_mode=True).flatten(1)[:, :4],
}


@pytest.mark.parametrize("name", POOLS)
def test_check_never_raises_on_the_librarys_own_certificates(name):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), Model(lambda layer, x: layer(POOLS[name](x)), torch.randn(3, 4).tolist()))
    x = torch.randn(1, 5, 5)
    certificate = certify_segment(model, x, x * 1.0001)
    assert certificate.verdict == "certified"
    assert check(certificate, model)


def test_check_says_why_it_does_not_confirm():
    model = classifier()
    certificate = certify_ball(model, torch.randn(4))
    for other in (
        replace(certificate, kind="segment"),
        replace(certificate, kind="nothing"),
        replace(certificate, evidence=None),
        replace(certificate, evidence=42),
    ):
        answer = check(other, model)
        assert not answer
        assert str(answer).startswith("not confirmed, because ")
    wrong_shape = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
    assert "not confirmed, because " in str(check(certificate, wrong_shape))


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("made", [torch.jit.script, lambda model: torch.jit.trace(model, torch.randn(1, 4))])
def test_compiled_modules_are_refused_in_one_line(made):
    model, x = classifier(), torch.randn(4)
    compiled = made(model)
    for certify, given in ((certify_segment, (x, 2 * x)), (certify_ball, (x,)), (certify_scaling, (x.unsqueeze(0),))):
        with pytest.raises(TypeError, match="compiled by TorchScript"):
            certify(compiled, *given)
    assert not check(certify_ball(model, x), compiled)


def test_folding_says_that_an_example_gives_no_numbers():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    with pytest.raises(ValueError, match="NaN or infinity"):
        fold_batch_norm(model, torch.full((2, 1, 6, 6), math.nan))
