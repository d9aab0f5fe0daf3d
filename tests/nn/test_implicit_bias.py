import copy
import pickle
import warnings

import pytest
import torch
from torch import nn

from neuronal.nn import ImplicitBiasConv1d, ImplicitBiasConv2d, ImplicitBiasConv3d, ImplicitBiasLinear

KINDS = [
    (ImplicitBiasLinear, nn.Linear(6, 9), (4, 6)),
    (ImplicitBiasConv1d, nn.Conv1d(3, 5, 3, padding=1), (2, 3, 12)),
    (ImplicitBiasConv2d, nn.Conv2d(3, 5, 3, stride=2, padding=1), (2, 3, 9, 8)),
    (ImplicitBiasConv3d, nn.Conv3d(2, 3, 3), (2, 2, 5, 6, 5)),
]


def coupled(z, coupling, slope):
    """The right side of the equation, units of the last dimension coupled with each other."""
    return coupling * (slope * (z.unsqueeze(-2) - z.unsqueeze(-1))).tanh().mean(-1)


@pytest.mark.parametrize(("kind", "plain", "shape"), KINDS)
@pytest.mark.parametrize("coupling", [-0.5, 0.05])
def test_the_output_solves_the_equation_over_the_right_units(kind, plain, shape, coupling):
    """Linear: all units of a sample. Convolutions: all positions of one channel of one sample."""
    plain = plain.double()
    layer = kind.from_standard(plain, coupling=coupling, tolerance=1e-10)
    x = torch.randn(shape, dtype=torch.float64)
    a, z = plain(x), layer(x)
    if len(shape) > 2:
        a, z = a.flatten(2), z.flatten(2)
    torch.testing.assert_close(z, a - coupled(z, coupling, 10.0), rtol=0, atol=1e-9)


@pytest.mark.parametrize(("kind", "plain", "shape"), KINDS)
def test_coupling_zero_is_the_plain_layer_to_the_last_bit(kind, plain, shape):
    plain = plain.float()
    x = torch.randn(shape)
    for learnt in (True, False):
        layer = kind.from_standard(plain, coupling=0.0, learn_coupling=learnt)
        assert torch.equal(layer(x), plain(x))
        assert torch.equal(layer.to_standard()(x), plain(x))


@pytest.mark.parametrize(("kind", "plain", "shape"), KINDS)
def test_checkpoints_of_the_plain_layer_load(kind, plain, shape):
    plain = plain.float()
    layer = kind.from_standard(plain, coupling=-0.3)
    nn.init.zeros_(layer.weight)
    layer.load_state_dict(plain.state_dict())
    assert torch.equal(layer.weight, plain.weight)
    assert layer.coupling.item() == pytest.approx(-0.3)
    again = kind.from_standard(plain, coupling=-0.7)
    again.load_state_dict(layer.state_dict())
    assert again.coupling.item() == pytest.approx(-0.3)


@pytest.mark.parametrize("steps", [1, 3])
def test_steps_are_plain_iterations_from_the_plain_output(steps):
    layer = ImplicitBiasConv2d(2, 3, 3, steps=steps, coupling=-0.2, dtype=torch.float64)
    x = torch.randn(2, 2, 6, 6, dtype=torch.float64)
    a = layer.to_standard()(x).flatten(2)
    z = a
    for _ in range(steps):
        z = a - coupled(z, -0.2, 10.0)
    torch.testing.assert_close(layer(x).flatten(2), z, rtol=0, atol=1e-10)


def test_solve_shows_how_it_went():
    layer = ImplicitBiasConv2d(3, 4, 5, coupling=-0.5, padding="same")
    x = torch.randn(2, 3, 12, 12)
    solution = layer.solve(x)
    assert solution.value.shape == (8, 144)
    assert solution.converged.all()
    assert (solution.residual <= layer.tolerance).all()
    torch.testing.assert_close(solution.value.view(2, 4, 12, 12), layer(x))


