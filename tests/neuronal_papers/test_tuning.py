"""Rates chosen from a list, on digits small enough for seconds."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from neuronal.experiments import Recipe, Work
from neuronal.experiments.record import read
from neuronal.train import processes
from neuronal_papers.core import Setting
from neuronal_papers.farkas.errors import measure
from neuronal_papers.tuning import on_the_device, tuned

DIGITS = Recipe(name="digits", model="fcn", widths=(16,), data="digits", optim="sgd", epochs=2, fraction=0.5, probes=())


@pytest.mark.parametrize(("rates", "best", "failed"), [((1e-6, 0.05), 0.05, 0), ((1e20, 1e30), 0.02, 1)])
def test_a_row_has_the_best_rate_and_what_was_tried_and_its_own_where_all_fail(tmp_path, rates, best, failed):
    recipe = replace(DIGITS, seeds=(0,), lr=0.02)
    setting = Setting((recipe,), {"rates": rates, "tuning_seeds": (100,), "classes": 10})
    assert tuned(setting, Work(tmp_path)) == (replace(recipe, lr=best),)
    (row,) = measure(setting, Work(tmp_path))["rows"]
    assert row["rate"] == best
    assert [(point["value"], point["failed"]) for point in row["tuning"]] == [(rate, failed) for rate in rates]
    assert row["accuracy"].keys() == {"0"}


def test_a_network_is_measured_on_the_device_it_was_trained_on(monkeypatch):
    """A torch built for GPUs names one on a machine that has none."""

    def current_accelerator(check_available=False):
        return None if check_available else torch.device("cuda")

    monkeypatch.setattr(torch.accelerator, "current_accelerator", current_accelerator)
    network = on_the_device(nn.Linear(2, 3))
    assert network.weight.device.type == processes().device.type


def test_without_rates_recipes_keep_their_own(tmp_path):
    setting = Setting((replace(DIGITS, seeds=(0,)),), {"classes": 10})
    assert tuned(setting, Work(tmp_path)) == setting.recipes
    (row,) = measure(setting, Work(tmp_path))["rows"]
    assert not {"rate", "tuning"} & row.keys()


def test_networks_that_differ_in_what_they_are_tuned_at_are_tuned_once(tmp_path):
    recipes = tuple(replace(DIGITS, fraction=share, name=f"{share}") for share in (0.1, 0.2))
    setting = Setting(recipes, {"rates": (1e-6, 0.05), "tuning_seeds": (100,), "tuned_at": {"fraction": 0.5}})
    found = tuned(setting, Work(tmp_path))
    assert found == tuple(replace(recipe, lr=0.05) for recipe in recipes)
    tried = [read(file).recipe for file in (tmp_path / "cells").glob("*.json")]
    assert sorted((one.lr, one.fraction) for one in tried) == [(1e-6, 0.5), (0.05, 0.5)]


def test_seeds_to_choose_by_are_not_those_reported(tmp_path):
    setting = Setting((replace(DIGITS, seeds=(0, 101)),), {"rates": (0.1,), "tuning_seeds": (100, 101)})
    with pytest.raises(ValueError, match="are tried with seeds 100, 101, and results need others, got 101"):
        tuned(setting, Work(tmp_path))
