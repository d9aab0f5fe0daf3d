"""Networks that are compared have the same size, and claims compare what was trained alike."""

from math import prod
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from neuronal.experiments import network
from neuronal.nn import FarkasConv2d
from neuronal_papers.farkas import REPRODUCTIONS, errors
from neuronal_papers.farkas.errors import parameters
from neuronal_papers.farkas.networks import CIFAR, PUBLISHED, SIZES, farkasnet, resnet
from neuronal_papers.farkas.with_and_without_norm import TABLE1

IMAGES = SimpleNamespace(shape=(3, 32, 32), in_chans=3, img_size=32, num_outputs=10, name="cifar10")


@pytest.fixture(autouse=True)
def shapes_alone(monkeypatch):
    """Sizes do not need the images themselves."""
    monkeypatch.setattr(errors, "load", lambda _: IMAGES)


@pytest.mark.parametrize("depth", [18, 34, 50, 101, 152])
def test_farkasnets_have_the_parameters_of_the_resnets_beside_them(depth):
    one, other = (parameters(make(CIFAR, depth, "none")) for make in (farkasnet, resnet))
    assert one / other == pytest.approx(1, abs=0.011)


@pytest.mark.parametrize("depth", [18, 34, 50, 101])
def test_resnets_and_published_farkasnets_are_those_of_the_authors(depth):
    found = parameters(resnet(CIFAR, depth, "none"))
    assert found == pytest.approx(TABLE1.reported[f"ResNet{depth}, no norm"]["parameters"], rel=3e-4)
    assert f"{found:,}" in SIZES
    row = f"FarkasNet{depth} as published, no norm" if depth == 18 else f"FarkasNet{depth}, no norm"
    published = parameters(farkasnet(CIFAR, depth, "none", **PUBLISHED))
    assert published == pytest.approx(TABLE1.reported[row]["parameters"], rel=5e-4)


@pytest.mark.parametrize("depth", [18, 50])
@pytest.mark.parametrize("norm", ["batch", "none"])
def test_a_farkasnet_is_the_resnet_beside_it_with_farkas_units(depth, norm):
    """Of the same order of layers, shapes of outputs and work."""
    one, other = (layers(make(CIFAR, depth, norm)) for make in (farkasnet, resnet))
    assert one == other
    assert len(one) > depth


def layers(recipe):
    """Kind, shape of the outputs and multiplications of all layers that have numbers of their own or pool, in order."""
    found = []

    def look(part, x, y):
        kind = "conv" if isinstance(part, nn.Conv2d | FarkasConv2d) else type(part).__name__
        found.append((kind, y.shape, y.numel() * x[0].shape[1] * prod(getattr(part, "kernel_size", (1,)) or (1,))))

    model = network(recipe, IMAGES, 0).to("meta")
    for part in model.modules():
        if isinstance(part, nn.Conv2d | FarkasConv2d | nn.BatchNorm2d | nn.Linear):
            part.register_forward_hook(look)
    model(torch.empty(2, 3, 32, 32, device="meta"))
    return found


def test_rates_are_chosen_by_other_seeds_and_images_than_those_reported():
    tuned = [s for one in REPRODUCTIONS for s in one.scales.values() if "rates" in s.options]
    assert len(tuned) == 6
    for setting in tuned:
        assert not {seed for recipe in setting.recipes for seed in recipe.seeds} & set(setting.options["tuning_seeds"])
        assert setting.options["tuned_at"]["holdout"] > 0
