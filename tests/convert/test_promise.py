"""What ``convert`` says of the promise of the neuron, against what the converted model does."""

import copy

import pytest
import torch
from torch import nn

from neuronal.certify import certify_scaling
from neuronal.convert import convert, fold_batch_norm, load_model, save_model
from neuronal.convert.sources import from_source
from neuronal.nn import ChannelScale
from tests.vision import vision


def timm_model(name, **options):
    """A network of timm whose one-dimensional parameters and statistics are not those it starts with."""
    vision()
    import timm

    try:
        model = timm.create_model(name, num_classes=5, **options).eval()
    except RuntimeError as unknown:
        pytest.skip(str(unknown))
    return stirred(model)


def stirred(model):
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.add_(0.1 * torch.randn(buffer.shape, generator=generator))
        if name.endswith("running_var"):
            buffer.mul_(1 + 0.3 * torch.rand(buffer.shape, generator=generator))
    return model


class NormAct(nn.BatchNorm2d):
    """Like timm's BatchNormAct2d."""

    def __init__(self, channels, act):
        super().__init__(channels)
        self.drop, self.act = nn.Identity(), act

    def forward(self, x):
        return self.act(self.drop(super().forward(x)))


class FrozenNormAct(nn.Module):
    """Like timm's FrozenBatchNormAct2d: no batch norm of torch's, and no parameters."""

    def __init__(self, channels, act):
        super().__init__()
        self.eps, self.act = 1e-5, act
        for name, value in (("weight", 1.5), ("bias", 0.3), ("running_mean", 0.2), ("running_var", 1.4)):
            self.register_buffer(name, torch.full((channels,), value))

    def forward(self, x):
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return self.act(x * scale.view(-1, 1, 1) + shift.view(-1, 1, 1))


class Twisted(NormAct):
    """Has a batch norm's parts and computes something else."""

    def forward(self, x):
        return super().forward(x) + x


def network(norm, act=None):
    torch.manual_seed(0)
    parts = [nn.Conv2d(3, 6, 3), norm(6, act or nn.ReLU()), nn.Conv2d(6, 6, 1), norm(6, act or nn.ReLU())]
    return stirred(nn.Sequential(*parts, nn.Flatten(), nn.Linear(216, 4)).eval())


def images(count=4):
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize("norm", [NormAct, FrozenNormAct])
@pytest.mark.parametrize("way", ["fold", "scale_only", "drop"])
@pytest.mark.parametrize("seen", [False, True], ids=["read", "run"])
def test_a_norm_and_activation_in_one_is_taken_as_batch_norm(norm, way, seen):
    model, x = network(norm), images()
    conversion = convert(model.double(), "zero_bias", batch_norm=way, example=x if seen else None)
    new = conversion.model
    with torch.no_grad():
        torch.testing.assert_close(new(x / 4), new(x) / 4, rtol=0, atol=0)
        assert (new(x) - model(x)).abs().max() > 1e-3
    assert not conversion.exact
    # The activation is where it was, as a copy.
    assert isinstance(new[1].act, nn.ReLU)
    assert new[1].act is not model[1].act
    assert convert(new, "zero_bias", example=x).promise.verdict == "certified"


@pytest.mark.parametrize("norm", [NormAct, FrozenNormAct])
def test_a_norm_and_activation_in_one_is_folded_exactly(norm):
    model, x = network(norm, nn.SiLU()).double(), images()
    for folded in (fold_batch_norm(model), fold_batch_norm(model, x)):
        assert [type(part) for part in folded[1].children()][-1] is nn.SiLU
        assert not [name for name in folded.state_dict() if "running" in name]
        with torch.no_grad():
            torch.testing.assert_close(folded(x), model(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("way", ["fold", "scale_only", "drop"])
def test_a_parametrised_batch_norm_has_no_activation_in_it(way):
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 1)).double().eval()
    torch.nn.utils.parametrize.register_parametrization(model[1], "weight", nn.Softplus())
    for example in (None, images()):
        new = convert(model, "zero_bias", batch_norm=way, example=example).model
        assert type(new[1]) is (ChannelScale if way == "scale_only" else nn.Identity)
        with torch.no_grad():
            torch.testing.assert_close(new(images() / 4), new(images()) / 4, rtol=0, atol=0)


def test_what_only_looks_like_a_batch_norm_is_left_alone_and_named():
    conversion = convert(network(Twisted), "zero_bias", example=images().float())
    left = {change.path: change.note for change in conversion.changes if change.before == change.after}
    assert {"1", "3"} <= left.keys()
    promise = conversion.promise
    assert promise.verdict == "broken"
    assert {("1", "Twisted"), ("3", "Twisted")} <= {(b.path, b.module) for b in promise.breaks}


def test_zero_bias_is_certified_where_nothing_stands_in_the_way():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    conversion = convert(model, "zero_bias")
    assert conversion.promise.verdict == "certified"
    assert str(conversion.promise).startswith("class independent of contrast: certified: f(s x) = s f(x)")
    assert conversion.promise is conversion.promise


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x + self.shift


