"""Degrees proved from the operations, against what networks do when their input is scaled."""

import ctypes

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

import neuronal
from neuronal.certify.scaling import certify_scaling
from neuronal.nn.implicit_bias import ImplicitBiasLinear
from neuronal.nn.norm import ChannelScale, InputMeanNorm
from tests.geometry.networks import Does
from tests.models.networks import ALLOWED, small
from tests.vision import vision


def error(model, x, degree, scales=(3.0, 0.3, 1e-3, 1e3)):
    """The oracle: the largest relative distance from s^degree f(x); powers of two are left to the code under test."""
    model = model.double().eval()
    x = x.double()
    with torch.no_grad():
        y = model(x).double()
        worst = 0.0
        for s in scales:
            want, got = y * s ** float(degree), model(x * s).double()
            worst = max(worst, ((want - got).norm() / max(want.norm(), got.norm(), 1e-300)).item())
    return worst


def stirred(model):
    """Parameters and running means away from the zeros and ones they start at."""
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.is_floating_point() and not name.endswith(("running_var", "_kind")):
                tensor.add_(torch.randn_like(tensor), alpha=0.1 if tensor.dim() < 2 else 0.02)
    return model


SMALLER = sorted(case for case in ALLOWED if not case[0].endswith(("34", "50", "101", "152")))


@pytest.mark.parametrize(("name", "neuron", "norm"), SMALLER)
def test_of_all_networks_those_without_biases_scale(name, neuron, norm):
    model = stirred(small(name, neuron, norm=norm))
    certificate = certify_scaling(model)
    x = torch.randn(2, 2, 8, 8)
    if neuron == "zero_bias":
        assert certificate.verdict == "certified"
        assert certificate.evidence.degree == 1
        assert not certificate.evidence.zeros
        assert error(model, x, 1) < 1e-12
    else:
        assert certificate.verdict == "refuted"
        assert certificate.evidence.breaks
        assert min(error(model, x, d) for d in (0, 1, 2)) > 1e-4


