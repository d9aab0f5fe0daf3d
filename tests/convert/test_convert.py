import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

import neuronal
from neuronal.convert import convert, to_standard
from neuronal.convert.convert import largest_difference
from neuronal.nn import (
    ChannelScale,
    FarkasConv2d,
    GeometricConv2d,
    GeometricLinear,
    ImplicitBiasLinear,
    ZeroBiasConv2d,
    ZeroBiasLinear,
)
from neuronal.nn.families import FAMILIES
from tests.convert.test_fold import trained


class Branches(nn.Module):
    """Sequential, ModuleList, ModuleDict, a shared layer, and two layers that share a weight."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU())
        shared = nn.Conv2d(6, 6, 3, padding=1)
        self.blocks = nn.ModuleList([shared, nn.Conv2d(6, 6, 1, bias=False), shared])
        self.named = nn.ModuleDict({"a": nn.Linear(6, 8), "b": nn.Linear(8, 8)})
        self.named["b"].weight.requires_grad_(False)
        self.named.eval()
        self.register_buffer("offset", torch.randn(6, 1, 1))
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        x = self.stem(x) + self.offset
        for block in self.blocks:
            x = block(x).relu()
        x = self.named["b"](self.named["a"](x.mean((2, 3))).relu()).relu()
        return self.out(x)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_old_model_is_untouched_and_the_new_one_works(family):
    model = Branches()
    before = copy.deepcopy(model.state_dict())
    pointers = [p.data_ptr() for p in model.parameters()]
    conversion = convert(model, family)
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    assert pointers == [p.data_ptr() for p in model.parameters()]
    assert type(model.out) is nn.Linear
    y = conversion.model(torch.randn(2, 3, 8, 8))
    y.sum().backward()
    assert y.shape == (2, 4)
    assert all(p.grad is None for p in model.parameters())
    again = convert(model, family).model
    again.load_state_dict(conversion.model.state_dict())


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 2e-6), (torch.float64, 1e-14)])
def test_geometric_weights_are_right_to_a_part_of_their_units_length(dtype, close):
    """Weights of very different sizes: the small ones of a unit lose digits."""
    for inputs in (2, 9, 64, 576):
        layer = nn.Linear(inputs, 32, dtype=dtype)
        layer.weight.data = layer.weight.sign() * torch.exp(4 * torch.randn_like(layer.weight))
        found = GeometricLinear.from_standard(layer).weight
        assert ((found - layer.weight).abs().amax(1) < close * layer.weight.norm(dim=1)).all()


def test_geometric_computes_the_same_and_keeps_flags_buffers_and_sharing():
    model = Branches().double()
    conversion = convert(model, "geometric")
    new = conversion.model
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(new(x), model(x), rtol=1e-11, atol=1e-11)
    assert conversion.exact
    assert type(new.stem[0]) is GeometricConv2d
    assert new.blocks[0] is new.blocks[2]
    assert type(new.named["a"]) is GeometricLinear
    assert not new.named["b"].training
    assert new.training
    assert not any(p.requires_grad for name, p in new.named["b"].named_parameters() if name != "offset")
    assert all(p.requires_grad for p in new.named["a"].parameters())
    assert torch.equal(new.offset, model.offset)
    assert new.offset is not model.offset
    assert type(new.out) is nn.Linear
    left = {change.path: change.note for change in conversion.changes if change.before == change.after}
    assert left == {"out": "left alone: the output layer, whose outputs are logits"}
    assert [c.path for c in conversion.changes] == ["stem.0", "blocks.0", "blocks.1", "named.a", "named.b", "out"]


def test_where_chooses():
    model = Branches()
    conversion = convert(model, "geometric", where=lambda path, layer: isinstance(layer, nn.Linear))
    assert type(conversion.model.stem[0]) is nn.Conv2d
    assert type(conversion.model.out) is GeometricLinear
    left = [c.path for c in conversion.changes if c.note == "left alone: not chosen"]
    assert left == ["stem.0", "blocks.0", "blocks.1"]


def test_zero_bias_drops_biases_and_says_how_large_they_were():
    model = Branches()
    nn.init.zeros_(model.out.bias)
    conversion = convert(model, "zero_bias")
    by_path = {change.path: change for change in conversion.changes}
    assert by_path["blocks.1"].exact
    assert by_path["out"].exact
    assert not by_path["named.a"].exact
    largest = model.named["a"].bias.abs().max().item()
    assert by_path["named.a"].note == f"bias of up to {largest:.2g} dropped"
    assert type(conversion.model.out) is ZeroBiasLinear
    assert type(conversion.model.blocks[1]) is ZeroBiasConv2d
    torch.testing.assert_close(conversion.model.named["a"].weight, model.named["a"].weight)


def test_farkas_says_which_unit_it_replaces():
    conversion = convert(Branches(), "farkas")
    by_path = {change.path: change for change in conversion.changes}
    assert by_path["stem.0"].note == "unit 5, the last, is now minus the mean of the others"
    assert "without biases its promise is not strict" in by_path["blocks.1"].note
    assert not by_path["stem.0"].exact
    assert type(conversion.model.stem[0]) is FarkasConv2d


def test_where_none_can_be_converted_the_first_is_named():
    model = nn.Sequential(nn.ReLU(), nn.Linear(3, 2), nn.Linear(2, 2))
    nn.init.zeros_(model[1].weight)
    nn.init.ones_(model[1].bias)
    with pytest.raises(ValueError, match=r"^1: GeometricLinear cannot represent unit 0: its weights are zero"):
        convert(model, "geometric", where=lambda path, _: path == "1")


def test_implicit_bias_is_the_transfer_mode():
    model = Branches()
    x = torch.randn(2, 3, 8, 8)
    free = convert(model, "implicit_bias", coupling=0.0)
    assert free.exact
    assert torch.equal(free.model(x), model(x))
    coupled = convert(model, "implicit_bias", coupling=-0.3)
    assert not coupled.exact
    assert coupled.changes[0].note == "coupling -0.3 added to the same weights"
    assert type(coupled.model.named["a"]) is ImplicitBiasLinear
    assert torch.equal(coupled.model.named["a"].weight, model.named["a"].weight)
    assert not torch.equal(coupled.model(x), model(x))


def test_parametrised_layers_are_converted_from_the_weights_they_have():
    model = nn.Sequential(parametrizations.weight_norm(nn.Linear(4, 6)), nn.ReLU(), nn.Linear(6, 2))
    conversion = convert(model, "geometric")
    x = torch.randn(3, 4)
    torch.testing.assert_close(conversion.model(x), model(x))
    assert type(conversion.model[0]) is GeometricLinear
    assert conversion.changes[0].before == "Linear"


def test_layers_that_share_a_parameter_go_on_sharing_it_or_are_left_alone():
    def tied():
        model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 4), nn.Linear(4, 7))
        model[2].weight = model[0].weight
        return model

    model = tied()
    kept = convert(model, "zero_bias").model
    assert kept[2].weight is kept[0].weight
    assert kept[2].weight is not model[0].weight
    conversion = convert(model, "geometric", where=lambda path, layer: True)
    assert type(conversion.model[1]) is GeometricLinear
    assert type(conversion.model[2]) is nn.Linear
    assert conversion.model[2].weight is conversion.model[0].weight
    assert conversion.changes[-1].note == "left alone: its parameters are shared with another module"


def test_dtype_and_device_stay():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)).bfloat16()
    assert {p.dtype for p in convert(model, "geometric").model.parameters()} == {torch.bfloat16}
    meta = nn.Sequential(nn.Linear(3, 4, device="meta"), nn.Linear(4, 2, device="meta"))
    for family in ("geometric", "zero_bias", "farkas", "implicit_bias"):
        assert all(p.is_meta for p in convert(meta, family).model.parameters())


def test_wrong_names_and_options_are_refused_before_anything_is_done():
    with pytest.raises(ValueError, match=r"coupling \* slope needs to be below 1"):
        convert(nn.Linear(2, 2), "implicit_bias", coupling=0.5)
    with pytest.raises(TypeError, match="standard layers have no options, got coupling"):
        convert(nn.Linear(2, 2), "standard", coupling=1)


@pytest.mark.parametrize("family", ["geometric", "zero_bias", "farkas"])
def test_to_standard_gives_plain_layers_of_the_same_function(family):
    converted = convert(Branches().double(), family).model
    plain = to_standard(converted)
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(plain(x), converted(x), rtol=1e-11, atol=1e-11)
    assert not any("neuronal" in type(module).__module__ for module in plain.modules())
    assert plain.blocks[0] is plain.blocks[2]


def test_to_standard_writes_couplings_out():
    converted = convert(Branches().double(), "implicit_bias", coupling=-0.3, tolerance=1e-8).model
    plain, x = to_standard(converted), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(plain(x), converted(x), rtol=0, atol=1e-6)
    assert not any("neuronal" in type(module).__module__ for module in plain.modules())
    assert plain.blocks[0] is plain.blocks[2]
    assert type(plain.stem[0][0]) is nn.Conv2d
    assert type(to_standard(convert(Branches(), "implicit_bias", coupling=0.0).model).stem[0]) is nn.Conv2d


def test_to_standard_refuses_a_coupling_of_too_many_steps():
    converted = convert(Branches(), "implicit_bias", coupling=-50.0).model
    with pytest.raises(ValueError, match=r"^stem\.0: a coupling of -50 with slope 10 takes \d+ steps"):
        to_standard(converted)


def test_from_one_family_to_another():
    model = Branches().double()
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    there = convert(convert(model, "geometric").model, "implicit_bias", coupling=0.0).model
    assert not any(isinstance(module, GeometricLinear | GeometricConv2d) for module in there.modules())
    torch.testing.assert_close(there(x), model(x), rtol=1e-11, atol=1e-11)
    again = convert(convert(model, "geometric").model, "geometric")
    assert all(change.before == change.after for change in again.changes)


def network_with_batch_norm():
    parts = [nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.BatchNorm2d(6)]
    return trained(nn.Sequential(*parts, nn.Flatten(), nn.Linear(54, 4))).eval()


@pytest.mark.parametrize("way", ["fold", "scale_only", "drop"])
def test_a_zero_bias_network_scales_with_its_input_whatever_is_done_with_batch_norms(way):
    model = network_with_batch_norm()
    conversion = convert(model, "zero_bias", batch_norm=way)
    new = conversion.model
    x = torch.randn(5, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(new(0.25 * x), 0.25 * new(x), rtol=0, atol=0)
    kinds = [type(new[1]), type(new[4])]
    assert (
        kinds == {"fold": [nn.Identity, ChannelScale], "scale_only": [ChannelScale] * 2, "drop": [nn.Identity] * 2}[way]
    )
    assert not conversion.exact
    if way == "fold":
        scale = model[1].weight / (model[1].running_var + model[1].eps).sqrt()
        torch.testing.assert_close(new[0].weight, model[0].weight * scale.view(-1, 1, 1, 1))
        assert conversion.changes[2].note == "no convolution before it to fold it into: scale kept, shift dropped"


def test_layers_that_are_not_chosen_keep_the_batch_norm_that_follows_in_them():
    model = network_with_batch_norm()
    conversion = convert(model, "zero_bias", where=lambda path, layer: path == "6")
    assert type(conversion.model[0]) is nn.Conv2d
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(conversion.model[:4](x), model[:4](x))


def test_a_coupling_that_is_lost_is_said():
    coupled = convert(Branches(), "implicit_bias", coupling=-0.5).model
    for family in ("standard", "geometric", "zero_bias"):
        conversion = convert(coupled, family)
        assert not conversion.exact
        assert conversion.changes[0].note.startswith("its coupling of -0.5 is lost")
    learnt = convert(Branches(), "implicit_bias", coupling=0.0).model
    nn.init.constant_(learnt.stem[0].raw_coupling, -0.2)
    assert not convert(learnt, "geometric").exact


@pytest.mark.parametrize("family", ["geometric", "zero_bias", "implicit_bias", "farkas"])
def test_a_transformer_computes_the_same_with_and_without_gradients(family):
    """In evaluation without gradients torch's encoder layer has a path of its own that passes its linear layers by."""
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    options = {"coupling": -0.5} if family == "implicit_bias" else {}
    new = convert(model, family, **options).model.eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        quick = new(x)
    torch.testing.assert_close(quick, new(x), rtol=1e-4, atol=1e-5)


