"""Networks that are compared have the same size."""

from math import prod
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from neuronal.experiments.procedures.farkas import accuracy_table
from neuronal.experiments.procedures.farkas.accuracy_table import parameters
from neuronal.experiments.run import network
from neuronal.nn import FarkasConv2d
from neuronal.recipes import REPRODUCTIONS
from neuronal.recipes.farkas import REPORTED_1, TABLE1
from neuronal.recipes.farkas.networks import CIFAR, PUBLISHED, SIZES, farkasnet, resnet

NETS, NORMS = ("ResNet", "FarkasNet"), ("batch norm", "no norm")


IMAGES = SimpleNamespace(shape=(3, 32, 32), in_chans=3, img_size=32, num_outputs=10, name="cifar10")


@pytest.fixture(autouse=True)
def shapes_alone(monkeypatch):
    """Sizes do not need the images themselves."""
    monkeypatch.setattr(accuracy_table, "load", lambda _: IMAGES)


@pytest.mark.parametrize("depth", [18, 34, 50, 101, 152])
def test_farkasnets_have_the_parameters_of_the_resnets_beside_them(depth):
    one, other = (parameters(make(CIFAR, depth, "none")) for make in (farkasnet, resnet))
    assert one / other == pytest.approx(1, abs=0.011)


@pytest.mark.parametrize("depth", [18, 34, 50, 101])
def test_resnets_are_those_of_the_authors(depth):
    found = parameters(resnet(CIFAR, depth, "none"))
    assert found == pytest.approx(REPORTED_1[f"ResNet{depth}, no norm"]["parameters"], rel=3e-4)
    assert f"{found:,}" in SIZES


@pytest.mark.parametrize("depth", [18, 50])
def test_a_farkasnet_is_the_resnet_beside_it_with_farkas_units(depth):
    """Of the same order of layers, shapes of outputs and work."""
    assert shapes(farkasnet(CIFAR, depth, "batch")) == shapes(resnet(CIFAR, depth, "batch"))
    assert multiply_adds(farkasnet(CIFAR, depth, "none")) == multiply_adds(resnet(CIFAR, depth, "none"))


@pytest.mark.parametrize("depth", [18, 34, 50, 101])
def test_the_published_ones_have_the_reported_parameters(depth):
    found = parameters(farkasnet(CIFAR, depth, "none", **PUBLISHED))
    row = f"FarkasNet{depth} as published, no norm" if depth == 18 else f"FarkasNet{depth}, no norm"
    assert found == pytest.approx(REPORTED_1[row]["parameters"], rel=5e-4)


def shapes(recipe):
    """Of what goes into every layer with numbers of its own, or that pools, and of what comes out; in order."""
    found = []

    def look(part, x, y):
        kind = "conv" if isinstance(part, nn.Conv2d | FarkasConv2d) else type(part).__name__
        found.append((kind, x[0].shape, y.shape))

    model = network(recipe, IMAGES, 0).to("meta")
    for part in model.modules():
        if isinstance(part, nn.Conv2d | FarkasConv2d | nn.BatchNorm2d | nn.AvgPool2d | nn.Linear):
            part.register_forward_hook(look)
    model(torch.empty(2, 3, 32, 32, device="meta"))
    return found


def multiply_adds(recipe):
    """Of all convolutions and the head for one image, counted as they are called."""
    counts = []

    def count(layer, x, y):
        fan_in = x[0].shape[1] * prod(getattr(layer, "kernel_size", (1,)))
        counts.append(y[0].numel() * fan_in)

    model = network(recipe, IMAGES, 0).to("meta")
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d | FarkasConv2d | nn.Linear):
            layer.register_forward_hook(count)
    model(torch.empty(1, 3, 32, 32, device="meta"))
    return sum(counts)