class Gate(nn.Module):
    """Squeeze and excite. A ReLU in the place of the sigmoid would scale, as x^2 does; that is no repair."""

    def __init__(self):
        super().__init__()
        self.squeeze, self.gate = nn.Linear(8, 8), nn.Sigmoid()

    def forward(self, x):
        return x * self.gate(self.squeeze(x))


class Plain(nn.Linear):
    pass


IN_THE_WAY = {
    "SiLU": (nn.SiLU, "put nn.ReLU() in its place"),
    "Hardswish": (nn.Hardswish, "put nn.ReLU() in its place"),
    "GELU": (nn.GELU, "put nn.ReLU() in its place"),
    "LayerNorm": (lambda: nn.LayerNorm(8), "set its eps to 0"),
    "Shift": (Shift, "leave it out"),
    "Plain": (lambda: Plain(8, 8), "set its bias to None"),
    "Sigmoid": (Gate, ""),
    "Softmax": (lambda: nn.Softmax(1), "put nn.ReLU() in its place"),
}


@pytest.mark.parametrize("kind", IN_THE_WAY)
def test_what_breaks_the_promise_is_named_with_a_repair_that_works(kind):
    make, repair = IN_THE_WAY[kind]
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Sequential(make()), nn.Linear(8, 3))
    conversion = convert(model, "zero_bias")
    promise = conversion.promise
    assert promise.verdict == "broken"
    assert {b.module for b in promise.breaks} == {kind}
    assert all(b.path.startswith("2.0") for b in promise.breaks)
    assert {b.repair for b in promise.breaks} == {repair}
    assert ("repaired as below it is certified" in promise.reason) == bool(repair)
    x = torch.randn(5, 6)
    with torch.no_grad():
        assert not torch.allclose(conversion.model(x / 64), conversion.model(x) / 64, rtol=1e-4, atol=0)
    # Done by hand, the repair is one.
    if repair:
        broken = conversion.model[2][0]
        if "eps" in repair:
            broken.eps = 0.0
        elif "bias" in repair:
            broken.bias = None
        else:
            conversion.model[2][0] = nn.ReLU() if "ReLU" in repair else nn.Identity()
        assert certify_scaling(conversion.model).verdict == "certified"


def test_a_bias_that_is_zero_now_is_said_to_be_a_value():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), Plain(8, 3))
    nn.init.zeros_(model[2].bias)
    promise = convert(model, "zero_bias").promise
    assert promise.verdict == "certified"
    assert "only as long as constants that are 0 now stay so: Plain at '2'" in promise.reason


class Looks(nn.Module):
    """Scales, and decides by the values of its input what to compute."""

    def forward(self, x):
        return x.sort(1).values if bool((x == x).all()) else x


def test_what_holds_without_a_proof_is_called_measured():
    promise = convert(nn.Sequential(nn.Linear(6, 8), nn.ReLU(), Looks(), nn.Linear(8, 3)), "zero_bias").promise
    assert promise.verdict == "measured"
    assert "measured, not certified: f(s x) departs from multiples of f(x) by " in str(promise)
    assert "e-16; 0 of 8 classes change" in promise.reason
    assert {b.module for b in promise.breaks} == {"Looks"}


class Star(nn.Module):
    def forward(self, x):
        return x * x


def test_degrees_beyond_those_a_counterexample_is_looked_for_are_measured():
    """A bias behind x^16 outweighs everything else, so that no class changes."""
    model = nn.Sequential(nn.Linear(6, 6), Star(), Star(), Star(), Star(), Plain(6, 3))
    nn.init.constant_(model[-1].bias[0], 1e6)
    conversion = convert(model, "zero_bias")
    assert certify_scaling(conversion.model).verdict == "unknown"
    assert conversion.promise.verdict == "broken"
    assert "0 of 8 classes change" in conversion.promise.reason
    assert [(b.path, b.repair) for b in conversion.promise.breaks] == [("5", "set its bias to None")]


def test_of_outputs_that_are_all_zero_nothing_is_told():
    model = nn.Sequential(nn.Linear(6, 8), nn.SiLU(), nn.Linear(8, 3))
    nn.init.zeros_(model[2].weight)
    promise = convert(model, "zero_bias").promise
    assert promise.verdict == "unknown"
    assert "all outputs are 0" in promise.reason
    assert [b.module for b in promise.breaks] == ["SiLU"]


def test_inputs_nobody_described_are_asked_for():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(5, 2)

        def forward(self, x):
            return self.out(x)

    assert "example=x" in convert(Words(), "zero_bias").promise.reason
    assert convert(Words(), "zero_bias").promise.verdict == "unknown"
    assert convert(Words(), "zero_bias", example=torch.randn(3, 5)).promise.verdict == "certified"


