"""The models people have: each converted to every family."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from neuronal.convert import convert, fold_batch_norm, load_model, save_model, to_standard
from neuronal.convert.convert import largest_difference
from neuronal.convert.sources import from_source
from neuronal.names import UnknownName
from tests.vision import vision

TORCHVISION = ("resnet18", "vgg11_bn", "mobilenet_v3_small", "convnext_tiny", "densenet121", "shufflenet_v2_x0_5")
TIMM = ("resnet18", "nf_resnet50", "vit_tiny_patch16_224", "efficientnet_b0", "regnety_002")
SOURCES = [*(f"torchvision:{name}" for name in TORCHVISION), *(f"timm:{name}" for name in TIMM)]
FAMILIES = ("geometric", "zero_bias", "farkas", "implicit_bias")
# Two small ones meet every family, the others one each.
SMALL = ("torchvision:mobilenet_v3_small", "timm:vit_tiny_patch16_224")


@pytest.fixture(scope="module", autouse=True)
def one_process(tmp_path_factory):
    """A group of one process: what DistributedDataParallel asks for."""
    store = tmp_path_factory.mktemp("ddp") / "store"
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def made(source, **arguments):
    vision()
    torch.manual_seed(0)
    # A large fully connected part makes vgg slow to convert and nothing else.
    if "vgg" in source:
        model = from_source(source)
        model.classifier[0], model.classifier[3] = nn.Linear(512 * 49, 64), nn.Linear(64, 64)
        model.classifier[6] = nn.Linear(64, 10)
        return model
    return from_source(source, **arguments)


def images(source, count=2):
    side = 224 if "vit" in source else 32
    return torch.randn(count, 3, side, side)


@pytest.mark.parametrize("source", SOURCES)
def test_geometric_is_the_same_function(source):
    model = made(source).eval()
    x = images(source)
    conversion = convert(model, "geometric")
    assert largest_difference(model, conversion.model, x) <= 1e-4
    assert conversion.exact
    changed = [change for change in conversion.changes if change.after.startswith("Geometric")]
    # nf_resnet50 is made of a subclass of Conv2d throughout.
    assert bool(changed) == ("nf_" not in source)
    exact = copy.deepcopy(model).double()
    assert largest_difference(exact, convert(exact, "geometric").model, x.double()) <= 1e-11


def cases():
    for i, source in enumerate(SOURCES):
        for j, family in enumerate(FAMILIES):
            is_slow = source not in SMALL and i % len(FAMILIES) != j
            yield pytest.param(source, family, marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.parametrize(("source", "family"), list(cases()))
def test_every_family_trains_and_its_state_loads(source, family):
    model = made(source)
    options = {"coupling": -0.1} if family == "implicit_bias" else {}
    conversion = convert(model, family, **options)
    new = conversion.model.train()
    before = {name: value.clone() for name, value in new.state_dict().items()}
    optimiser = torch.optim.SGD(new.parameters(), lr=0.1)
    y = DistributedDataParallel(new)(images(source))
    assert y.isfinite().all()
    nn.functional.cross_entropy(y, torch.tensor([0, 1])).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in new.parameters())
    optimiser.step()
    assert any(not torch.equal(value, before[name]) for name, value in new.state_dict().items())
    again = convert(model, family, **options).model
    again.load_state_dict(new.state_dict())
    assert all(torch.equal(value, new.state_dict()[name]) for name, value in again.state_dict().items())
    left = [change for change in conversion.changes if change.before == change.after]
    assert all(change.note.startswith("left alone: ") for change in left)


@pytest.mark.parametrize("source", ["torchvision:resnet18", "timm:resnet18", "torchvision:mobilenet_v3_small"])
def test_batch_norm_folds_exactly(source):
    model = made(source).double()
    x = images(source).double()
    for _ in range(2):
        model.train()(x)
    folded = fold_batch_norm(model)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    assert largest_difference(model, folded, x) <= 1e-12


@pytest.mark.parametrize("source", ["timm:resnet18", "torchvision:resnet18"])
def test_saved_and_loaded(tmp_path, source):
    model = convert(made(source), "geometric").model.eval()
    save_model(model, tmp_path / "m.safetensors")
    again = load_model(tmp_path / "m.safetensors")
    x = images(source)
    assert torch.equal(again(x), model(x))
    plain = to_standard(again)
    assert not any("neuronal" in type(module).__module__ for module in plain.modules())
    assert largest_difference(again, plain, x) <= 1e-5


def test_unknown_names_of_others():
    vision()
    with pytest.raises(UnknownName, match=r"timm has no model 'resnet17'\. There are .*resnet1"):
        from_source("timm:resnet17")
    with pytest.raises(UnknownName, match="torchvision has no model 'resnet17'"):
        from_source("torchvision:resnet17")
