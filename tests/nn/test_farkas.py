import pytest
import torch
from torch import nn
from torch.nn import functional as F

from neuronal.nn import FarkasConv1d, FarkasConv2d, FarkasConv3d, FarkasLinear

CONV = {"stride": 2, "padding": 1, "dilation": 2}
KINDS = [
    (FarkasLinear, (6, 4), {}, (5, 6)),
    (FarkasConv1d, (4, 6, 3), {**CONV, "padding_mode": "reflect"}, (2, 4, 9)),
    (FarkasConv2d, (4, 6, (3, 2)), {**CONV, "padding_mode": "circular"}, (2, 4, 9, 8)),
    (FarkasConv2d, (4, 6, 3), {**CONV, "groups": 2}, (2, 4, 9, 8)),
    (FarkasConv2d, (4, 8, 1), {"groups": 4}, (4, 9, 8)),
    (FarkasConv3d, (4, 6, 3), {}, (2, 4, 5, 6, 7)),
]
OPTIONS = [{}, {"aggregate": "mean"}, {"learn_multipliers": True, "cutoff": 0.5}, {"rule": "max"}, {"bias": False}]


def algorithm_1(layer, x):
    """The paper's algorithm in the space of outputs: y, minus the aggregate of y, then the biases."""
    m, balance = layer.num_units, layer.balance
    padded = torch.cat([layer.rows, torch.zeros_like(layer.rows[:1])])
    free = torch.func.functional_call(layer._plain_with(padded, None), {"weight": padded}, x)
    dim = free.dim() - 1 if isinstance(layer, FarkasLinear) else free.dim() - (layer.rows.dim() - 2) - 1
    y = free.movedim(dim, -1)[..., : m - 1]
    lam = torch.ones(m - 1, dtype=x.dtype) / (m - 1 if balance.aggregate == "mean" else 1)
    if balance.log_multipliers is not None:
        lam = lam * balance.log_multipliers.exp()
    out = torch.cat([y, -(y * lam).sum(-1, keepdim=True)], -1)
    if balance.offsets is not None:
        needed = -(balance.offsets * lam).sum() + balance.cutoff * (lam.sum() + 1)
        if balance.rule == "max":
            last = torch.maximum(needed, balance.last)
        else:
            last = needed + torch.log1p(balance.last.exp()) + balance.margin
        out = out + torch.cat([balance.offsets, last.view(1)])
    return out.movedim(-1, dim)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("kind", "arguments", "conv", "shape"), KINDS)
def test_weights_and_outputs_give_the_same_layer(kind, arguments, conv, shape, options):
    layer = kind(*arguments, **conv, **options, dtype=torch.float64)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    x = torch.randn(shape, dtype=torch.float64)
    expected = algorithm_1(layer, x)
    torch.testing.assert_close(layer(x), expected, rtol=1e-10, atol=1e-11)
    back = layer.to_standard()
    torch.testing.assert_close(back(x), expected, rtol=1e-10, atol=1e-11)
    assert not any("neuronal" in type(m).__module__ for m in back.modules())
    ours = torch.autograd.grad(layer(x).square().sum(), list(layer.parameters()))
    theirs = torch.autograd.grad(expected.square().sum(), list(layer.parameters()))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("rule", ["softplus", "max"])
def test_from_standard_keeps_every_unit_but_the_last(rule):
    plain = nn.Conv2d(3, 5, 3, padding=1)
    layer = FarkasConv2d.from_standard(plain, rule=rule)
    x = torch.randn(2, 3, 6, 6)
    torch.testing.assert_close(layer(x)[:, :-1], plain(x)[:, :-1])
    torch.testing.assert_close(layer.weight[-1], -plain.weight[:-1].mean(0))
    assert layer.promise().isfinite()
    # The paper's last bias is a free parameter, and taken over.
    assert rule == "softplus" or torch.equal(layer.balance.last, plain.bias[-1:])


def test_no_dead_parameter():
    """With the paper's maximum the free last bias has no gradient while it loses; ours always has one."""
    x = torch.randn(5, 3)
    grads = {}
    for rule in ("max", "softplus"):
        layer = FarkasLinear(3, 4, rule=rule)
        nn.init.constant_(layer.balance.last, -3.0)
        nn.init.constant_(layer.balance.offsets, -1.0)
        layer(x).sum().backward()
        grads[rule] = layer.balance.last.grad.item()
    assert grads["max"] == 0
    assert grads["softplus"] > 0


def test_learnt_multipliers_start_at_the_aggregate_and_stay_positive():
    layer = FarkasLinear(3, 5, aggregate="mean", learn_multipliers=True)
    torch.testing.assert_close(layer.balance.multipliers, torch.full((4,), 0.25))
    nn.init.normal_(layer.balance.log_multipliers, std=5)
    assert (layer.balance.multipliers > 0).all()
    layer(torch.randn(2, 3)).square().sum().backward()
    assert layer.balance.log_multipliers.grad.abs().sum() > 0


def test_starts_like_the_plain_layer():
    layer = FarkasLinear(100, 401)
    plain = nn.Linear(100, 400)
    assert layer.rows.std().item() == pytest.approx(plain.weight.std().item(), rel=0.02)
    assert layer.balance.offsets.abs().max() <= 0.1
    assert F.softplus(layer.balance.last).item() == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 0.0}, r"margin needs to be above 0, got 0\.0\. rule='max'"),
        ({"margin": float("nan")}, "margin and cutoff need to be finite"),
        ({"cutoff": float("nan")}, "margin and cutoff need to be finite"),
        ({"rule": "max", "margin": 0.1}, "rule='max' has no margin"),
        ({"rule": "min"}, "rule needs to be 'softplus' or 'max', got 'min'"),
        ({"aggregate": "median"}, "aggregate needs to be 'sum' or 'mean', got 'median'"),
        ({"bias": False, "margin": 0.1}, "without a bias nothing above 0 can be promised"),
        ({"bias": False, "cutoff": 1.0}, "without a bias nothing above 0 can be promised"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FarkasLinear(3, 4, **options)
    with pytest.raises(ValueError, match=r"FarkasLinear needs at least 2 outputs .* got 1\. Use nn\.Linear"):
        FarkasLinear(3, 1)
    # A grouped layer has no single weight.
    assert not hasattr(FarkasConv2d(4, 4, 3, groups=2), "weight")


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("options", [*OPTIONS, {"cutoff": 1.0}, {"bias": False, "cutoff": -1.0}])
def test_a_layer_without_units_is_that_of_torch_and_promises_nothing(options):
    layer, has_bias = FarkasLinear(4, 0, **options), options.get("bias", True)
    plain, x, own = nn.Linear(4, 0, bias=has_bias), torch.randn(3, 4), {**options}
    own.pop("bias", None)
    assert layer.promise() == -torch.inf
    layer.load_state_dict(plain.state_dict())
    for one in (layer, FarkasLinear.from_standard(plain, **own), layer.to_standard()):
        assert one(x).shape == (3, 0)
        assert one.weight.shape == (0, 4)
        assert one.bias.shape == (0,) if has_bias else one.bias is None
    layer(x).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
    with torch.no_grad():
        layer.weight.zero_()
    assert not layer.departure(plain)
