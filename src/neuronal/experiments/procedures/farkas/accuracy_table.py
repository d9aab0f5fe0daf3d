"""Test errors of several networks with their sizes; runs that fail are said to have failed, not left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch

from neuronal.data.catalogue import load
from neuronal.experiments.procedures.farkas.claims import IN_WORDS, judged, outcome, rows_of
from neuronal.experiments.procedures.finding import Finding, seeds_said
from neuronal.experiments.procedures.tuned import at_best, choices
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.run import network

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

NEAR = 0.5
"""Points of error from the reported one that are called the same; the papers of tables like this give no spread."""

JUDGED = (
    f"{IN_WORDS} At the paper's own scale an error agrees with the reported one within half a point or two standard "
    "errors."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Trains every recipe with every seed: error, parameters, failures, and the accuracy while training.

    ``options``: ``classes``, how many there are, for chance; ``claims``, see
    :mod:`neuronal.experiments.procedures.farkas.claims`; those of :func:`neuronal.experiments.procedures.tuned.tuned`
    where each network is to have a rate of its own: then its row names it, and has what was tried.
    """
    chance = 1 / setting.options["classes"]
    chosen = choices(setting, work)
    recipes = at_best(setting.recipes, chosen)
    records = work.records(recipes)
    rows = []
    for recipe, choice in zip(recipes, chosen, strict=True):
        own = [r for r in records if (r.recipe.name, r.recipe.family) == (recipe.name, recipe.family)]
        rows.append(
            {
                "name": recipe.name,
                "neuron": recipe.family,
                "parameters": parameters(recipe),
                **({} if choice is None else {"rate": recipe.lr, "tuning": [asdict(point) for point in choice.curve]}),
                **outcome(own, chance),
                "while_training": {str(r.seed): [row["accuracy"] for row in r.epochs] for r in own},
                "seconds": sum(r.seconds for r in own),
            }
        )
    return {"rows": rows, "chance": chance}


def parameters(recipe: Recipe) -> int:
    """How many the network has, whether or not it can be trained."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in network(recipe, load(recipe.data), 0).parameters())


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """The claims, and at the paper's own scale how far the errors are from the reported ones."""
    rows, chance = rows_of(answer), answer["result"]["chance"]
    found = judged(answer["options"].get("claims", ()), rows, chance)
    for row in rows if answer["scale"] == "paper" else ():
        given = answer["reported"].get(row["name"], {}).get("error")
        if given is None or row["mean"] is None:
            continue
        error = 100 * (1 - row["mean"])
        near = max(NEAR, 200 * (row["standard_error"] or 0.0))
        found.append(
            Finding(
                f"{row['name']}: test error {given:g}%",
                "reproduced" if abs(error - given) <= near else "not reproduced",
                f"{error:.2f}% ({seeds_said(row['seeds'] - len(row['failed']))})",
            )
        )
    return found
