"""Every supported layer and operation gives the model's own outputs; everything else is refused by name."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from neuronal.convert.sources import from_source
from neuronal.geometry.lowering import NotPiecewiseLinear, lower
from neuronal.geometry.program import Scale, Smooth
from neuronal.nn.farkas import FarkasConv2d
from neuronal.nn.geometric import GeometricConv2d, GeometricLinear
from neuronal.nn.implicit_bias import ImplicitBiasConv2d, ImplicitBiasLinear
from neuronal.nn.norm import ChannelScale, InputMeanNorm, MeanOnlyBatchNorm
from tests.geometry.networks import NAMES, Does, network
from tests.models.networks import small
from tests.vision import vision

LINE, IMAGE, BOX = (2, 9), (2, 8, 9), (2, 5, 6, 4)


def in_place(x):
    y = x * 2
    y += 1
    y.relu_()
    y.mul_(0.5).sub_(0.25)
    return y


def keeps_the_old_value(x):
    y = x.clone()
    y.relu_()
    return x + y


LAYERS = {
    "Linear without bias": ((5,), nn.Linear(5, 3, bias=False)),
    "Linear on positions": ((4, 5), nn.Linear(5, 3)),
    "Linear on positions without bias": ((2, 4, 5), nn.Linear(5, 3, bias=False)),
    "Linear on many positions": ((4, 5), nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 4), nn.Flatten())),
    "Conv1d": (LINE, nn.Conv1d(2, 4, 3, stride=2, padding=1, dilation=2, groups=2)),
    "Conv2d": (IMAGE, nn.Conv2d(2, 4, (3, 2), stride=(1, 2), padding=(2, 1), dilation=(2, 1))),
    "Conv2d same": (IMAGE, nn.Conv2d(2, 4, 3, padding="same", dilation=2)),
    "Conv2d reflect": (IMAGE, nn.Conv2d(2, 4, 3, padding=2, padding_mode="reflect")),
    "Conv2d replicate": (IMAGE, nn.Conv2d(2, 4, 3, padding=1, padding_mode="replicate", bias=False)),
    "Conv3d": (BOX, nn.Conv3d(2, 3, 2, padding=1)),
    "BatchNorm1d": ((5,), nn.BatchNorm1d(5)),
    "BatchNorm1d on lines": (LINE, nn.BatchNorm1d(2, affine=False)),
    "BatchNorm3d": (BOX, nn.BatchNorm3d(2)),
    "InputMeanNorm": (IMAGE, InputMeanNorm(2)),
    "MeanOnlyBatchNorm": (IMAGE, MeanOnlyBatchNorm(2)),
    "ChannelScale": (IMAGE, ChannelScale(torch.tensor([0.5, -2.0]))),
    "Dropout2d": (IMAGE, nn.Dropout2d(0.7)),
    "Identity": ((5,), nn.Sequential(nn.Identity(), nn.Linear(5, 5))),
    "Flatten": (IMAGE, nn.Sequential(nn.Flatten(), nn.Linear(144, 3))),
    "Unflatten": ((12,), nn.Sequential(nn.Unflatten(1, (3, 4)), nn.Conv1d(3, 2, 2))),
    "ReLU": (IMAGE, nn.ReLU()),
    "ReLU in place": (IMAGE, nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU(inplace=True))),
    "ReLU6": (IMAGE, nn.Sequential(ChannelScale(torch.tensor([5.0, 9.0])), nn.ReLU6())),
    "Hardtanh": (IMAGE, nn.Hardtanh(-0.3, 0.8)),
    "Threshold": (IMAGE, nn.Threshold(0, 0)),
    "LeakyReLU": (IMAGE, nn.LeakyReLU(0.1)),
    "LeakyReLU in place": (IMAGE, nn.Sequential(nn.Conv2d(2, 2, 1), nn.LeakyReLU(0.1, inplace=True))),
    "PReLU": (IMAGE, nn.PReLU(init=-0.4)),
    "PReLU for each channel": (IMAGE, nn.PReLU(2)),
    "MaxPool1d": (LINE, nn.MaxPool1d(3, stride=2, padding=1)),
    "MaxPool1d dilated": (LINE, nn.MaxPool1d(2, stride=1, dilation=3, ceil_mode=True)),
    "MaxPool2d ceil": (IMAGE, nn.MaxPool2d(3, stride=2, ceil_mode=True)),
    "MaxPool2d padded": (IMAGE, nn.MaxPool2d((3, 4), stride=(2, 3), padding=(1, 2), dilation=(2, 1))),
    "MaxPool3d": (BOX, nn.MaxPool3d(2, stride=1, padding=1)),
    "AvgPool1d": (LINE, nn.AvgPool1d(3, stride=2, padding=1)),
    "AvgPool2d": (IMAGE, nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)),
    "AvgPool3d": (BOX, nn.AvgPool3d(2)),
    "AdaptiveAvgPool2d": (IMAGE, nn.AdaptiveAvgPool2d((3, 5))),
    "AdaptiveAvgPool2d of one": (IMAGE, nn.AdaptiveAvgPool2d(1)),
    "AdaptiveAvgPool3d": (BOX, nn.AdaptiveAvgPool3d(2)),
    "AdaptiveMaxPool2d": (IMAGE, nn.AdaptiveMaxPool2d((3, 5))),
    "AdaptiveMaxPool2d of one": (IMAGE, nn.AdaptiveMaxPool2d(1)),
    "AdaptiveMaxPool3d": (BOX, nn.AdaptiveMaxPool3d(2)),
    "ZeroPad2d": (IMAGE, nn.ZeroPad2d((1, 2, 0, 3))),
    "ReflectionPad1d": (LINE, nn.ReflectionPad1d(2)),
    "ReplicationPad3d": (BOX, nn.ReplicationPad3d(1)),
    "ChannelShuffle": ((4, 3, 3), nn.ChannelShuffle(2)),
    "PixelShuffle": ((4, 3, 3), nn.PixelShuffle(2)),
    "GeometricLinear with its ReLU": ((5,), GeometricLinear(5, 3, activation="relu")),
    "GeometricConv2d": (IMAGE, GeometricConv2d(2, 3, 3, padding=1, activation="relu")),
    "FarkasConv2d": (IMAGE, FarkasConv2d(2, 4, 3, aggregate="mean", learn_multipliers=True)),
}

FUNCTIONS = {
    "sums": lambda x: 2 - x + 0.5 * x - x / 4 + torch.add(x, x, alpha=3),
    "a constant that broadcasts": lambda x: x[:, :1] * torch.arange(3.0).double().view(3, 1) + torch.ones(3, 1),
    "a sum that broadcasts": lambda x: x[:, :1] + x,
    "negative": lambda x: -x.neg().abs(),
    "absolute": torch.abs,
    "in place": in_place,
    "the old value": keeps_the_old_value,
    "clamp": lambda x: x.clamp(-0.2, 0.7) + x.clamp(min=0.1) + x.clamp(max=-0.1) + x.clamp_min(1.0),
    "clamp by tensors": lambda x: x.clamp(torch.full((9,), -0.3).double(), torch.full((2, 1), 0.3).double()),
    "functional relu": lambda x: (
        F.relu(x) + F.relu6(3 * x) + F.hardtanh(x) + F.leaky_relu(x) + F.relu(x - 1, inplace=True)
    ),
    "functional pools": lambda x: F.max_pool1d(x, 2) + F.avg_pool1d(x, 2),
    "batch norm": lambda x: F.batch_norm(x, torch.ones(2).double(), torch.full((2,), 3.0).double()),
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "maximum": lambda x: torch.maximum(x, -2 * x) + torch.minimum(x, x.flip(2)),
    "reduced maximum": lambda x: x.amax(2) + x.max(dim=2).values + x.amax((1, 2), keepdim=True).squeeze(2),
    "means": lambda x: x.mean(2) + x.sum(-1) + x.mean((1, 2), keepdim=True)[:, 0],
    "cat and split": lambda x: torch.cat(
        [*x.split([3, 6], dim=2), x.chunk(2, dim=2)[1], x.unbind(1)[1].unsqueeze(1).expand(-1, 2, -1)], 2
    ),
    "slices": lambda x: x[:, 1:, ::2] - x[:, :1, 0:5] + x[:, 0, 3:8].unsqueeze(1),
    "moves": lambda x: x.transpose(1, 2).permute(0, 2, 1).contiguous().view(-1, 18).reshape(len(x), 3, 6).flatten(1),
    "stack": lambda x: torch.stack([x, -x], dim=1),
    "expand": lambda x: x[:, :1].expand(-1, 4, -1),
    "pad": lambda x: F.pad(x, (1, 2)) + F.pad(x, (2, 1), mode="reflect"),
    "shape": lambda x: x.view(x.size(0), x.shape[1] * x.shape[2]),
    "concat of relu": lambda x: torch.cat((x.relu(), (-x).relu()), 1),
    "a matrix": lambda x: x @ torch.ones(9, 4).double(),
    "squeeze": lambda x: x[:, :1].squeeze(1) + x[:, 1],
    "squeeze of all": lambda x: x[:, :1].squeeze().view(len(x), -1) + x[:, 1],
}
CASES = {**LAYERS, **{name: (LINE, Does(function)) for name, function in FUNCTIONS.items()}}


def settled(model):
    """In float64, with statistics that are not the ones a norm starts with."""
    torch.manual_seed(1)
    for name, buffer in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.uniform_(0.2, 3)
    return model.double().eval()


def agrees(model, shape, *, tolerance=1e-10, smooth=False):
    program = lower(model, torch.randn(1, *shape, dtype=torch.float64), smooth=smooth)
    assert program.shape == shape
    for rows in (1, 5):
        x = 2 * torch.randn(rows, *shape, dtype=torch.float64)
        with torch.no_grad():
            want = model(x)
        got = program(x)
        assert got.shape == want.shape
        assert not got.requires_grad
        assert (got - want).abs().max() <= tolerance * want.abs().max()
    return program


@pytest.mark.parametrize("case", CASES)
def test_a_program_computes_what_the_model_computes(case):
    shape, model = CASES[case]
    program = agrees(settled(copy.deepcopy(model)), shape)
    live = {0: torch.randn(2, *shape, dtype=torch.float64)}
    for step in program.steps:
        live[step.output] = (
            step.op(*(live[i] for i in step.inputs))
            if hasattr(step.op, "terms")
            else torch.zeros(2, *step.shape, dtype=torch.float64)
        )
        assert live[step.output].shape[1:] == step.shape


@pytest.mark.parametrize("name", NAMES)
def test_networks(name):
    agrees(*network(name))


REGISTRY = [("fcn", "standard"), ("mlp1", "geometric"), ("cnn", "farkas"), ("vgg6", "geometric"), ("ucn", "standard")]
REGISTRY += [("resnet9", "zero_bias"), ("resnet18", "geometric"), ("resnet50", "standard"), ("farkasnet50", "farkas")]
REGISTRY += [("resnet18", "standard", norm) for norm in ("batch", "none", "fixup", "nf", "input_mean", "weight")]


@pytest.mark.parametrize("case", REGISTRY, ids=str)
def test_models_of_the_registry(case):
    model, neuron, *norm = case
    agrees(settled(small(model, neuron, **({"norm": norm[0]} if norm else {}))), (2, 8, 8))


TORCHVISION = ("resnet18", "squeezenet1_1", "densenet121", "shufflenet_v2_x0_5")
TIMM = ("resnet10t", "resnet18d", "repvgg_a0")


@pytest.mark.parametrize(
    "source", [*(f"torchvision:{name}" for name in TORCHVISION), *(f"timm:{name}" for name in TIMM)]
)
def test_models_of_others(source):
    vision()
    agrees(settled(from_source(source, num_classes=5)), (3, 64, 64))


def through_an_alias(x):
    y = x * 1
    view = y[:, :2]
    view.relu_()
    return y


def into_an_output(x):
    y = x * 1
    view = y[:, :2]
    torch.add(x, 1.0, out=y)
    return view.relu()


REFUSED = {
    "GELU at '1'": nn.Sequential(nn.Linear(4, 4), nn.GELU()),
    "Softmax at '1'": nn.Sequential(nn.Linear(4, 4), nn.Softmax(1)),
    "Sigmoid at '0.1'": nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())),
    "SiLU": nn.SiLU(),
    "LayerNorm": nn.LayerNorm(4),
    "ImplicitBiasLinear at '0'": nn.Sequential(ImplicitBiasLinear(4, 4)),
    "BatchNorm1d at '0'.*no others": nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False)),
    "Does computes aten.gt": Does(lambda x: x if (x > 0).any() else -x),
    "Does computes aten.select": Does(lambda x: x if x[0, 0].item() > 0 else -x),
    "out of torch .numpy": Does(lambda x: x if x.numpy().max() < 9 else -x),
    "out of torch .tolist": Does(lambda x: x if max(map(max, x.tolist())) < 9 else -x),
    "out of torch ...array": Does(lambda x: x if np.asarray(x).max() < 9 else -x),
    "Does computes aten.eq": Does(lambda x: x - x.max(1).indices.eq(9).sum()),
    "Does returns whole numbers": Does(lambda x: x.view(-1, 2, 2).sum(2, dtype=torch.int64)),
    "used under another view later": Does(into_an_output),
    "Does returns a tuple": Does(lambda x: (x, x)),
    "Does returns a dict": Does(lambda x: {"out": x}),
    "Does returns a constant": Does(lambda x: torch.ones(len(x), 2)),
    "both depend on the input": Does(lambda x: x * x),
    "changes a tensor in place": Does(through_an_alias),
    "along the batch": Does(lambda x: x - x.mean(0)),
    "along the batch ": Does(lambda x: torch.cat([x, x])),
    "mixes the rows of the batch": Does(lambda x: x.view(-1, 2)),
    "mixes the rows": Does(lambda x: x.view(-1, 2).relu().view(-1, 4)),
    "over the batch too": Does(lambda x: x - x.max()),
    "moves the batch": Does(lambda x: x.permute(1, 0)),
    "with rounding": Does(lambda x: torch.div(x, 2, rounding_mode="floor")),
    "which jumps": nn.Threshold(0.1, 0.0),
    "changes the precision": Does(lambda x: x.float()),
    "of the input with a constant": Does(lambda x: torch.cat([x, torch.ones(len(x), 1)], 1)),
    "for each row of the batch": Does(lambda x: x + torch.arange(len(x) * 4.0).view(len(x), 4)),
    "aten.sort": Does(lambda x: x.sort(1).values),
    "draws random numbers": Does(lambda x: x + torch.rand(4)),
    "in a way that is not seen": Does(lambda x: x + nn.Parameter(x)),
    "was not understood": Does(lambda x: x * (2.0 if len(x) == 1 else 1.0)),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_not_supported_is_named(message):
    with pytest.raises(NotPiecewiseLinear, match=message.strip()) as error:
        lower(REFUSED[message].double(), torch.randn(1, 4, dtype=torch.float64))
    if message not in ("was not understood",):
        assert "Supported: Linear" in str(error.value)
        assert error.value.operation


def test_parts_with_inputs_of_another_shape_are_refused_too():
    with pytest.raises(NotPiecewiseLinear, match=r"MultiheadAttention at 'self_attn'|TransformerEncoderLayer"):
        lower(nn.TransformerEncoderLayer(8, 2, batch_first=True), torch.randn(1, 3, 8))
    with pytest.raises(NotPiecewiseLinear, match=r"ConvTranspose2d.*transposed"):
        lower(nn.ConvTranspose2d(2, 2, 3), torch.randn(1, *IMAGE))
    with pytest.raises(NotPiecewiseLinear, match="InstanceNorm2d"):
        lower(nn.InstanceNorm2d(2), torch.randn(1, *IMAGE))
    with pytest.raises(ValueError, match="batch dimension"):
        lower(nn.Linear(4, 4), torch.randn(4))


SMOOTH = {
    "ImplicitBiasLinear": ((5,), ImplicitBiasLinear(5, 6, coupling=-0.4)),
    "ImplicitBiasLinear that repels": ((5,), ImplicitBiasLinear(5, 6, coupling=0.05)),
    "ImplicitBiasLinear on positions": ((3, 5), ImplicitBiasLinear(5, 6, coupling=-0.4)),
    "ImplicitBiasConv2d": (IMAGE, ImplicitBiasConv2d(2, 3, 3, coupling=-0.4, per_channel=True)),
    "Tanh": (IMAGE, nn.Tanh()),
    "Sigmoid": (IMAGE, nn.Sigmoid()),
}


@pytest.mark.parametrize("case", SMOOTH)
def test_smooth_parts_are_steps_where_they_are_asked_for(case):
    shape, model = SMOOTH[case]
    model = nn.Sequential(settled(model), nn.ReLU())
    program = agrees(model, shape, smooth=True)
    (step,) = (step for step in program.steps if isinstance(step.op, Smooth))
    x = torch.randn(40, *step.shape, dtype=torch.float64)
    y, off = step.op.apply(x)
    steps = (y[1:] - y[:-1]).flatten(1).norm(dim=1) / (x[1:] - x[:-1]).flatten(1).norm(dim=1)
    assert steps.max() <= step.op.constant
    assert 0 < off < 1e-2
    with pytest.raises(NotPiecewiseLinear, match="Supported: Linear"):
        lower(model, x[:1].new_zeros(1, *shape))


def test_a_program_does_not_follow_the_model_when_it_learns():
    model = nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.BatchNorm1d(4)).double()
    program = lower(model, torch.randn(1, 4))
    x = torch.randn(3, 4, dtype=torch.float64)
    before = program(x)
    with torch.no_grad():
        for tensor in (*model.parameters(), model[2].running_mean):
            tensor.add_(1)
    assert torch.equal(program(x), before)


def test_values_are_freed_when_nobody_reads_them_any_more():
    model, shape = network("residual")
    program = lower(model, torch.randn(1, *shape))
    last_read = {i: step.output for step in program.steps for i in step.inputs}
    freed = {i: step.output for step in program.steps for i in step.frees}
    last_read.pop(program.output, None)
    assert freed == last_read


def test_what_nobody_reads_is_left_out():
    program = lower(Does(lambda x: (x.relu(), x + 1)[1]), torch.randn(1, 4))
    assert [type(step.op) for step in program.steps] == [Scale]


class OtherForOneRow(nn.Module):
    """Another network for a single row than for several."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        y = self.inner(x)
        return -y if len(x) == 1 else y


