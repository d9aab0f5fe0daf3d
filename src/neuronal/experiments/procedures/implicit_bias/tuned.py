"""Equal tuning: for every network of a setting a learning rate from the same list, chosen on held-out data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.tune import choose

if TYPE_CHECKING:
    from neuronal.experiments.reproduce import Work


def tuned(setting: Setting, work: Work) -> tuple[Recipe, ...]:
    """The recipes, each with the best of ``options["rates"]`` by seeds of their own; as they are without ``rates``.

    A rate at which a training fails is not chosen; where all fail the recipe keeps its own.
    """
    rates: Sequence[float] = setting.options.get("rates", ())
    if not rates:
        return setting.recipes
    seeds = tuple(setting.options["tuning_seeds"])
    found = []
    for recipe in setting.recipes:
        work.say(f"learning rate of {recipe.name}, {recipe.family}")
        tries = [replace(recipe, lr=rate, seeds=seeds, probes=()) for rate in rates]
        (choice,) = choose(work.records(tries), "lr")
        found.append(replace(recipe, lr=recipe.lr if choice.best is None else choice.best))
    return tuple(found)


def described(recipe: Recipe, seed: int) -> dict[str, Any]:
    """What a row of a result says of its network."""
    return {"name": recipe.name, "neuron": recipe.family, "seed": seed, "lr": recipe.lr}