EPS0 = {"eps": 0.0}
CURVED = [nn.ReLU6, nn.Hardtanh, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus, nn.Sigmoid]
CURVED += [nn.Hardsigmoid, nn.Hardswish, nn.Tanh, nn.Tanhshrink, nn.Softsign, nn.Softshrink, nn.Hardshrink]
CURVED += [nn.LogSigmoid, nn.GLU, lambda: nn.Softmax(1), lambda: nn.LogSoftmax(1)]
# (module, input shape, degree or None), after the table of measured modules this project started from.
MODULES = {
    "linear": (nn.Linear(6, 4, bias=False), (6,), 1),
    "linear with bias": (nn.Linear(6, 4), (6,), None),
    "conv": (nn.Conv2d(2, 3, 3, bias=False), (2, 5, 5), 1),
    "reflect padding": (nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect", bias=False), (2, 5, 5), 1),
    "conv transposed": (nn.ConvTranspose2d(2, 3, 3, bias=False), (2, 5, 5), 1),
    "conv in 3d": (nn.Conv3d(1, 2, 2, bias=False), (1, 3, 3, 3), 1),
    "zero padding": (nn.ConstantPad2d(1, 0.0), (2, 5, 5), 1),
    "constant padding": (nn.ConstantPad2d(1, 0.5), (2, 5, 5), None),
    "relu": (nn.ReLU(), (6,), 1),
    "leaky relu": (nn.LeakyReLU(), (6,), 1),
    "prelu": (nn.PReLU(), (6,), 1),
    "rrelu": (nn.RReLU(), (6,), 1),
    "threshold at 0": (nn.Threshold(0.0, 0.0), (6,), 1),
    "threshold": (nn.Threshold(0.1, 0.0), (6,), None),
    "max pool with padding": (nn.MaxPool2d(3, 2, 1), (2, 6, 6), 1),
    "average pool": (nn.AvgPool2d(2), (2, 6, 6), 1),
    "adaptive max pool": (nn.AdaptiveMaxPool2d(2), (2, 6, 6), 1),
    "lp pool": (nn.LPPool2d(2, 2), (2, 6, 6), 1),
    "flatten": (nn.Flatten(), (2, 3), 1),
    "unflatten": (nn.Unflatten(1, (2, 3)), (6,), 1),
    "pixel shuffle": (nn.PixelShuffle(2), (4, 3, 3), 1),
    "bilinear upsampling": (nn.Upsample(scale_factor=2, mode="bilinear"), (2, 3, 3), 1),
    "bicubic upsampling": (nn.Upsample(scale_factor=2, mode="bicubic"), (2, 3, 3), 1),
    "dropout": (nn.Dropout(), (6,), 1),
    "batch norm": (stirred(nn.BatchNorm2d(2)), (2, 5, 5), None),
    "batch norm that only scales": (nn.BatchNorm2d(2), (2, 5, 5), 1),
    "batch norm without statistics": (nn.BatchNorm2d(2, track_running_stats=False), (2, 5, 5), None),
    "instance norm, eps 0": (nn.InstanceNorm2d(2, **EPS0), (2, 5, 5), 0),
    "instance norm, eps 0, bias": (stirred(nn.InstanceNorm2d(2, affine=True, **EPS0)), (2, 5, 5), 0),
    "group norm, eps 0, bias": (stirred(nn.GroupNorm(2, 4, **EPS0)), (4, 5), 0),
    "layer norm": (nn.LayerNorm(6), (6,), None),
    "layer norm, eps 0, bias": (stirred(nn.LayerNorm(6, **EPS0)), (6,), 0),
    "rms norm": (nn.RMSNorm(6, eps=1e-6), (6,), None),
    "rms norm, eps 0": (nn.RMSNorm(6, **EPS0), (6,), 0),
    "local response norm": (nn.LocalResponseNorm(2), (4, 5), None),
    "our scale": (ChannelScale(torch.rand(4)), (4, 5), 1),
    "input mean norm": (stirred(InputMeanNorm(4)), (4, 5), None),
    "input mean norm at 0": (InputMeanNorm(4), (4, 5), 1),
    "transformer": (nn.TransformerEncoderLayer(6, 2, 8, bias=False), (3, 6), None),
    **{str(module): (module, (6,), None) for module in (make() for make in CURVED)},
}


@pytest.mark.parametrize("name", MODULES)
def test_the_table_of_modules(name):
    module, shape, degree = MODULES[name]
    x = torch.randn(2, *shape)
    certificate = certify_scaling(module, x)
    assert certificate.evidence.degree == degree
    assert (certificate.verdict == "certified") == (degree is not None)
    if degree is not None:
        assert error(module, x, degree) < 1e-12


WEIGHT = torch.randn(6, 6)


def written(o, part, x):
    o[part] = x
    return o


def cosine_attention(x, mask=None):
    values = x.view(-1, 1, 2, 3)
    directions = F.normalize(values, dim=-1, eps=0.0)
    return F.scaled_dot_product_attention(directions, directions, values, mask)


def scaled_part(x):
    o = x.clone()
    o[:, :2].mul_(x[:, :2])
    return o


LEFT = (slice(None), slice(0, 6))
FUNCTIONS = {
    "product": (lambda x: x * F.linear(x, WEIGHT), 2),
    "outer product": (lambda x: torch.einsum("bi,bj->bij", x, x).flatten(1), 2),
    "bilinear": (lambda x: F.bilinear(x, x, torch.ones(2, 6, 6)), 2),
    "quotient": (lambda x: x * x / x.abs().sum(1, keepdim=True), 1),
    "inverse": (lambda x: 1 / x.norm(dim=1), -1),
    "root": (lambda x: x.abs().sqrt(), "1/2"),
    "variance": (lambda x: x.var(1), 2),
    "deviation": (lambda x: x.std(1), 1),
    "unit length": (lambda x: F.normalize(x, eps=0.0), 0),
    "anything behind degree 0": (lambda x: torch.tanh(F.layer_norm(x, (6,), eps=0.0) + 3), 0),
    "a gate of degree 0": (lambda x: x * torch.sigmoid(F.layer_norm(x, (6,), eps=0.0)), 1),
    "a gate of degree 1": (lambda x: x * torch.sigmoid(x), None),
    "pre-norm residual": (lambda x: x + F.layer_norm(x, (6,), eps=0.0), None),
    "attention": (lambda x: F.scaled_dot_product_attention(*[x.view(-1, 1, 2, 3)] * 3), None),
    "attention by cosine": (cosine_attention, 1),
    "attention with a mask that scales": (lambda x: cosine_attention(x, x.view(-1, 1, 6)[..., None, :2]), None),
    "a norm with a weight that scales": (lambda x: F.layer_norm(x, (6,), weight=x[0], eps=0.0), None),
    "a norm with a bias that scales": (lambda x: F.group_norm(x, 1, bias=x[0], eps=0.0), None),
    "maximum": (lambda x: torch.maximum(x, F.linear(x, WEIGHT.to(x))), 1),
    "maximum with 1": (lambda x: torch.maximum(x, torch.ones(6).to(x)), None),
    "the largest two": (lambda x: x.topk(2).values, 1),
    "class": (lambda x: F.linear(x, WEIGHT.to(x)).argmax(1), 0),
    "zeros beside": (lambda x: torch.cat([x, torch.zeros(len(x), 1).to(x)], 1), 1),
    "ones beside": (lambda x: torch.cat([x, torch.ones(len(x), 1).to(x)], 1), None),
    "written into zeros": (lambda x: written(torch.zeros(len(x), 8).to(x), LEFT, x), 1),
    "put into zeros": (lambda x: torch.zeros_like(x).index_put_((torch.arange(len(x)),), x), 1),
    "written into ones": (lambda x: written(torch.ones(len(x), 8).to(x), LEFT, x), None),
    "written into memory nobody filled": (lambda x: written(torch.empty(len(x), 6).to(x), LEFT, x), 1),
    "one and zero written beside": (lambda x: written(written(torch.empty(len(x), 7).to(x), LEFT, x), (0, 6), 1), None),
    "zero written beside": (lambda x: written(written(torch.empty(len(x), 7).to(x), LEFT, x), (slice(None), 6), 0), 1),
    "written over everything": (lambda x: torch.ones(len(x), 6).to(x).copy_(x), 1),
    "a part multiplied in place": (scaled_part, None),
    "a view multiplied in place": (lambda x: (lambda o: (o.view(-1).mul_(3), o)[1])(x.clone()), 1),
    "sign": (lambda x: x.sign() + 1, 0),
    "chosen by sign": (lambda x: torch.where(x > 0, x, 0.1 * x), 1),
    "chosen by size": (lambda x: torch.where(x > 1, x, 0.1 * x), None),
    "masked": (lambda x: x.masked_fill(x < 0, 0.0), 1),
    "spectrum": (lambda x: torch.fft.rfft(x).abs(), 1),
    "whole numbers": (lambda x: x.int().to(x), None),
    "random": (lambda x: F.dropout(x, 0.5, True), None),
    "a branch": (lambda x: x if x.sum() > 1e9 else x * 2, None),
    "a branch on a list": (lambda x: x if x.tolist()[0][0] > 1e9 else x * 2, None),
    "a branch on a scale-free value": (lambda x: x if F.normalize(x, eps=0.0)[0, 0] > 0 else x * x, None),
    "through numpy": (lambda x: x + torch.from_numpy(x.numpy()), None),
    "a mask as index": (lambda x: x[x > -1e9], None),
    "data": (lambda x: x + torch.tanh(x.data), None),
    "two outputs": (lambda x: (x, x), None),
    "a constant": (lambda x: torch.ones(len(x), 2), None),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_what_they_do_behind_the_scenes(name):
    function, degree = FUNCTIONS[name]
    certificate = certify_scaling(Does(function), torch.randn(2, 6))
    assert str(certificate.evidence.degree) == str(degree)
    assert (certificate.verdict == "certified") == (degree is not None)


def test_a_model_that_draws_random_numbers_is_not_refuted_however_small_they_are():
    # Noise that rounding swallows: two runs agree, and yet there is no f to refute anything of.
    model = Does(lambda x: x + 0.3 + 1e-20 * torch.randn_like(x))
    certificate = certify_scaling(model, torch.randn(2, 6, generator=torch.Generator().manual_seed(0)))
    assert certificate.verdict == "unknown"
    assert any("random" in found.reason for found in certificate.evidence.breaks)


# Random networks: a stack of values, operations that take the last ones.
UNARY = {
    "relu": torch.relu,
    "abs": torch.abs,
    "leaky": lambda v: F.leaky_relu(v, 0.2),
    "linear": lambda v: v @ WEIGHT.to(v),
    "bias": lambda v: v + 0.3,
    "zero bias": lambda v: v + torch.zeros(6).to(v),
    "tanh": torch.tanh,
    "norm": lambda v: v / v.norm(dim=1, keepdim=True),
    "layer norm": lambda v: F.layer_norm(v, (6,), eps=0.0),
    "layer norm with eps": lambda v: F.layer_norm(v, (6,)),
    "square": lambda v: v * v,
    "root": lambda v: v.abs().sqrt(),
    "cube": lambda v: v**3,
    "mean": lambda v: v - v.mean(1, keepdim=True),
    "double": lambda v: v * 2,
    "in place": lambda v: v.clone().mul_(-1).relu_(),
    "clamp": lambda v: v.clamp(max=0.5),
    "softmax": lambda v: v.softmax(1),
    "largest": lambda v: v.amax(1, keepdim=True).expand_as(v),
    "signs": torch.sign,
}
BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "max": torch.maximum,
    "choose": lambda a, b: torch.where(a > b, a, b),
    "divide": lambda a, b: a / (b.abs().sum(1, keepdim=True)),
    "join": lambda a, b: torch.cat([a[:, :3], b[:, 3:]], 1),
}


class Random(nn.Module):
    def __init__(self, plan):
        super().__init__()
        self.plan = plan

    def forward(self, x):
        values = [x]
        for name, back in self.plan:
            if name in UNARY:
                values.append(UNARY[name](values[-1]))
            else:
                values.append(BINARY[name](values[-1], values[max(-1 - back, -len(values))]))
        self.largest = max(v.abs().max().item() for v in values)
        return values[-1]


PLANS = st.lists(st.tuples(st.sampled_from([*UNARY, *BINARY]), st.integers(1, 4)), min_size=1, max_size=8)


@settings(max_examples=300, deadline=None)
@given(plan=PLANS, seed=st.integers(0, 1000))
def test_random_networks_never_get_a_degree_they_do_not_have(plan, seed):
    model, x = Random(plan), torch.randn(3, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    certificate = certify_scaling(model, x)
    with torch.no_grad():
        y, shaken = model(x), model(x * (1 + 1e-13 * torch.randn_like(x)))
        # Differences of equal numbers are noise, in which floats cannot see any degree.
        if not y.isfinite().all() or (y - shaken).abs().max() > 1e-7 * y.abs().max():
            return
    if certificate.verdict == "certified":
        for s in (1.5, 0.7) if abs(certificate.evidence.degree) < 50 else (1.01,):
            got, size = model(x * s), model.largest
            want = model(x) * s ** float(certificate.evidence.degree)
            # Differences of large numbers keep their rounding.
            assert (got - want).abs().max() <= 1e-5 * want.abs().max() + 1e-10 * max(size, model.largest)
    elif certificate.verdict == "refuted":
        y, s = certificate.witness, certificate.evidence.scale
        ratios = [(model(y * s**k) / model(y)).flatten() for k in (1, 2)]
        same = all((r / r[0] - 1).abs().max() < 1e-9 for r in ratios)
        assert not (same and ratios[0][0] > 0 and abs(ratios[1][0] / ratios[0][0] ** 2 - 1) < 1e-9)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("vgg11", "alexnet", "densenet121")]


@pytest.mark.parametrize("name", ["resnet18", "squeezenet1_0", "mobilenet_v2", *SLOW])
def test_torchvision(name):
    vision()
    import torchvision

    model = stirred(torchvision.models.get_model(name, num_classes=5))
    x = torch.randn(1, 3, 64, 64)
    before = certify_scaling(model, x)
    # An untrained mobilenet answers every image with next to the same numbers, as a network of degree 0 would.
    assert before.verdict == ("unknown" if name == "mobilenet_v2" else "refuted")
    assert before.evidence.breaks
    without = neuronal.convert(model, "zero_bias", batch_norm="scale_only").model
    certificate = certify_scaling(without, x)
    # What is left to repair there is ReLU6, which the conversion does not touch.
    assert (certificate.verdict == "certified") == (name != "mobilenet_v2")
    if name == "mobilenet_v2":
        assert {b.module for b in certificate.evidence.breaks} == {"ReLU6"}
    else:
        assert error(without, x, 1) < 1e-9


def test_all_breaks_are_found_in_one_walk_and_name_module_reason_and_repair():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    found = certify_scaling(model).evidence.breaks
    # Behind a norm with eps 0 nothing scales any more, so the last bias is fine.
    assert [b.path for b in found] == ["0", "1", "2", "3"]
    assert str(found[0]).startswith("Linear at '0' has a bias: use bias=False")


def test_a_bias_that_happens_to_be_zero_is_a_value():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2, bias=False))
    model[0].bias.data.zero_()
    certificate = certify_scaling(model)
    assert certificate.verdict == "certified"
    assert certificate.evidence.zeros == ("Linear at '0'",)
    model[0].bias.data[3] = 1e-20
    assert certify_scaling(model).verdict != "certified"


