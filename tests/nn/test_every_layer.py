"""What every layer of ours can do, whatever its neuron."""

import copy
import io

import pytest
import torch
from torch import nn

from neuronal import nn as ours
from neuronal.nn.families import FAMILIES

SHAPES = {"Linear": ((6, 5), (3, 6)), "Conv1d": ((4, 6, 3), (2, 4, 9)), "Conv2d": ((4, 6, 3), (2, 4, 9, 8))}
SHAPES["Conv3d"] = ((4, 6, 3), (2, 4, 5, 6, 7))
NEURONS = {
    name: {kind: getattr(entry, kind) for kind in SHAPES} for name, entry in FAMILIES.items() if name != "standard"
}
NEURONS["scaled_standardised"] = {kind: getattr(ours, f"ScaledStandardised{kind}") for kind in SHAPES}
EVERY = [pytest.param(n, k, id=f"{n}-{k}") for n in NEURONS for k in SHAPES]
ONE_EACH = [pytest.param(n, "Conv2d", id=n) for n in NEURONS]
# Without coupling there would be nothing to solve; differences and comparisons in float64 need a solution as exact.
BASE = {"implicit_bias": {"coupling": -0.5}}
EXACT = {"implicit_bias": {"tolerance": 1e-11}}
OPTIONS = {
    "implicit_bias": [{"steps": 1}, {"learn_slope": True, "per_channel": True}],
    "geometric": [{"activation": "relu"}],
    "farkas": [{"aggregate": "mean", "learn_multipliers": True}, {"aggregate": "mean", "rule": "max"}],
}


def make(neuron, kind, **options):
    arguments, shape = SHAPES[kind]
    options = {"dtype": torch.float64, **BASE.get(neuron, {}), **options}
    if options["dtype"] == torch.float64:
        options = {**EXACT.get(neuron, {}), **options}
    layer = NEURONS[neuron][kind](*arguments, **options)
    return layer, torch.randn(shape, dtype=options["dtype"], device=options.get("device"))


@pytest.mark.parametrize(("neuron", "kind"), EVERY)
def test_gradients_by_differences(neuron, kind):
    for options in ({}, *OPTIONS.get(neuron, ())):
        layer, x = make(neuron, kind, **options)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        names = [name for name, _ in layer.named_parameters()]

        def f(x, *values, layer=layer, names=names):
            return torch.func.functional_call(layer, dict(zip(names, values, strict=True)), x)

        values = tuple(p.detach().requires_grad_() for p in layer.parameters())
        assert torch.autograd.gradcheck(f, (x.requires_grad_(), *values), fast_mode=True)


@pytest.mark.parametrize("fan_in", [27, 576, 4608])
@pytest.mark.parametrize("neuron", NEURONS)
def test_float32_against_float64(neuron, fan_in):
    """Relative to the size of the output; 1e-5 is what rounding of 4608 terms and of stored angles comes to."""
    high = NEURONS[neuron]["Linear"](fan_in, 16, dtype=torch.float64, **BASE.get(neuron, {}))
    low = copy.deepcopy(high).float()
    high.load_state_dict(low.state_dict())
    x = torch.randn(32, fan_in)
    exact = high(x.double())
    # A solved layer is as exact as its tolerance, 1e-4 of max(1, max|a|), and a is at most 0.5 larger than z.
    error = 2e-4 * (exact.abs().max() + 0.5).clamp_min(1) if neuron == "implicit_bias" else 1e-5 * exact.abs().max()
    assert (low(x).double() - exact).abs().max() < error


@pytest.mark.parametrize(("neuron", "kind"), EVERY)
def test_state_dict_loads_with_weights_only(neuron, kind):
    layer, x = make(neuron, kind)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other, _ = make(neuron, kind)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(x), layer(x))


