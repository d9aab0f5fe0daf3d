"""The same comparison by two protocols: as published, and clean with one tuning budget for every method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import fmean, median
from typing import Any

from neuronal.experiments import Recipe, Record, Work, choose, difference, estimate
from neuronal_papers.core import Setting
from neuronal_papers.geometric.methods import Row, method_of


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Rows of :func:`both`, and the paper's method less the others, seed by seed; for top-5 accuracies too.

    ``options``: those of :func:`both`, and ``best``, the method that is best according to the paper.
    """
    rows, best = both(setting.recipes, setting.options, work), setting.options["best"]
    five = differences(in_top5(rows), best)
    result = {"rows": rows, "differences": differences(rows, best), "best": best}
    return result | ({"top5_differences": five} if five else {})


def both(recipes: Sequence[Recipe], options: Mapping[str, Any], work: Work) -> list[dict[str, Any]]:
    """Every recipe by both protocols: one row each, test results seed by seed and as a mean with its error.

    ``published`` is the recipe as it is, with the paper's rate. ``clean`` holds ``holdout`` of the training data back for
    every choice while training, tries all ``rates`` with the first ``tuning_seeds`` seeds, and trains all seeds with the
    rate that was best on the held-out data; the test data are looked at once, at the end. With ``tuning_batch`` rates
    are tried with batches of that size alone, and the best is taken for all sizes. With ``clean_seeds`` it has so many
    seeds, from 0 on, in the place of the recipe's. With ``curves`` rows have :func:`curves_of`.
    """
    clean = [_clean(one, options) for one in recipes]
    tuned = [_tuned(one, options) for one in clean]
    tried = {one.fingerprint(): [replace(one, lr=lr) for lr in options["rates"]] for one in tuned}
    # Everything at once: several processes divide among themselves what is asked for in one go.
    work.say("as published, and rates on held-out data")
    records = _records([*recipes, *(one for every in tried.values() for one in every)], work)
    choices = [choose([r for one in tried[own.fingerprint()] for r in records[one]], "lr")[0] for own in tuned]
    best = [replace(one, lr=choice.best or options["rates"][0]) for one, choice in zip(clean, choices, strict=True)]
    work.say("with the rates chosen")
    records |= _records([one for one, choice in zip(best, choices, strict=True) if choice.best is not None], work)
    rows = []
    for recipe, own, choice in zip(recipes, best, choices, strict=True):
        rows.append(_row(recipe, records[recipe], curves=options.get("curves", False)))
        row = _row(own, records[own] if choice.best is not None else (), curves=options.get("curves", False))
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
    records = iter(work.records(recipes))
    return {recipe: [next(records) for _ in recipe.seeds] for recipe in recipes}


def row_of(recipe: Recipe, work: Work) -> dict[str, Any]:
    """One recipe, with all its seeds, as a row."""
    return _row(recipe, work.records([recipe]))


def _row(recipe: Recipe, records: Sequence[Record], *, curves: bool = False) -> dict[str, Any]:
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
    }
    if recipe.redrawn:
        row["overlap"] = overlap(recipe)
    if not sound:
        return row
    if "hinge_motion" in sound[0].probes:
        # Largest turn (degrees) and shift of any unit in any step, seed by seed.
        for key in ("largest_angle", "largest_distance"):
            row[key] = [record.probes["hinge_motion"][key] for record in sound]
    if all("top5" in record.metrics for record in sound):
        five = [record.metrics["top5"] for record in sound]
        row["top5"] = {"values": five, "estimate": asdict(estimate(five))}
    if curves:
        row["curves"] = curves_of(sound)
    name = measure_of(sound[0])
    values = [record.metrics[name] for record in sound]
    return row | {
        "measure": name,
        "values": values,
        "estimate": asdict(estimate(values)),
        "epochs": median(len(record.epochs) for record in sound),
        "at_the_end": fmean(len(record.epochs) == recipe.epochs for record in sound),
        "seconds": sum(record.seconds for record in sound),
    }


def overlap(recipe: Recipe) -> float:
    """Test rows per training row where seeds split the same rows; draws of a part of them have as much less in common."""
    return 0.25 * recipe.redrawn


def measure_of(record: Record) -> str:
    """What test results of its task are told in."""
    return "rmse" if "rmse" in record.metrics else "accuracy"


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
    """The rows with their top-5 accuracies in the place of the measure; none if there are none.

    Rows that failed altogether have neither and stay as they are.
    """
    if not any("top5" in row for row in rows):
        return []
    alike = [row for row in rows if "top5" in row or "values" not in row]
    return [{**row, **row.get("top5", {}), "measure": "top5"} for row in alike]


def by_seed(row: Row, key: str = "values") -> dict[int, Any]:
    """What a row has of each seed that did not fail."""
    return dict(zip(row["seeds"], row.get(key, ()), strict=True))


def group_of(row: Row) -> tuple[str, int, str]:
    """What rows, or differences of them, that are compared have in common."""
    return row["data"], row["batch"], row["protocol"]


def groups_of(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows by what they have in common."""
    return [[row for row in rows if group_of(row) == group] for group in dict.fromkeys(map(group_of, rows))]


def differences(rows: Sequence[Row], of: str) -> list[dict[str, Any]]:
    """Method ``of`` less every other, seed by seed, within each group of rows with the same data, batch and protocol."""
    gaps = []
    for group in groups_of([row for row in rows if "values" in row]):
        values = {row["method"]: by_seed(row) for row in group}
        others = [row["method"] for row in group if row["method"] != of]
        for other in others if of in values else ():
            if values[of].keys() & values[other].keys():
                by = group[0].get("overlap", 0.0)
                gap = difference(values[of], values[other], comparisons=len(others), overlap=by)
                place = dict(zip(("data", "batch", "protocol"), group_of(group[0]), strict=True))
                gaps.append(place | {"method": of, "against": other} | asdict(gap) | {"is_shown": gap.is_shown})
    return gaps
