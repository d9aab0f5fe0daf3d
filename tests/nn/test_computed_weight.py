"""Weights and biases that are computed, written to as torch's own are: torch's layer says what has to come out."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn import init
from torch.nn.utils import prune

from neuronal import nn as ours

FAMILIES = ("Geometric", "Farkas")
SHAPES = {"Linear": (5, 4), "Conv1d": (5, 4, 3), "Conv2d": (5, 4, 3), "Conv3d": (5, 4, 3)}
EVERY = [pytest.param(family, shape, id=family + shape) for family in FAMILIES for shape in SHAPES]
ONE_EACH = [pytest.param(family, "Conv2d", id=family) for family in FAMILIES]
INIT = {
    "uniform_": (-0.2, 0.3),
    "normal_": (0.0, 0.02),
    "trunc_normal_": (0.0, 0.5),
    "constant_": (0.3,),
    "ones_": (),
    "zeros_": (),
    "eye_": (),
    "dirac_": (),
    "xavier_uniform_": (),
    "xavier_normal_": (),
    "kaiming_uniform_": (),
    "kaiming_normal_": (),
    "orthogonal_": (0.1,),
    "sparse_": (0.5,),
}


def pair(family, shape, **options):
    """A layer of ours and torch's own."""
    made = getattr(ours, family + shape)(*SHAPES[shape], **options)
    return made, getattr(nn, shape)(*SHAPES[shape], **options)


def assert_took(layer, plain, name="weight"):
    """Farkas layers take all rows but the last, which balances them."""
    found, wanted = getattr(layer, name), getattr(plain, name)
    if type(layer).__name__.startswith("Farkas"):
        torch.testing.assert_close(found[:-1], wanted[:-1], rtol=0, atol=0)
        if name == "weight":
            torch.testing.assert_close(found[-1], -layer.balance.base * found[:-1].sum(0))
    else:
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "shape", "name"),
    [
        pytest.param(*one.values, name, id=f"{one.id}-{name}")
        for one in EVERY
        for name in INIT
        if name not in (("dirac_",) if one.values[1] == "Linear" else ("eye_", "sparse_"))
    ],
)
def test_init_takes_effect(family, shape, name):
    layers = pair(family, shape)
    for layer in layers:
        torch.manual_seed(3)
        returned = getattr(init, name)(layer.weight, *INIT[name])
        assert torch.equal(returned.detach(), layer.weight.detach())
    assert_took(*layers)
    x = torch.randn(2, 5, *(6,) * (layers[1].weight.dim() - 2))
    layers[1].weight.data, layers[1].bias.data = layers[0].weight.detach() + 0, layers[0].bias.detach() + 0
    torch.testing.assert_close(layers[0](x), layers[1](x))


@pytest.mark.parametrize(("family", "shape"), EVERY)
@pytest.mark.parametrize("name", ["constant_", "ones_", "zeros_", "uniform_", "normal_"])
def test_init_of_biases_takes_effect(family, shape, name):
    layers = pair(family, shape)
    for layer in layers:
        torch.manual_seed(3)
        getattr(init, name)(layer.bias, *INIT[name])
    assert_took(*layers, "bias")


def no_grad(write):
    return torch.no_grad()(write)


def keep_and_change_twice(layer):
    kept = layer.weight
    layer.weight.mul_(3)
    kept[0] = 1


def multiply(layer):
    layer.weight *= 2
    layer.bias += 1


def rows(layer):
    for row in layer.weight:
        row.fill_(0.5)


def replace_data(layer):
    layer.weight.data = torch.full_like(layer.weight, 0.2)


def step(layer):
    own = layer.weight.detach().requires_grad_()
    optimiser = torch.optim.SGD([own], lr=0.5)
    own.square().sum().backward()
    optimiser.step()