@pytest.mark.parametrize(("neuron", "kind"), ONE_EACH)
def test_autocast_keeps_float32_parameters_and_computes_the_map_low(neuron, kind):
    for options in ({}, {"groups": 2}, *OPTIONS.get(neuron, ())):
        layer, x = make(neuron, kind, dtype=torch.float32, **options)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = layer(x)
        assert y.dtype == torch.bfloat16
        torch.testing.assert_close(y.float(), layer(x), rtol=0.05, atol=0.05)
        y.float().sum().backward()
        assert all(p.grad.dtype == torch.float32 for p in layer.parameters())


@pytest.mark.parametrize(("neuron", "kind"), EVERY)
def test_conversion_keeps_flags_and_leaves_the_random_state_alone(neuron, kind):
    plain = getattr(nn, kind)(*SHAPES[kind][0])
    plain.weight.requires_grad_(False)
    state = torch.get_rng_state()
    layer = NEURONS[neuron][kind].from_standard(plain.eval())
    assert torch.equal(torch.get_rng_state(), state)
    assert not layer.training
    trained = {name for name, p in layer.named_parameters() if p.requires_grad}
    assert trained <= {"offset", "bias", "balance.offsets", "balance.last"}
    assert bool(trained) == (layer.bias is not None)


@pytest.mark.parametrize(("neuron", "kind"), ONE_EACH)
def test_channels_last_is_kept(neuron, kind):
    layer, x = make(neuron, kind, dtype=torch.float32)
    expected = layer(x)
    layer = layer.to(memory_format=torch.channels_last)
    y = layer(x.to(memory_format=torch.channels_last))
    assert y.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(y, expected)


@pytest.mark.parametrize(("neuron", "kind"), EVERY)
def test_compiles_without_a_break(neuron, kind):
    """The graph of forward and backward is captured whole; the code generator behind it is torch's affair."""
    for options in ({}, *OPTIONS.get(neuron, ())):
        layer, x = make(neuron, kind, **options)
        torch._dynamo.reset()
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x), layer(x))
        expected = torch.autograd.grad(layer(x).square().sum(), list(layer.parameters()))
        found = torch.autograd.grad(compiled(x).square().sum(), list(layer.parameters()))
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize(("neuron", "kind"), EVERY)
def test_exports(neuron, kind):
    layer, x = make(neuron, kind)
    program = torch.export.export(layer.eval(), (x,))
    torch.testing.assert_close(program.module()(x), layer(x))


@pytest.mark.parametrize(("neuron", "kind"), EVERY)
def test_made_without_memory_then_filled(neuron, kind):
    layer, _ = make(neuron, kind, device="meta")
    assert all(p.is_meta for p in layer.parameters())
    layer = layer.to_empty(device="cpu")
    for module in layer.modules():
        module.reset_parameters()
    _, x = make(neuron, kind)
    assert layer(x).isfinite().all()
    assert 0.01 < layer(x).std() < 10


@pytest.mark.parametrize(("neuron", "kind"), EVERY)
def test_nothing_outside_the_state_dict_is_needed(neuron, kind):
    """Made without memory, or moved through another dtype, and loaded, a layer is what its state says."""
    for options in ({}, *OPTIONS.get(neuron, ())):
        layer, x = make(neuron, kind, **options)
        empty = make(neuron, kind, device="meta", **options)[0].to_empty(device="cpu")
        moved = make(neuron, kind, **options)[0].bfloat16().double()
        for other in (empty, moved):
            other.load_state_dict(layer.state_dict())
            assert torch.equal(other(x), layer(x))


@pytest.mark.parametrize(("neuron", "kind"), [p for p in EVERY if p.values[0] != "implicit_bias"])
def test_per_sample_gradients(neuron, kind):
    layer, x = make(neuron, kind)
    parameters = {name: p.detach() for name, p in layer.named_parameters()}

    def loss(values, sample):
        return torch.func.functional_call(layer, values, sample.unsqueeze(0)).square().sum()

    grads = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
    for i, sample in enumerate(x):
        one = torch.autograd.grad(layer(sample.unsqueeze(0)).square().sum(), list(layer.parameters()))
        for (name, _), g in zip(layer.named_parameters(), one, strict=True):
            torch.testing.assert_close(grads[name][i], g)