def test_table_1_has_all_sixteen_cells_with_the_papers_schedule():
    small, paper = (TABLE1.scales[scale].recipes for scale in ("small", "paper"))
    cells = {f"{net}{depth}, {norm}" for net in NETS for depth in (18, 34, 50, 101) for norm in NORMS}
    assert len(cells) == 16
    assert cells | set(REPORTED_1) == {recipe.name for recipe in small} < {recipe.name for recipe in paper}
    for recipe in (*small, *paper):
        assert (recipe.schedule, recipe.batch_size, recipe.scaling) == ("step", 128, "unit")
        assert (recipe.crop, recipe.flip, recipe.cutout, recipe.cutout_fill) == (4, True, 16, "mean")
        assert recipe.lr == (0.1 if "batch norm" in recipe.name else 0.01)
        assert len(recipe.seeds) == 3
    assert {(recipe.norm, recipe.epochs) for recipe in small} == {("batch", 4), ("none", 8), ("none", 24)}
    assert {recipe.model for recipe in small if recipe.epochs == 24} == {"farkasnet50", "farkasnet101"}
    assert "4 epochs with batch norm, 8 without and 24 from 50 layers on, instead of 200" in TABLE1.departs


def test_claims_compare_networks_of_the_same_epochs():
    for name in ("table1_cifar10", "first_epoch", "table4_best_practice", "deep_large_lr", "sum_vs_mean"):
        setting = REPRODUCTIONS[f"farkas/{name}"].scales["small"]
        epochs = {recipe.name: recipe.epochs for recipe in setting.recipes}
        pairs = [(claim["row"], claim["than"]) for claim in setting.options["claims"] if "than" in claim]
        pairs += [pair for claim in setting.options["claims"] for pair in claim.get("cases", {}).values()]
        assert all(epochs[one] == epochs[other] for one, other in pairs)
        assert pairs or name == "deep_large_lr"


def test_the_published_network_runs_at_smoke_too():
    *_, recipe = TABLE1.scales["smoke"].recipes
    assert recipe.name == "FarkasNet18 as published, no norm"
    assert dict(recipe.model_options) == {"published": True, "rule": "max", "width": 8}


def rows_of(claim):
    """All that it names."""
    singles = {claim[key] for key in ("row", "than") if isinstance(claim.get(key), str)}
    several = {name for key in ("rows", "than") if not isinstance(claim.get(key, ""), str) for name in claim[key]}
    return singles | several | {name for pair in claim.get("cases", {}).values() for name in pair}


def test_every_claim_is_about_rows_there_are():
    for name, one in REPRODUCTIONS.items():
        for scale, setting in one.scales.items() if name.startswith("farkas/") else ():
            claims = setting.options.get("claims", ())
            assert all(map(rows_of, claims))
            names = {recipe.name for recipe in setting.recipes}
            if (name, scale) != ("farkas/table4_best_practice", "smoke"):
                assert set().union(*map(rows_of, claims)) <= names


def test_table_4_compares_at_equal_rates_too():
    claims = REPRODUCTIONS["farkas/table4_best_practice"].scales["small"].options["claims"]
    equal = [claim for claim in claims if "cases" in claim]
    assert [len(claim["cases"]) for claim in equal] == [3, 3]
    assert all(claim["ours"] for claim in equal)
    for claim in equal:
        for label, pair in claim["cases"].items():
            assert all(name.endswith(f", {label}") for name in pair)


def test_rates_are_chosen_by_other_seeds_and_images_than_those_reported():
    for name in ("activations", "with_others"):
        for setting in REPRODUCTIONS[f"farkas/{name}"].scales.values():
            own = {seed for recipe in setting.recipes for seed in recipe.seeds}
            assert not own & set(setting.options["tuning_seeds"])
            assert setting.options["tuned_at"]["holdout"] > 0


def test_tables_share_what_they_train_alike():
    prints = {
        name: {recipe.fingerprint() for recipe in REPRODUCTIONS[f"farkas/{name}"].scales["small"].recipes}
        for name in ("table1_cifar10", "sum_vs_mean", "deep_large_lr")
    }
    # FarkasNet18 with sums; deeper ones train longer in Table 1.
    assert len(prints["table1_cifar10"] & prints["sum_vs_mean"]) == 1
    assert not prints["table1_cifar10"] & prints["deep_large_lr"]
