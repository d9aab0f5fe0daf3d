"""Networks that are compared have the same size."""

from types import SimpleNamespace

import pytest

from neuronal.experiments.procedures.farkas import accuracy_table
from neuronal.experiments.procedures.farkas.accuracy_table import parameters
from neuronal.recipes import REPRODUCTIONS
from neuronal.recipes.farkas import REPORTED_1, TABLE1
from neuronal.recipes.farkas.networks import CIFAR, PUBLISHED, farkasnet, resnet


@pytest.fixture(autouse=True)
def shapes_alone(monkeypatch):
    """Sizes do not need the images themselves."""
    images = SimpleNamespace(shape=(3, 32, 32), in_chans=3, img_size=32, num_outputs=10, name="cifar10")
    monkeypatch.setattr(accuracy_table, "load", lambda _: images)


@pytest.mark.parametrize("depth", [18, 34, 50, 101, 152])
def test_farkasnets_have_the_parameters_of_the_resnets_beside_them(depth):
    one, other = (parameters(make(CIFAR, depth, "none")) for make in (farkasnet, resnet))
    assert one / other == pytest.approx(1, abs=0.04)


@pytest.mark.parametrize("depth", [18, 34, 50, 101])
def test_the_published_ones_have_the_reported_parameters(depth):
    found = parameters(farkasnet(CIFAR, depth, "none", **PUBLISHED))
    assert found == pytest.approx(REPORTED_1[f"FarkasNet{depth}, no norm"]["parameters"], rel=5e-4)


def test_table_1_has_all_sixteen_cells_with_the_papers_schedule():
    small, paper = (TABLE1.scales[scale].recipes for scale in ("small", "paper"))
    assert set(REPORTED_1) < {recipe.name for recipe in small} < {recipe.name for recipe in paper}
    for recipe in (*small, *paper):
        assert (recipe.schedule, recipe.batch_size, recipe.scaling) == ("step", 128, "unit")
        assert (recipe.crop, recipe.flip, recipe.cutout, recipe.cutout_fill) == (4, True, 16, "mean")
        assert recipe.lr == (0.1 if "batch norm" in recipe.name else 0.01)
        assert len(recipe.seeds) == 3


def test_every_claim_is_about_rows_there_are():
    for name, one in REPRODUCTIONS.items():
        for setting in one.scales.values() if name.startswith("farkas/") else ():
            names = {recipe.name for recipe in setting.recipes}
            rows = {
                claim[key] for claim in setting.options.get("claims", ()) for key in ("row", "than") if key in claim
            }
            assert rows <= names or name == "farkas/table4_best_practice"
    full = REPRODUCTIONS["farkas/table4_best_practice"].scales["small"]
    assert {claim["row"] for claim in full.options["claims"]} <= {recipe.name for recipe in full.recipes}


def test_tables_share_what_they_train_alike():
    prints = {
        name: {recipe.fingerprint() for recipe in REPRODUCTIONS[f"farkas/{name}"].scales["small"].recipes}
        for name in ("table1_cifar10", "sum_vs_mean", "deep_large_lr")
    }
    assert len(prints["table1_cifar10"] & prints["sum_vs_mean"]) == 2
    assert not prints["table1_cifar10"] & prints["deep_large_lr"]