@pytest.mark.parametrize(("neuron", "kind"), EVERY)
def test_the_repr_rebuilds_in_the_mind(neuron, kind):
    layer, _ = make(neuron, kind)
    plain = getattr(nn, kind)(*SHAPES[kind][0], bias=layer.bias is not None)
    assert repr(layer).startswith(f"{type(layer).__name__}(")
    assert plain.extra_repr() in repr(layer)


@pytest.mark.parametrize("neuron", NEURONS)
def test_wrong_input_is_torchs_error_with_the_name_of_the_layer(neuron):
    layer, _ = make(neuron, "Linear", dtype=torch.float32)
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        layer(torch.randn(3, 7))
    with pytest.raises(RuntimeError, match=r"must have the same dtype|Double|double"):
        layer(torch.randn(3, 6, dtype=torch.float64))
    layer, _ = make(neuron, "Conv2d", dtype=torch.float32)
    ours = rf"^{type(layer).__name__}\(4, 6, kernel_size=\(3, 3\)"
    with pytest.raises(RuntimeError, match=rf"{ours}.*expected input.* to have 4 channels, but got 5"):
        layer(torch.randn(2, 5, 9, 9))


@pytest.mark.parametrize(("neuron", "kind"), EVERY)
def test_arguments_come_in_torchs_order_and_options_by_name(neuron, kind):
    from inspect import Parameter, signature

    plain = list(signature(getattr(nn, kind)).parameters)
    found = signature(NEURONS[neuron][kind]).parameters
    assert list(found)[: len(plain)] == plain
    assert all(p.kind is Parameter.KEYWORD_ONLY for p in list(found.values())[len(plain) :])


def saved_bytes(layer, x):
    """Bytes of tensors of at least the size of the input that are kept for the backward pass."""
    kept = {}

    def pack(tensor):
        if tensor.numel() >= x.numel():
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = layer(x)
    del y
    return sum(kept.values())


@pytest.mark.parametrize("neuron", NEURONS)
def test_no_copy_of_the_activations_is_kept(neuron):
    x = torch.randn(16, 8, 32, 32, requires_grad=True)
    layer = NEURONS[neuron]["Conv2d"](8, 8, 3, padding=1)
    plain = saved_bytes(nn.Conv2d(8, 8, 3, padding=1), x)
    assert plain == x.nbytes
    # A solved layer keeps its solution, which is the input of what follows anyway.
    assert saved_bytes(layer, x) == plain * (2 if neuron == "implicit_bias" else 1)


@pytest.mark.parametrize("neuron", [name for name in NEURONS if name != "zero_bias"])
def test_an_input_on_another_device_names_the_layer(neuron):
    """The meta device stands for any other, as every machine has it; torch's layers without a bias do not mind it."""
    layer, x = make(neuron, "Linear", dtype=torch.float32)
    with pytest.raises(RuntimeError, match=rf"^{type(layer).__name__}\(.*device"):
        layer(x.to("meta"))


@pytest.mark.parametrize(
    ("neuron", "kind", "options"),
    [*((n, k, {}) for n in NEURONS for k in SHAPES), ("implicit_bias", "Conv2d", {"steps": 2})],
)
def test_what_follows_may_change_the_output_in_place(neuron, kind, options):
    """As torch's own layers allow: ``nn.ReLU(inplace=True)``."""
    layer, x = make(neuron, kind, **options)
    x.requires_grad_()
    found = []
    for relu in (nn.ReLU(inplace=True), nn.ReLU()):
        (g,) = torch.autograd.grad(relu(layer(x)).square().sum(), x)
        found.append(g)
    torch.testing.assert_close(*found)
