"""Networks that are compared have the same size, and none has a rate chosen by what is reported."""

from functools import partial

import pytest
import torch

from neuronal.data.dataset import Dataset, Split
from neuronal_papers.farkas import REPRODUCTIONS, errors
from neuronal_papers.farkas.networks import CIFAR, farkasnet, resnet
from neuronal_papers.farkas.tables import DEPTHS_10, TABLE1

NOTHING = Split(torch.zeros(0, 3, 32, 32), torch.zeros(0, dtype=torch.long))
IMAGES = Dataset("cifar10", NOTHING, NOTHING, tuple("0123456789"), "none")


@pytest.fixture(autouse=True)
def shapes_alone(monkeypatch):
    """Sizes do not need the images themselves."""
    monkeypatch.setattr(errors, "load", lambda _: IMAGES)


def parameters(recipe):
    return errors.row_of(recipe, {}, 0.1)["parameters"]


@pytest.mark.parametrize("depth", [18, 34, 50, 101, 152])
def test_farkasnets_are_as_large_as_the_resnets_beside_them_and_both_as_published_as_the_authors(depth):
    makes = (resnet, farkasnet, partial(farkasnet, published=True))
    plain, farkas, published = (parameters(make(CIFAR, depth, "none")) for make in makes)
    assert farkas / plain == pytest.approx(1, abs=0.011)
    reported = {name: row["parameters"] for name, row in TABLE1.reported.items()}
    if depth in DEPTHS_10:
        assert plain == pytest.approx(reported[f"ResNet{depth}, no norm"], rel=3e-4)
        assert published == pytest.approx(reported[f"FarkasNet{depth}, batch norm"], rel=5e-4)


def test_rates_are_chosen_by_other_seeds_and_images_than_those_reported():
    tuned = [s for one in REPRODUCTIONS for s in one.scales.values() if "rates" in s.options]
    assert len(tuned) == 10
    for setting in tuned:
        assert not {seed for recipe in setting.recipes for seed in recipe.seeds} & set(setting.options["tuning_seeds"])
        assert setting.options["tuned_at"]["holdout"] > 0
