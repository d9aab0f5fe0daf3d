import pytest
import torch
from torch import nn

from neuronal.models.registry import create_model
from neuronal.models.resnet import Residual
from neuronal.nn import FarkasBasicBlock, Multiplier, ScaledResidual
from neuronal.nn.families import FAMILIES
from tests.models.networks import RESNETS, count, small

TORCHVISION = {"resnet18": 11_689_512, "resnet34": 21_797_672, "resnet50": 25_557_032}
TORCHVISION |= {"resnet101": 44_549_160, "resnet152": 60_192_808}


@pytest.mark.parametrize(("name", "parameters"), TORCHVISION.items())
def test_as_many_parameters_as_torchvisions(name, parameters):
    assert count(name, num_classes=1000, img_size=224) == parameters
    stem = 64 * 3 * (49 - 9)
    assert count(name, num_classes=1000, img_size=32) == parameters - stem
    assert count(name, num_classes=1000, img_size=32, stem="imagenet") == parameters


@pytest.mark.parametrize("name", RESNETS)
def test_the_name_counts_the_layers_along_the_path(name):
    net = small(name, "zero_bias", norm="none")
    shortcuts = [m for m in net.modules() if isinstance(m, Residual) and m.shortcut is not None]
    convs = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert f"resnet{len(convs) - len(shortcuts) + 1}" == name


@pytest.mark.parametrize(("model", "neuron"), [("resnet18", "standard"), ("farkasnet18", "farkas")])
@pytest.mark.parametrize(
    ("img_size", "stem", "side"), [(32, None, 32), (128, None, 32), (32, "imagenet", 8), (128, "cifar", 128)]
)
def test_large_images_are_made_smaller_first(model, neuron, img_size, stem, side):
    net = create_model(model, neuron, num_classes=3, img_size=img_size, width=8, stem=stem).eval()
    block, sizes = next(m for m in net.modules() if isinstance(m, Residual | FarkasBasicBlock)), []
    block.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].shape[-1]))
    assert net(torch.zeros(1, 3, img_size, img_size)).shape == (1, 3)
    assert sizes == [side]


def test_an_ordinary_basic_block_by_hand():
    net = small("resnet18", norm="batch")
    block = net.features.stage2[0]
    x = torch.randn(3, 4, 8, 8)
    conv1, norm1, _, conv2, norm2 = block.branch
    branch = norm2(conv2(norm1(conv1(x)).relu()))
    conv, norm = block.shortcut
    torch.testing.assert_close(block(x), (norm(conv(x)) + branch).relu())
    assert (conv1.stride, conv2.stride, conv.stride) == ((2, 2), (1, 1), (2, 2))
    bottleneck = small("resnet50", norm="none").features.stage2[0].branch
    assert [m.stride[0] for m in bottleneck if isinstance(m, nn.Conv2d)] == [1, 2, 1]


@pytest.mark.parametrize("neuron", FAMILIES)
@pytest.mark.parametrize("model", ["resnet9", "resnet50"])
def test_fixup_branches_add_nothing_at_first(model, neuron):
    net = small(model, neuron, norm="fixup")
    blocks = [m for m in net.modules() if isinstance(m, Residual)]
    added = []
    for block in blocks:
        assert isinstance(block.branch[-1], Multiplier)
        block.branch.register_forward_hook(lambda branch, inputs, output: added.append(output))
    assert net(torch.randn(2, 2, 8, 8)).eq(0).all()
    assert len(added) == len(blocks)
    # The last bias of a Farkas layer is strict, so its last channel starts at a small constant.
    assert all(z[:, :-1].eq(0).all() for z in added)
    assert neuron == "farkas" or all(z[:, -1].eq(0).all() for z in added)
    net.reset_classifier(4)
    assert all(p.eq(0).all() for p in net.head.parameters())


def test_fixup_draws_less_the_more_branches_there_are():
    net = create_model("resnet50", norm="fixup", width=32)
    conv = net.features.stage2[1].branch[2]
    assert conv.weight.std().item() == pytest.approx((2 / (9 * 64)) ** 0.5 * 16**-0.25, rel=0.02)


def test_nf_keeps_variance():
    """resnet50 at its start: after every block the variance is what the next one divides by, or not far from it."""
    net = create_model("resnet50", norm="nf")
    seen = []
    for block in net.modules():
        if isinstance(block, ScaledResidual):
            block.register_forward_hook(lambda block, _, output: seen.append((output.var().item(), block.out_variance)))
    with torch.no_grad():
        net(torch.randn(2, 3, 24, 24))
    assert len(seen) == 16
    assert all(0.3 < variance < 3 for variance, _ in seen)
    assert all(variance / expected == pytest.approx(1, abs=0.4) for variance, expected in seen)


def test_nf_variance_is_counted_from_stage_to_stage():
    net = small("resnet18", norm="nf")
    blocks = [m for m in net.modules() if isinstance(m, ScaledResidual)]
    expected = [1, 1.04] + 3 * [1.08, 1.04]
    assert [block.beta**-2 for block in blocks] == pytest.approx(expected)
    assert [block.shortcut is not None for block in blocks] == [False, False] + 3 * [True, False]


def test_other_depths_of_a_network():
    net = create_model("resnet34", width=4, depths=(5, 5, 5), norm="none")
    assert [len(stage) for name, stage in net.features.named_children() if name.startswith("stage")] == [5, 5, 5]
    assert net.num_features == 16
    assert count("resnet18", width=4) == count("resnet18", width=4, depths=(2, 2, 2, 2))