def test_differences_of_models_that_return_several_things():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = nn.Linear(3, 2), nn.Linear(3, 4)

        def forward(self, x):
            return {"a": self.one(x), "b": (self.other(x), x.argmax(1))}

    model = Two()
    new = convert(model, "geometric", where=lambda path, _: path == "other").model
    x = torch.randn(5, 3)
    assert largest_difference(model, new, x) < 1e-5
    with torch.no_grad():
        new.other.offset.add_(10)
    assert largest_difference(model, new, x) > 0.1
    with pytest.raises(TypeError, match="it returns no numbers, but str"):
        largest_difference(Said(), Said(), x)


class Said(nn.Module):
    def forward(self, x):
        return "words"


class Mine(nn.Linear):
    pass


class Bent(GeometricLinear):
    def forward(self, x):
        return super().forward(x).sin()


def quantised():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)


def pruned():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    prune.l1_unstructured(model[0], "weight", 0.5)
    with torch.no_grad():
        model(torch.randn(1, 4))
    model[0].weight = model[0].weight.detach()
    return model


LEFT_ALONE = {
    "a subclass": (lambda: nn.Sequential(Mine(4, 4), nn.Linear(4, 2)), "geometric", {"0": "subclass of nn.Linear"}),
    "a subclass of ours": (lambda: nn.Sequential(Bent(4, 4), nn.Linear(4, 2)), "standard", {"0": "a subclass of Geo"}),
    "no such layer": (
        lambda: nn.Sequential(nn.ConvTranspose1d(4, 4, 1), nn.Linear(4, 4), nn.Linear(4, 2)),
        "geometric",
        {"0": "no such layer for ConvTranspose1d"},
    ),
    "inside attention": (
        lambda: nn.Sequential(nn.MultiheadAttention(4, 1), nn.Linear(4, 2)),
        "geometric",
        {"0.out_proj": "subclass of nn.Linear"},
    ),
    "too few units": (
        lambda: nn.Sequential(nn.Linear(4, 1), nn.ReLU(), nn.Linear(1, 3), nn.Linear(3, 2)),
        "farkas",
        {"0": "FarkasLinear needs at least 2"},
    ),
    "an option that does not fit": (
        lambda: nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 6, bias=False), nn.Linear(6, 2)),
        "farkas",
        {"1": "without a bias nothing above 0 can be promised"},
    ),
    "a norm that does not scale": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)),
        "zero_bias",
        {"1": "does not scale with its input"},
    ),
    "quantised": (quantised, "geometric", {"0": "quantised"}),
    "pruned": (pruned, "geometric", {"0": "its weight is made by a hook"}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", LEFT_ALONE)
def test_what_cannot_be_converted_is_left_alone_and_listed(what):
    make, family, expected = LEFT_ALONE[what]
    model, options = make(), {"cutoff": 0.5} if "option" in what else {}
    conversion = convert(model, family, **options)
    notes = {change.path: change.note for change in conversion.changes}
    for path, note in expected.items():
        assert notes[path].startswith("left alone: ")
        assert note in notes[path]
        assert type(conversion.model.get_submodule(path)) is type(model.get_submodule(path))
    others = [m for m in conversion.model.modules() if isinstance(m, FAMILIES[family].Linear) and type(m) is not Bent]
    assert others or what in ("quantised", "pruned", "inside attention", "a subclass")


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("make", [torch.nn.utils.weight_norm, torch.nn.utils.spectral_norm])
@pytest.mark.parametrize("family", ["geometric", "zero_bias"])
def test_weights_made_by_hooks_are_left_alone_or_refused(make, family):
    model = nn.Sequential(make(nn.Conv2d(3, 4, 3)), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 1)).eval()
    x = torch.randn(2, 3, 6, 6)
    with torch.no_grad():
        model(x)
    conversion = convert(model, family)
    assert "its weight is made by a hook" in conversion.changes[0].note
    assert conversion.model(x).isfinite().all()
    # Now the hook has left a weight with a history, which torch does not copy.
    model(x)
    with pytest.raises(ValueError, match=r"torch\.nn\.utils\.parametrizations"):
        convert(model, family)


def test_hooks_and_attributes_stay():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    calls = []
    model[0].register_forward_hook(lambda *a: calls.append("after"))
    model[0].register_forward_pre_hook(lambda *a: calls.append("before"))
    model[0].register_full_backward_hook(lambda *a: calls.append("backward"))
    model[0].label = "first"
    new = convert(model, "geometric").model
    new(torch.randn(1, 3, requires_grad=True)).sum().backward()
    assert calls == ["before", "after", "backward"]
    assert new[0].label == "first"


@pytest.mark.parametrize("family", ["geometric", "zero_bias", "farkas", "implicit_bias"])
def test_a_model_may_be_a_single_layer(family):
    conversion = neuronal.convert(nn.Linear(5, 4), family)
    assert type(conversion.model) is FAMILIES[family].Linear
    assert [change.path for change in conversion.changes] == [""]
    with pytest.raises(TypeError, match="needs a torch module, got NoneType"):
        convert(None, family)
