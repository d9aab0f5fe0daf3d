import pytest
import torch
from torch import nn

from neuronal.models.resnet import Residual
from neuronal.nn import FarkasBasicBlock, FarkasBottleneck, FarkasConv2d, FarkasResidual
from tests.models.networks import FARKASNETS, count, small


@pytest.mark.parametrize("neuron", ["farkas", "standard"])
@pytest.mark.parametrize("name", FARKASNETS)
def test_as_many_parameters_as_the_resnet_of_the_same_number(name, neuron):
    resnet = count(name.replace("farkas", "res"), norm="none", stem="cifar")
    assert count(name, neuron) / resnet == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("name", FARKASNETS)
def test_as_deep_as_the_resnet_of_the_same_number(name):
    net = small(name, "farkas")
    assert f"farkasnet{sum(isinstance(m, FarkasConv2d | nn.Conv2d | nn.Linear) for m in net.modules())}" == name


@pytest.mark.parametrize(("number", "parameters"), [(18, 304_255), (34, 525_864), (50, 1_520_000), (101, 2_826_000)])
def test_the_published_networks_have_the_published_parameters(number, parameters):
    # Those of bottlenecks are published in thousands.
    digits = -3 if number >= 50 else 0
    assert round(count(f"farkasnet{number}", "farkas", published=True), digits) == parameters


@pytest.mark.parametrize("rule", ["softplus", "max"])
@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("aggregate", ["sum", "mean"])
@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("name", ["farkasnet18", "farkasnet50"])
def test_some_unit_is_active_before_every_relu(name, norm, aggregate, published, rule):
    net = small(name, "farkas", norm=norm, aggregate=aggregate, published=published, rule=rule)
    alive = []

    def look(relu, inputs):
        alive.append((inputs[0] > 0).any(dim=1).all().item())

    relus = [m for m in net.modules() if isinstance(m, nn.ReLU)]
    for relu in relus:
        relu.register_forward_pre_hook(look)
    for x in (torch.randn(3, 2, 8, 8), torch.zeros(2, 2, 8, 8), -100 * torch.rand(2, 2, 8, 8)):
        net(x)
    assert alive == [True] * len(alive)
    assert len(alive) == 3 * len(relus)
    closed = [m for m in net.modules() if isinstance(m, FarkasConv2d | FarkasResidual)]
    assert len(relus) == len(closed)
    assert all(m.balance.rule == rule for m in closed)
    # By the paper's rule, that no unit is above 0 is left to exceptional inputs.
    assert all(m.promise() > (0 if rule == "softplus" else -1e-6) for m in closed)


def test_batch_norm_has_no_parameters_and_stands_after_every_relu():
    net = small("farkasnet18", "farkas", norm="batch")
    order = [m for m in net.modules() if isinstance(m, nn.ReLU | nn.BatchNorm2d)]
    assert [type(m) for m in order[::2]] == [nn.ReLU] * (len(order) // 2)
    assert all(isinstance(m, nn.BatchNorm2d) and not m.affine for m in order[1::2])


@pytest.mark.parametrize("name", ["farkasnet18", "farkasnet50"])
def test_zero_last(name):
    net = small(name, "farkas", zero_last=True)
    blocks = [m for m in net.modules() if isinstance(m, FarkasBasicBlock | FarkasBottleneck)]
    assert blocks
    assert all(block.branch[-1].weight.eq(0).all() for block in blocks)
    plain = [m for m in small(name, "standard", zero_last=True).modules() if isinstance(m, Residual)]
    assert len(plain) == len(blocks)
    assert all(p.eq(0).all() for block in plain for p in block.branch[-1].parameters())


@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("name", ["farkasnet18", "farkasnet50"])
def test_with_standard_units_it_is_the_same_network_without_the_units_that_balance(name, norm):
    """With its last unit made of the others by hand, a standard network computes what the FarkasNet does."""
    farkas, plain = (small(name, neuron, norm=norm).double().eval() for neuron in ("farkas", "standard"))
    convs = [m for m in plain.modules() if isinstance(m, nn.Conv2d)]
    parts = [m for m in farkas.modules() if isinstance(m, FarkasConv2d | nn.Conv2d)]
    assert len(convs) == len(parts)
    with torch.no_grad():
        for conv, part in zip(convs, parts, strict=True):
            conv.weight.copy_(part.weight)
            conv.bias.copy_(part.bias if part.bias is not None else torch.zeros_like(conv.bias))
        plain.head.load_state_dict(farkas.head.state_dict())
    x = torch.randn(3, 2, 8, 8, dtype=torch.float64)
    # Where blocks do not close their sums, both compute the same.
    for block in farkas.modules():
        if isinstance(block, FarkasBasicBlock | FarkasBottleneck):
            block.close = nn.Identity()
    torch.testing.assert_close(plain(x), farkas(x))


def test_blocks_per_stage_can_be_chosen():
    net = small("farkasnet18", "farkas", depths=(1, 2))
    assert sum(isinstance(m, FarkasBasicBlock) for m in net.modules()) == 3
    assert net.num_features == 16