def test_a_model_that_treats_one_row_in_another_way_is_told_whichever_row_is_zero():
    """The outputs of some rows are all 0, which is minus itself."""
    for direction in torch.randn(20, 3, generator=torch.Generator().manual_seed(1)):
        model = OtherForOneRow(nn.Sequential(nn.Linear(3, 1, bias=False), nn.ReLU(), nn.Linear(1, 2, bias=False)))
        model.inner[0].weight.data = direction.view(1, 3)
        with pytest.raises(NotPiecewiseLinear, match="was not understood"):
            lower(model, torch.randn(2, 3))


ONE_ROW = {
    "negated": lambda x, y: -y,
    "negated where no probe is": lambda x, y: y - 2 * y * (x[:, :1] - 1e6).relu(),
    "moved numbers": lambda x, y: y.flip(1),
    "another slope": lambda x, y: F.leaky_relu(y, 0.01),
    "another mean": lambda x, y: y.mean(1, keepdim=True) + 0 * y,
    "nothing of the input": lambda x, y: torch.ones(1, 2, dtype=x.dtype),
    "another weight in its last digit": lambda x, y: y * (1 + 2**-52),
}


@pytest.mark.parametrize("how", ONE_ROW)
def test_a_model_with_other_steps_for_one_row_is_refused_whatever_its_outputs_are(how):
    """The outputs of the network are 0 at all probes: only its steps tell."""

    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2, bias=False)).double()
            self.inner[0].bias.data -= 1e6

        def forward(self, x):
            y = self.inner(x).relu()
            return ONE_ROW[how](x, y) if len(x) == 1 else y + 0 * y

    model = Other()
    with pytest.raises(NotPiecewiseLinear):
        lower(model, torch.randn(2, 3))
    assert not model(torch.randn(100, 3).double()).any()


def test_steps_are_the_same_whatever_way_torch_takes_for_one_row():
    """A bias is added inside of a product or after it, numbers are copied or not: the contiguity of one row decides."""
    agrees(nn.Sequential(Does(lambda x: x[:, 1:]), nn.Linear(9, 2).double()), (4, 9))
    agrees(Does(lambda x: x[:, 1:].transpose(1, 2).reshape(len(x), -1) + x[:, 1:].reshape(len(x), -1)), (5, 4))