def test_farkas_certifies_every_layer_or_names_it():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    promise = convert(model, "farkas").promise
    assert (promise.verdict, promise.breaks) == ("certified", ())
    assert "2 of 2 layers certified" in promise.reason
    mixed = nn.Sequential(nn.Linear(6, 8, bias=False), nn.ReLU(), Plain(8, 8), nn.ReLU(), nn.Linear(8, 3))
    conversion = convert(mixed, "farkas")
    assert conversion.promise.verdict == "broken"
    assert [(b.path, b.module) for b in conversion.promise.breaks] == [("0", "FarkasLinear"), ("2", "Plain")]
    # The one without a bias: at zero none of its units is above 0.
    assert conversion.model[0](torch.zeros(1, 6)).max() == 0


def test_farkas_says_that_batch_norms_come_between():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 1))
    assert "1 batch norms move it" in convert(model, "farkas").promise.reason
    promise = convert(fold_batch_norm(model), "farkas").promise
    assert promise.verdict == "certified"
    assert "batch norm" not in promise.reason


def test_the_others_promise_the_same_function():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    assert convert(model, "geometric").promise.verdict == "exact"
    assert convert(model, "implicit_bias").promise.verdict == "exact"
    coupled = convert(model, "implicit_bias", coupling=-0.3).promise
    assert coupled.verdict == "broken"
    assert [(b.path, b.module, b.reason) for b in coupled.breaks] == [
        ("0", "ImplicitBiasLinear", "coupling -0.3 added to the same weights")
    ]


def departure(model, x):
    """How far f(x / 64) is from f(x) / 64."""
    with torch.no_grad():
        want, got = model(x) / 64, model(x / 64)
    return ((got - want).abs().max() / want.abs().max()).item()


CERTIFIED = ("test_resnet", "regnetx_002")
BROKEN = ("test_efficientnet", "test_byobnet", "test_vit", "hgnetv2_b0", "lcnet_035", "mobilenetv2_035")


@pytest.mark.parametrize("name", [*CERTIFIED, *BROKEN])
def test_timm_networks_keep_the_promise_or_say_what_breaks_it(name):
    model = timm_model(name)
    side = 160 if "vit" in name else 64
    x = torch.randn(2, 3, side, side)
    conversion = convert(model, "zero_bias", example=x)
    promise = conversion.promise
    assert promise.verdict == ("certified" if name in CERTIFIED else "broken")
    assert bool(promise.breaks) == (name in BROKEN)
    assert all(type(conversion.model.get_submodule(b.path)).__name__ == b.module for b in promise.breaks)
    assert (departure(copy.deepcopy(conversion.model).double().eval(), x.double()) < 1e-12) == (name in CERTIFIED)


def test_timm_norms_with_activations_leave_no_batch_norm_behind(tmp_path):
    """test_efficientnet is made of BatchNormAct2d."""
    vision()
    model = stirred(from_source("timm:test_efficientnet", num_classes=5).eval())
    assert "BatchNormAct2d" in {type(module).__name__ for module in model.modules()}
    for way in ("fold", "scale_only", "drop"):
        new = convert(model, "zero_bias", batch_norm=way).model
        assert not [name for name, _ in new.named_buffers() if "running" in name]
        save_model(new, tmp_path / "m.safetensors")
        x = torch.randn(2, 3, 64, 64)
        with torch.no_grad():
            assert torch.equal(load_model(tmp_path / "m.safetensors")(x), new.eval()(x))


@pytest.mark.parametrize("name", ["NormAct", "SyncBatchNormAct", "FrozenBatchNormAct2d"])
def test_timm_kin_of_batch_norm_with_activation(name):
    vision()
    from timm.layers import norm_act

    model = timm_model("test_efficientnet")
    if name == "SyncBatchNormAct":
        model = norm_act.convert_sync_batchnorm(model)
    elif name == "FrozenBatchNormAct2d":
        model = norm_act.freeze_batch_norm_2d(model)
    new = convert(model, "zero_bias", batch_norm="scale_only").model
    left = {type(module).__name__ for module in new.modules()}
    assert not [kind for kind in left if "Norm" in kind]
    folded, x = fold_batch_norm(model.eval()), torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(folded(x), model(x), rtol=1e-3, atol=1e-4)
    assert not [name for name, _ in folded.named_buffers() if "running" in name]


@pytest.mark.parametrize("norm", ["GroupNormAct", "LayerNormAct2d"])
def test_timm_norms_of_single_images_are_named(norm):
    vision()
    from timm.layers import norm_act

    parts = [nn.Conv2d(3, 32, 3), getattr(norm_act, norm)(32), nn.Conv2d(32, 4, 1)]
    conversion = convert(stirred(nn.Sequential(*parts)), "zero_bias", example=torch.randn(2, 3, 8, 8))
    notes = {change.path: change.note for change in conversion.changes}
    assert "does not scale with its input" in notes["1"]
    assert [(b.path, b.module, b.repair) for b in conversion.promise.breaks] == [("1", norm, "")]