def test_a_solve_that_does_not_converge_warns_once_and_is_counted():
    layer = ImplicitBiasLinear(3, 20, coupling=-2.0)
    layer.tolerance = 1e-20
    x = torch.randn(5, 3)
    with pytest.warns(
        RuntimeWarning, match=r"ImplicitBiasLinear: 5 of 5 solves did not reach tolerance 1e-20 \(residual"
    ):
        layer(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(x)
    assert layer.num_unconverged == 10


@pytest.mark.filterwarnings("ignore:ImplicitBiasLinear")
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_the_count_goes_with_a_copy_but_not_into_a_checkpoint(copied):
    layer, x = ImplicitBiasLinear(3, 20, coupling=-2.0), torch.randn(5, 3)
    layer.tolerance = 1e-20
    with torch.inference_mode():
        z = layer(x)
    other = copied(layer)
    assert torch.equal(other(x), z)
    assert (layer.num_unconverged, other.num_unconverged) == (5, 10)
    assert [*layer.state_dict()] == ["weight", "bias", "raw_coupling", "log_slope"]
    assert not list(layer.buffers())


def test_transforms_leave_the_count_alone():
    layer, x = ImplicitBiasLinear(3, 20, coupling=-2.0), torch.randn(5, 3)
    layer.tolerance = 1e-20
    torch.func.vmap(layer)(x.unsqueeze(1))
    torch.func.grad(lambda x: layer(x).sum())(x)
    torch.compile(layer, fullgraph=True, backend="aot_eager")(x)
    torch.export.export(layer, (x,)).module()(x)
    layer.to("meta")(x.to("meta"))
    assert layer.num_unconverged == 0


def test_learnt_couplings_cannot_leave_the_region_of_unique_solutions():
    layer = ImplicitBiasLinear(3, 6, coupling=0.05, learn_slope=True)
    assert layer.coupling.item() == pytest.approx(0.05)
    for raw in (-3.0, 0.0, 0.1, 100.0):
        for log_slope in (-3.0, 0.0, 5.0):
            nn.init.constant_(layer.raw_coupling, raw)
            nn.init.constant_(layer.log_slope, log_slope)
            assert (layer.coupling * layer.slope).item() <= 0.9 * (1 + 1e-6)
            assert layer(torch.randn(2, 3)).isfinite().all()


def test_one_coupling_per_channel():
    layer = ImplicitBiasConv2d(2, 3, 3, coupling=-0.5, per_channel=True, dtype=torch.float64, tolerance=1e-10)
    with torch.no_grad():
        layer.raw_coupling.copy_(torch.tensor([0.0, -0.5, 0.05]))
    x = torch.randn(2, 2, 6, 6, dtype=torch.float64)
    a, z = layer.to_standard()(x).flatten(2), layer(x).flatten(2)
    for channel, coupling in enumerate(layer.coupling.tolist()):
        own = z[:, channel]
        torch.testing.assert_close(own, a[:, channel] - coupled(own, coupling, 10.0), rtol=0, atol=1e-9)
    z.square().sum().backward()
    assert layer.raw_coupling.grad.shape == (3,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coupling": 0.2}, r"coupling \* slope needs to be below 1"),
        ({"coupling": 0.095}, r"a learnt coupling needs to start below 0\.9 / slope = 0\.09"),
        ({"slope": 0.0}, "slope needs to be above 0"),
        ({"steps": 0}, r"steps needs to be None \(solve\) or at least 1, got 0"),
        ({"tolerance": 0.0}, "tolerance needs to be above 0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ImplicitBiasLinear(3, 4, **options)


def test_a_slope_that_is_not_learnt_is_saved_loaded_and_moved_like_one_that_is():
    layer = ImplicitBiasLinear(3, 6, coupling=-0.5, slope=7.0)
    learnt = ImplicitBiasLinear(3, 6, coupling=-0.5, slope=7.0, learn_slope=True)
    other = ImplicitBiasLinear(3, 6)
    for one in (learnt, other):
        one.load_state_dict(layer.state_dict())
        assert torch.equal(one.slope, layer.slope)
    assert torch.equal(layer.state_dict()["log_slope"], learnt.log_slope)
    assert torch.equal(layer.double().slope, learnt.double().slope)
    assert layer.to("meta").slope.is_meta
    layer.to_empty(device="cpu").reset_parameters()
    assert layer.slope.item() == pytest.approx(7)


def test_a_slope_of_several_numbers_does_not_load():
    state = ImplicitBiasLinear(3, 6).state_dict()
    state["log_slope"] = torch.zeros(2)
    with pytest.raises(RuntimeError, match=r"log_slope: needs one number, got shape \(2,\)\."):
        ImplicitBiasLinear(3, 6).load_state_dict(state)


@pytest.mark.parametrize(("kind", "plain", "shape"), KINDS)
@pytest.mark.parametrize("options", [{"coupling": -0.5}, {"coupling": 0.08}, {"coupling": -0.2, "steps": 2}])
def test_unrolled_layers_are_plain_modules_of_the_same_function(kind, plain, shape, options):
    layer = kind.from_standard(plain.double(), tolerance=1e-8, **options)
    if kind is not ImplicitBiasLinear and "steps" not in options:
        layer = kind.from_standard(plain, tolerance=1e-8, per_channel=True, **options)
        with torch.no_grad():
            layer.raw_coupling[0] = -1.5
    x = torch.randn(shape, dtype=torch.float64)
    unrolled = layer.eval().unrolled()
    torch.testing.assert_close(unrolled(x), layer(x), rtol=0, atol=2e-8)
    assert not unrolled.training
    stored = pickle.dumps(unrolled)
    assert b"neuronal" not in stored
    assert torch.equal(pickle.loads(stored)(x), unrolled(x))


def test_unrolled_in_other_precisions_and_without_a_coupling():
    layer, x = ImplicitBiasLinear(6, 9, coupling=-0.5).bfloat16(), torch.randn(4, 6).bfloat16()
    torch.testing.assert_close(layer.unrolled()(x), layer(x), rtol=0.02, atol=0.02)
    layer = ImplicitBiasLinear(6, 9, coupling=-0.5, tolerance=1e-9)
    z = layer.unrolled().double()(x.double())
    assert z.dtype == torch.float64
    torch.testing.assert_close(z, layer.double()(x.double()), rtol=0, atol=1e-6)
    assert type(ImplicitBiasLinear(6, 9).unrolled()) is nn.Linear


def test_a_coupling_of_too_many_steps_is_not_unrolled():
    with pytest.raises(ValueError, match=r"^a coupling of -50 with slope 10 takes \d+ steps, .* 1000 .*torch\.export"):
        ImplicitBiasLinear(3, 6, coupling=-50.0).unrolled()


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(("kind", "plain", "shape"), KINDS)
def test_what_is_traced_holds_for_other_inputs(kind, plain, shape):
    layer = kind.from_standard(plain.float(), coupling=-0.5, tolerance=1e-5).eval()
    with pytest.warns(
        torch.jit.TracerWarning, match=r"ImplicitBias\w+: the trace holds coupling and slope as constants"
    ):
        traced = torch.jit.trace(layer, torch.randn(shape))
    x = 3 * torch.randn(7, *shape[1:])
    torch.testing.assert_close(traced(x), layer(x), rtol=0, atol=1e-4)
    assert "neuronal::" not in str(traced.inlined_graph)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_loaded_layer_has_the_slope_of_the_one_that_was_saved_in_higher_precision_too(dtype):
    saved, loaded = (ImplicitBiasLinear(5, 4, coupling=-0.4, dtype=dtype) for _ in range(2))
    loaded.load_state_dict(saved.state_dict())
    assert torch.equal(saved.double().slope, loaded.double().slope)