WRITES = {
    "data": lambda layer: layer.weight.data.normal_(0, 0.02, generator=torch.Generator().manual_seed(1)),
    "data of the bias": lambda layer: layer.bias.data.fill_(0.01),
    "detached": lambda layer: layer.weight.detach()[:2].mul_(3),
    "data of a view": lambda layer: layer.weight.flatten(1).data.T[1:].zero_(),
    "data replaced": replace_data,
    "copy": no_grad(
        lambda layer: layer.weight.copy_(torch.linspace(-1, 1, layer.weight.numel()).view_as(layer.weight))
    ),
    "a unit": no_grad(lambda layer: layer.weight.__setitem__(0, 2.0)),
    "a place of each": no_grad(lambda layer: layer.weight.view(4, -1).__setitem__((slice(None), 1), 2.0)),
    "units in turn": no_grad(rows),
    "operators": no_grad(multiply),
    "out": no_grad(lambda layer: torch.full(layer.weight.shape, 0.4, out=layer.weight)),
    "several at once": no_grad(lambda layer: torch._foreach_mul_([layer.weight, layer.bias], 2.0)),
    "in-place function": no_grad(lambda layer: nn.functional.relu(layer.weight, inplace=True)),
    "assignment": lambda layer: (
        setattr(layer, "weight", torch.ones_like(layer.weight).detach())
        if not isinstance(layer.weight, nn.Parameter)
        else layer.weight.data.fill_(1)
    ),
    "kept and written after others": no_grad(keep_and_change_twice),
    "an optimiser on a detached leaf": step,
    "inference": torch.inference_mode()(lambda layer: init.ones_(layer.weight)),
    "clipping": no_grad(lambda layer: layer.weight.clamp_(-0.01, 0.01)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize(("family", "shape"), EVERY)
def test_every_way_of_writing_takes_effect(family, shape, write):
    layer, plain = pair(family, shape)
    with torch.no_grad():
        plain.weight.copy_(layer.weight)
        plain.bias.copy_(layer.bias)
    before = copy.deepcopy(layer)
    for one in (layer, plain):
        write(one)
    assert_took(layer, plain)
    assert_took(layer, plain, "bias")
    assert any(not torch.equal(p, q) for p, q in zip(layer.parameters(), before.parameters(), strict=True))


def test_geometric_units_not_written_to_stay_bit_for_bit():
    layer = ours.GeometricConv2d(5, 4, 3)
    with torch.no_grad():
        layer.scale.copy_(torch.tensor([1.0, -2.0, 0.0, 3.0]))
        layer.offset.normal_()
        before = copy.deepcopy(layer)
        layer.weight[0] = 1
        layer.bias[3] = 0
    assert torch.equal(layer.delta[1:], before.delta[1:])
    assert torch.equal(layer.scale[1:], before.scale[1:])
    assert torch.equal(layer.offset[1:3], before.offset[1:3])


def test_a_unit_of_weights_zero_keeps_a_direction_of_its_own():
    layer = ours.GeometricLinear(5, 4)
    directions = layer.direction()
    init.zeros_(layer.weight)
    assert torch.equal(layer.direction(), directions)
    assert not layer.scale.any()


def test_a_scale_below_zero_behind_a_relu_within_the_layer_stays_so():
    layer, x = ours.GeometricLinear(5, 4, activation="relu"), torch.randn(3, 5)
    with torch.no_grad():
        layer.scale.copy_(torch.tensor([1.0, -2.0, -0.5, 3.0]))
        layer.offset.normal_()
        before = layer(x)
        layer.weight.mul_(2)
        layer.bias.mul_(2)
    torch.testing.assert_close(layer(x), 2 * before)


def test_what_no_geometric_unit_can_be_is_refused_in_one_line_and_nothing_changes():
    layer = ours.GeometricLinear(5, 4)
    init.zeros_(layer.weight)
    for write in (init.ones_, lambda bias: init.constant_(bias, -0.01)):
        with pytest.raises(ValueError, match=r"cannot represent unit 0: its weights are zero.*its bias is") as refused:
            write(layer.bias)
        assert "\n" not in str(refused.value)
        assert not layer.bias.any()
    init.ones_(layer.weight)
    init.ones_(layer.bias)
    with pytest.raises(ValueError, match="Keep that layer as it is, its bias at zero"):
        init.zeros_(layer.weight)
    torch.testing.assert_close(layer.weight, torch.ones(4, 5))
    plain = nn.Linear(5, 4)
    init.zeros_(plain.weight)
    init.constant_(plain.bias, -1)
    with pytest.raises(RuntimeError, match="cannot represent unit 0"):
        layer.load_state_dict(plain.state_dict())


@pytest.mark.parametrize(("family", "shape"), ONE_EACH)
def test_with_gradients_on_a_write_is_an_error_as_for_a_parameter(family, shape):
    layer, _ = pair(family, shape)
    before = layer.weight.detach().clone()
    writes = [lambda w: w.mul_(2), lambda w: w.__setitem__(0, 1), lambda w: nn.functional.relu(w, inplace=True)]
    for write in writes:
        with pytest.raises(RuntimeError, match=r"weight of .* requires grad.*torch.no_grad\(\)"):
            write(layer.weight)
    assert torch.equal(layer.weight, before)
    with pytest.raises(RuntimeError, match=r"Use layer.requires_grad_\(False\)"):
        layer.weight.requires_grad_(False)
    assert layer.weight.requires_grad_() is not None
    layer.requires_grad_(False).weight.mul_(2)
    torch.testing.assert_close(layer.weight, 2 * before)


@pytest.mark.parametrize(("family", "shape"), ONE_EACH)
def test_what_is_read_is_a_plain_tensor_to_everybody_else(family, shape):
    layer, _ = pair(family, shape)
    weight = layer.weight
    assert all(
        type(one) is torch.Tensor for one in (weight + 1, weight.sum(), weight.clone(), weight.detach().double())
    )
    assert type(pickle.loads(pickle.dumps(weight.detach()))) is torch.Tensor
    assert type(copy.deepcopy(weight.detach())) is torch.Tensor
    assert repr(weight).startswith("tensor(")
    array = weight.detach().numpy()
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    assert type(torch.func.vmap(torch.sum)(weight)) is torch.Tensor
    expected = torch.autograd.grad(layer._weight().square().sum(), list(layer.parameters()), allow_unused=True)
    found = torch.autograd.grad(weight.square().sum(), list(layer.parameters()), allow_unused=True)
    assert all(a is b or torch.equal(a, b) for a, b in zip(found, expected, strict=True))

    def reads(x):
        return nn.functional.conv2d(x, layer.weight, layer.bias)

    x = torch.randn(2, 5, 6, 6)
    torch.testing.assert_close(torch.compile(reads, backend="aot_eager", fullgraph=True)(x), layer(x))
    values = {name: p.detach() for name, p in layer.named_parameters()}

    def size(values):
        return torch.func.functional_call(Weight(layer), {f"layer.{k}": v for k, v in values.items()}, ())

    grads = torch.func.grad(size)(values)
    for (name, _), g in zip(layer.named_parameters(), expected, strict=True):
        torch.testing.assert_close(grads[name], torch.zeros_like(grads[name]) if g is None else g)


class Weight(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self):
        return self.layer.weight.square().sum()


@pytest.mark.parametrize(("family", "shape"), EVERY)
def test_assignment(family, shape):
    layer, plain = pair(family, shape)
    layer.weight = plain.weight.detach()
    layer.bias = plain.bias.detach()
    assert_took(layer, plain)
    assert_took(layer, plain, "bias")
    bare, _ = pair(family, shape, bias=False)
    bare.bias = None
    refused = {
        r"layer.weight = tensor.detach\(\) takes the values; tie plain": lambda: setattr(layer, "weight", plain.weight),
        r"cannot be a parameter or share one. layer.weight = tensor.detach\(\)": lambda: setattr(
            layer, "weight", plain.weight * 2
        ),
        "needs a tensor, got None. Make the layer with bias=False": lambda: setattr(layer, "bias", None),
        "needs a tensor, got None": lambda: setattr(layer, "weight", None),
        "needs a tensor, got int": lambda: setattr(layer, "weight", 3),
        "was made with bias=False and takes no bias": lambda: setattr(bare, "bias", plain.bias.detach()),
    }
    for message, write in refused.items():
        with pytest.raises(TypeError, match=message) as error:
            write()
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"needs shape \(4,\), got \(3,\)"):
        layer.bias = torch.zeros(3)
    assert_took(layer, plain)


@pytest.mark.parametrize("name", ["weight", "bias"])
@pytest.mark.parametrize(("family", "shape"), EVERY)
def test_pruning_is_refused_in_one_line_and_leaves_the_layer_as_it_is(family, shape, name):
    layer, _ = pair(family, shape)
    before, state = getattr(layer, name).clone(), layer.state_dict()
    with pytest.raises(
        TypeError, match=rf"^{name} of \w+ is computed and cannot be pruned\. .* to_standard\(\) gives\.$"
    ):
        prune.l1_unstructured(layer, name, 0.5)
    assert torch.equal(getattr(layer, name), before)
    assert layer.state_dict().keys() == state.keys()
    assert not layer._forward_pre_hooks
    prune.l1_unstructured(layer.to_standard(), name, 0.5)


@pytest.mark.parametrize("how", [{}, {"strict": False}, {"assign": True}])
@pytest.mark.parametrize(("family", "shape"), EVERY)
def test_the_state_of_the_plain_layer_loads(family, shape, how):
    layer, plain = pair(family, shape)
    model, other = nn.Sequential(layer, nn.ReLU()), nn.Sequential(plain, nn.ReLU())
    state = other.state_dict()
    assert str(model.load_state_dict(state, **how)) == "<All keys matched successfully>"
    assert list(state) == ["0.weight", "0.bias"]
    assert_took(layer, plain)
    assert_took(layer, plain, "bias")
    wrong = getattr(nn, shape)(6, 7, *SHAPES[shape][2:])
    messages = []
    for one in (layer, plain):
        with pytest.raises(RuntimeError, match="size mismatch") as error:
            one.load_state_dict(wrong.state_dict())
        messages.append(str(error.value).split("\n")[1:])
    assert messages[0] == messages[1]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "bias"\.'):
        layer.load_state_dict({"weight": plain.weight})
    bare, _ = pair(family, shape, bias=False)
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "bias"\.'):
        bare.load_state_dict(plain.state_dict())
    assert bare.load_state_dict(plain.state_dict(), strict=False).unexpected_keys == ["bias"]
    assert_took(bare, plain)


def test_a_grouped_farkas_layer_loads_and_has_no_weight_to_write_to():
    layer, plain = ours.FarkasConv2d(4, 6, 3, groups=2), nn.Conv2d(4, 6, 3, groups=2)
    layer.load_state_dict(plain.state_dict())
    assert torch.equal(layer.rows, plain.weight[:-1])
    assert not hasattr(layer, "weight")


def test_numbers_of_a_balance_from_before_they_were_vectors_load():
    layer = ours.FarkasLinear(5, 4)
    state = layer.state_dict()
    assert state["balance.last"].shape == (1,)
    layer.load_state_dict({**state, "balance.last": torch.tensor(0.25)})
    assert torch.equal(layer.balance.last, torch.tensor([0.25]))


def test_farkas_layers_have_no_buffers():
    """Opacus and others refuse layers to be trained that have any."""
    for bias in (True, False):
        layer = ours.FarkasLinear(5, 4, bias=bias).double()
        assert not list(layer.buffers())
        assert layer.balance.multipliers.dtype == torch.float64
        assert layer.promise().dtype == torch.float64
        assert layer.to("meta").balance.multipliers.is_meta


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature")
@pytest.mark.parametrize("family", ["Farkas", "ImplicitBias"])
def test_complex_numbers_are_refused_in_one_line(family):
    cls = getattr(ours, family + "Linear")
    for make in (lambda: cls(5, 4, dtype=torch.complex64), lambda: cls(5, 4).to(torch.complex64)):
        with pytest.raises(TypeError, match=r"^\w+ compares its units and needs a real dtype, got torch.complex64\.$"):
            make()


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("family", ["Geometric", "Farkas", "ImplicitBias"])
def test_layers_without_inputs_or_outputs(family):
    cls = getattr(ours, family + "Linear")
    plain = nn.Linear(0, 5)
    layer = cls.from_standard(plain)
    torch.testing.assert_close(layer(torch.randn(3, 0))[:, :4], plain(torch.randn(3, 0))[:, :4])
    assert cls(0, 5)(torch.randn(3, 0)).isfinite().all()
    assert cls(4, 0)(torch.randn(3, 4)).shape == (3, 0)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("shape", ["Conv2d", "Conv3d"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_in_channels_last_gives_such_outputs(family, shape, groups):
    order = {"Conv2d": torch.channels_last, "Conv3d": torch.channels_last_3d}[shape]
    plain = getattr(nn, shape)(4, 6, 3, groups=groups)
    x = torch.randn(2, 4, *(5,) * (plain.weight.dim() - 2))
    layer = getattr(ours, family + shape).from_standard(plain)
    y = layer(x)
    assert y.is_contiguous()
    assert plain.to(memory_format=order)(x).is_contiguous(memory_format=order)
    made = [layer.to(memory_format=order), copy.deepcopy(layer), type(layer).from_standard(plain)]
    made.append(pickle.loads(pickle.dumps(layer)).to("cpu"))
    for one in made:
        assert one(x).is_contiguous(memory_format=order)
        torch.testing.assert_close(one(x)[:, :-1], y[:, :-1])
    assert layer.to(memory_format=torch.contiguous_format)(x).is_contiguous()
