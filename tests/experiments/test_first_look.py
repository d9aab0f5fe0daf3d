"""Recipes of the library: each survives JSON and runs two steps."""

import json
from dataclasses import replace

import pytest

from neuronal.data.catalogue import load
from neuronal.experiments.first_look import RECIPES
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.run import check, run


@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_survives_json_and_runs_two_steps(name):
    recipe = RECIPES[name]
    assert recipe.name == name
    assert Recipe.from_json(json.loads(json.dumps(recipe.to_json()))) == recipe
    check(recipe)
    half = -(-len(load(recipe.data).train) // 2)
    record = run(replace(recipe, epochs=1, batch_size=half, holdout=0), recipe.seeds[0])
    assert record.epochs[0]["steps"] == 2