def test_an_implicit_bias_layer_scales_only_without_coupling():
    layer = ImplicitBiasLinear(4, 4, bias=False)
    assert certify_scaling(layer).evidence.degree == 1
    assert certify_scaling(layer).evidence.zeros == ("ImplicitBiasLinear",)
    layer = ImplicitBiasLinear(4, 4, bias=False, coupling=-0.5)
    assert certify_scaling(layer).verdict == "refuted"
    assert "tanh" in certify_scaling(layer).evidence.breaks[0].reason


def test_powers_too_high_for_floats_refute_nothing():
    """(x^81 + tiny) underflows at small scales; that is no counterexample to anything."""
    model = Does(lambda x: (x**9) ** 9 + 1e-300)
    certificate = certify_scaling(model, torch.full((1, 2), 0.1, dtype=torch.float64))
    assert certificate.verdict == "unknown"
    assert certify_scaling(Does(lambda x: (x**9) ** 9), torch.rand(1, 2).double()).evidence.degree == 81


def test_a_departure_too_small_to_see_is_unknown():
    model = nn.Linear(5, 3)
    model.bias.data.fill_(1e-12)
    certificate = certify_scaling(model, torch.full((1, 5), 1e3))
    assert certificate.verdict == "unknown"
    assert "has a bias" in certificate.reason


def test_what_is_not_seen_is_found_by_running_the_model():
    class Hidden(nn.Module):
        """Computes outside of torch, without any of the usual ways out."""

        def forward(self, x):
            first = ctypes.c_float.from_address(torch.Tensor.untyped_storage(x).data_ptr()).value
            return x + first * x

    assert certify_scaling(Hidden(), torch.randn(1, 3)).verdict != "certified"


def test_shapes_are_found_where_the_model_knows_them():
    assert certify_scaling(small("cnn", "zero_bias")).evidence.shape == (2, 8, 8)
    assert certify_scaling(nn.Sequential(nn.Linear(7, 2))).evidence.shape == (7,)
    with pytest.raises(ValueError, match="Give example="):
        certify_scaling(nn.Conv2d(3, 2, 3))
    with pytest.raises(ValueError, match="batch dimension"):
        certify_scaling(nn.Linear(3, 2), torch.randn(3))


def test_a_model_that_keeps_state_is_not_certified():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            return x + (self.calls > 1000).float()

    certificate = certify_scaling(Counts(), torch.randn(1, 2))
    assert certificate.verdict == "unknown"
    assert "changes a parameter or buffer" in certificate.reason
