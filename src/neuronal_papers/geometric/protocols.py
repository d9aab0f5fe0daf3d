"""The same comparison by two protocols: as published, and clean with one tuning budget for every method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from neuronal.experiments import Recipe, Record, Work, estimate
from neuronal_papers.core import Setting
from neuronal_papers.geometric.methods import Row, method_of
from neuronal_papers.tuning import at_best, best_of


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe by both protocols: one row each, test results seed by seed and as a mean with its error.

    ``published`` is the recipe as it is, with the paper's rate. ``clean`` holds ``holdout`` of the training data back for
    every choice while training, tries all ``rates`` with the first ``tuning_seeds`` seeds, and trains all seeds with the
    rate that was best on the held-out data; the test data are looked at once, at the end. With ``tuning_batch`` rates
    are tried with batches of that size alone, and the best is taken for all sizes. With ``clean_seeds`` it has so many
    seeds, from 0 on, in the place of the recipe's. With ``curves`` rows have :func:`curves_of`.
    """
    options, recipes = setting.options, setting.recipes
    clean = [_clean(one, options) for one in recipes]
    tries = [_tries(one, options) for one in clean]
    work.say("as published, and rates on held-out data")
    # All at once first: there is more to divide. What differs in its name alone is tried once.
    work.records([*recipes, *{one.fingerprint(): one for every in tries for one in every}.values()])
    choices = best_of(tries, work)
    best = at_best(clean, choices)
    work.say("with the rates chosen")
    work.records(best)
    rows = []
    for recipe, own, choice in zip(recipes, best, choices, strict=True):
        as_published, tuned = (row_of(one, work, curves=options.get("curves", False)) for one in (recipe, own))
        rows += [as_published, tuned | {"tuning": [asdict(point) for point in choice.curve]}]
    return {"rows": rows}


def _clean(recipe: Recipe, options: Mapping[str, Any]) -> Recipe:
    seeds = tuple(range(options["clean_seeds"])) if "clean_seeds" in options else recipe.seeds
    return replace(recipe, protocol="clean", holdout=options["holdout"], seeds=seeds)


def _tries(clean: Recipe, options: Mapping[str, Any]) -> list[Recipe]:
    """The recipe at every rate."""
    batch, seeds = options.get("tuning_batch", clean.batch_size), clean.seeds[: options["tuning_seeds"]]
    return [replace(clean, lr=lr, batch_size=batch, seeds=seeds) for lr in options["rates"]]


def row_of(recipe: Recipe, work: Work, *, curves: bool = False) -> dict[str, Any]:
    """One recipe, with all its seeds, as a row."""
    records = work.records([recipe])
    sound = [record for record in records if record.failure is None]
    row: dict[str, Any] = {
        "name": recipe.name,
        "data": recipe.data,
        "batch": recipe.batch_size,
        "method": method_of(recipe),
        "protocol": "clean" if recipe.protocol == "clean" else "published",
        "rate": recipe.lr,
        "seeds": [record.seed for record in sound],
        "failed": {str(r.seed): r.failure.reason for r in records if r.failure},
        "overlap": overlap(recipe),
    }
    if not sound:
        return row
    if "hinge_motion" in sound[0].probes:
        # Largest turn (degrees) and shift of any unit in any step, seed by seed.
        for key in ("largest_angle", "largest_distance"):
            row[key] = [record.probes["hinge_motion"][key] for record in sound]
    if "top5" in sound[0].metrics:
        row["top5"] = _results(sound, "top5")
    if curves:
        row["curves"] = curves_of(sound)
    return row | _results(sound, "rmse" if "rmse" in sound[0].metrics else "accuracy")


def _results(records: Sequence[Record], measure: str) -> dict[str, Any]:
    """Test results seed by seed, and their mean."""
    values = [record.metrics[measure] for record in records]
    return {"measure": measure, "values": values, "estimate": asdict(estimate(values))}


def overlap(recipe: Recipe) -> float:
    """Test rows per training row where seeds split the same rows; draws of a part of them have as much less in common."""
    return 0.25 * recipe.redrawn


def curves_of(records: Sequence[Record]) -> dict[str, list[list[float]]]:
    """Epoch by epoch, seed by seed: ``loss`` and ``accuracy`` of training, and those (and ``top5``) of followed data.

    Followed are the test data where a recipe is as published, and held-out data where it is clean: ``followed_loss``.
    """
    before = "holdout" if records[0].recipe.protocol == "clean" else "test"
    columns = {"loss": "loss", "accuracy": "accuracy"}
    columns |= {f"followed_{name}": f"{before}_{name}" for name in ("loss", "accuracy", "top5")}
    return {
        name: [[float(f"{epoch[column]:.4g}") for epoch in record.epochs] for record in records]
        for name, column in columns.items()
        if all(column in epoch for record in records for epoch in record.epochs)
    }


def in_top5(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows with their top-5 accuracies in the place of the measure; none if there are none."""
    if not any("top5" in row for row in rows):
        return []
    return [{**row, **row.get("top5", {}), "measure": "top5"} for row in rows]


def by_seed(row: Row, key: str = "values") -> dict[int, Any]:
    """What a row has of each seed that did not fail."""
    return dict(zip(row["seeds"], row.get(key, ()), strict=True))
