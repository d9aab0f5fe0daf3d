"""Rates chosen from a list, on digits small enough for seconds."""

from dataclasses import replace

import pytest

from neuronal.experiments import Recipe, Work
from neuronal.experiments.record import read
from neuronal_papers.core import Setting
from neuronal_papers.farkas.errors import measure
from neuronal_papers.tuning import tuned

DIGITS = Recipe(name="digits", model="fcn", widths=(16,), data="digits", optim="sgd", epochs=2, fraction=0.5, probes=())


def test_every_network_gets_the_best_of_the_same_rates(tmp_path):
    recipe = replace(DIGITS, fraction=1.0, seeds=(0, 1))
    setting = Setting((recipe,), {"rates": (1e-6, 0.05), "tuning_seeds": (100,)})
    (found,) = tuned(setting, Work(tmp_path))
    assert found == replace(recipe, lr=0.05)
    assert tuned(Setting((recipe,)), Work(tmp_path)) == (recipe,)


def test_networks_that_differ_in_what_they_are_tuned_at_are_tuned_once(tmp_path):
    recipes = tuple(replace(DIGITS, fraction=share, name=f"{share}") for share in (0.1, 0.2))
    setting = Setting(recipes, {"rates": (1e-6, 0.05), "tuning_seeds": (100,), "tuned_at": {"fraction": 0.5}})
    found = tuned(setting, Work(tmp_path))
    assert found == tuple(replace(recipe, lr=0.05) for recipe in recipes)
    tried = [read(file).recipe for file in (tmp_path / "cells").glob("*.json")]
    assert sorted((one.lr, one.fraction) for one in tried) == [(1e-6, 0.5), (0.05, 0.5)]


def test_where_all_rates_fail_the_recipe_keeps_its_own(tmp_path):
    recipe = replace(DIGITS, seeds=(0,), lr=0.02)
    options = {"rates": (1e20, 1e30), "tuning_seeds": (100,), "classes": 10}
    assert tuned(Setting((recipe,), options), Work(tmp_path)) == (recipe,)
    (row,) = measure(Setting((recipe,), options), Work(tmp_path))["rows"]
    assert (row["rate"], [point["failed"] for point in row["tuning"]]) == (0.02, [1, 1])
    assert row["accuracy"].keys() == {"0"}


def test_a_row_has_the_rate_and_what_was_tried(tmp_path):
    recipe = replace(DIGITS, seeds=(0,))
    options = {"rates": (1e-6, 0.05), "tuning_seeds": (100,), "classes": 10}
    (row,) = measure(Setting((recipe,), options), Work(tmp_path))["rows"]
    assert (row["rate"], [point["value"] for point in row["tuning"]]) == (0.05, [1e-6, 0.05])
    (plain,) = measure(Setting((recipe,), {"classes": 10}), Work(tmp_path))["rows"]
    assert not {"rate", "tuning"} & plain.keys()


def test_seeds_to_choose_by_are_not_those_reported(tmp_path):
    setting = Setting((replace(DIGITS, seeds=(0, 101)),), {"rates": (0.1,), "tuning_seeds": (100, 101)})
    with pytest.raises(ValueError, match="are tried with seeds 100, 101, and results need others, got 101"):
        tuned(setting, Work(tmp_path))
