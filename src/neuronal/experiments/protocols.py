"""The same comparison by two protocols: as published, and clean with one tuning budget for every method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from neuronal.experiments.compare import difference, estimate
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import Record
from neuronal.experiments.tune import choose

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

METHODS = {
    ("standard", "none"): "SP",
    ("standard", "weight_alone"): "WN",
    ("standard", "weight"): "WN+MBN",
    ("standard", "batch"): "BN",
    ("geometric", "none"): "GmP",
    ("geometric", "input_mean"): "GmP+IMN",
}
"""The paper's name of a neuron with a norm."""


def method(recipe: Recipe) -> str:
    return METHODS[recipe.family, recipe.norm]


def both(recipes: Sequence[Recipe], options: Mapping[str, Any], work: Work) -> list[dict[str, Any]]:
    """Every recipe by both protocols: one row each, test results seed by seed and as a mean with its error.

    ``published`` is the recipe as it is, with the paper's rate. ``clean`` holds ``holdout`` of the training data back for
    every choice while training, tries all ``rates`` with the first ``tuning_seeds`` seeds, and trains the other seeds
    with the rate that was best on the held-out data; the test data are looked at once, at the end. With ``tuning_batch``
    rates are tried with batches of that size alone, and the best is taken for all sizes. With ``clean_seeds`` it has so
    many seeds, from 0 on, in the place of the recipe's. With ``curves`` rows have :func:`curves_of`.
    """
    clean = [_clean(one, options) for one in recipes]
    tuned = [_tuned(one, options) for one in clean]
    tried = {one.fingerprint(): [replace(one, lr=lr) for lr in options["rates"]] for one in tuned}
    # Everything at once: several processes divide among themselves what is asked for in one go.
    work.say("as published, and rates on held-out data")
    found = _records([*recipes, *(one for every in tried.values() for one in every)], work)
    choices = [choose([r for one in tried[own.fingerprint()] for r in found[one]], "lr")[0] for own in tuned]
    best = [replace(one, lr=choice.best or options["rates"][0]) for one, choice in zip(clean, choices, strict=True)]
    work.say("with the rates chosen")
    found |= _records([one for one, choice in zip(best, choices, strict=True) if choice.best is not None], work)
    rows = []
    for recipe, own, choice in zip(recipes, best, choices, strict=True):
        rows.append(_row(recipe, found[recipe], curves=options.get("curves", False)))
        row = _row(own, found[own] if choice.best is not None else (), curves=options.get("curves", False))
        rows.append(row | {"tuning": [asdict(point) for point in choice.curve]})
    return rows


def _clean(recipe: Recipe, options: Mapping[str, Any]) -> Recipe:
    seeds = tuple(range(options["clean_seeds"])) if "clean_seeds" in options else recipe.seeds
    return replace(recipe, protocol="clean", holdout=options["holdout"], seeds=seeds)


def _tuned(clean: Recipe, options: Mapping[str, Any]) -> Recipe:
    """The recipe rates are tried with."""
    batch = options.get("tuning_batch", clean.batch_size)
    return replace(clean, batch_size=batch, seeds=clean.seeds[: options["tuning_seeds"]])


def _records(recipes: Sequence[Recipe], work: Work) -> dict[Recipe, list[Record]]:
    """All at once, then recipe by recipe."""
    found = iter(work.records(recipes))
    return {recipe: [next(found) for _ in recipe.seeds] for recipe in recipes}


def _row(recipe: Recipe, records: Sequence[Record], *, curves: bool = False) -> dict[str, Any]:
    sound = [record for record in records if record.failure is None]
    row: dict[str, Any] = {
        "name": recipe.name,
        "data": recipe.data,
        "batch": recipe.batch_size,
        "method": method(recipe),
        "protocol": "clean" if recipe.protocol == "clean" else "published",
        "rate": recipe.lr,
        "seeds": [record.seed for record in sound],
        "failed": {str(r.seed): r.failure.reason for r in records if r.failure},
    }
    if recipe.redrawn:
        row["overlap"] = overlap(recipe)
    if not sound:
        return row
    measure = measure_of(sound)
    values = [record.metrics[measure] for record in sound]
    return (
        row
        | _motion(sound)
        | _top5(sound)
        | ({"curves": curves_of(sound)} if curves else {})
        | {
            "measure": measure,
            "values": values,
            "estimate": asdict(estimate(values)),
            "epochs": median(len(record.epochs) for record in sound),
            "at_the_end": fmean(len(record.epochs) == recipe.epochs for record in sound),
            "seconds": sum(record.seconds for record in sound),
        }
    )


def overlap(recipe: Recipe) -> float:
    """Test rows per training row where seeds split the same rows; draws of a part of them have as much less in common."""
    return 0.25 * recipe.redrawn


def _top5(records: Sequence[Record]) -> dict[str, Any]:
    """Where there are more than five classes; records of before it was measured have none."""
    if any("top5" not in record.metrics for record in records):
        return {}
    values = [record.metrics["top5"] for record in records]
    return {"top5": {"values": values, "estimate": asdict(estimate(values))}}


def in_top5(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their top-5 accuracies in the place of the measure; none if there are none.

    Rows that failed altogether have neither and stay as they are.
    """
    if not any("top5" in row for row in rows):
        return []
    alike = [row for row in rows if "top5" in row or "values" not in row]
    return [{**row, **row["top5"], "measure": "top5"} if "top5" in row else dict(row) for row in alike]


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


def _motion(records: Sequence[Record]) -> dict[str, Any]:
    """Largest turn (degrees) and shift of any unit in any step, seed by seed, where that was watched."""
    if "hinge_motion" not in records[0].probes:
        return {}
    seen = [record.probes["hinge_motion"] for record in records]
    return {
        "largest_angle": [s["largest_angle"] for s in seen],
        "largest_distance": [s["largest_distance"] for s in seen],
    }


def row_of(recipe: Recipe, work: Work) -> dict[str, Any]:
    """One recipe, with all its seeds, as a row."""
    return _row(recipe, work.records([recipe]))


def measure_of(records: Sequence[Record]) -> str:
    return "rmse" if "rmse" in records[0].metrics else "accuracy"


def group_of(row: Mapping[str, Any]) -> tuple[str, int, str]:
    """What rows, or differences of them, that are compared have in common."""
    return row["data"], row["batch"], row["protocol"]


def groups_of(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, str]]:
    return list(dict.fromkeys(map(group_of, rows)))


def against(rows: Sequence[Mapping[str, Any]], of: str) -> list[dict[str, Any]]:
    """Method ``of`` less every other, seed by seed, within each group of rows with the same data, batch and protocol."""
    found = []
    for group in groups_of(rows):
        own = [row for row in rows if group_of(row) == group and "values" in row]
        first = next((row for row in own if row["method"] == of), None)
        others = [row for row in own if row["method"] != of]
        if first is None:
            continue
        for row in others:
            one, other = (dict(zip(r["seeds"], r["values"], strict=True)) for r in (first, row))
            if not set(one) & set(other):
                continue
            gap = difference(one, other, comparisons=len(others), overlap=first.get("overlap", 0.0))
            found.append(
                dict(zip(("data", "batch", "protocol"), group, strict=True))
                | {"method": of, "against": row["method"]}
                | asdict(gap)
                | {"is_shown": gap.is_shown}
            )
    return found
