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
    from neuronal.experiments.reproduce import Work

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
    with the rate that was best on the held-out data; the test data are looked at once, at the end.
    """
    rows = []
    for recipe in recipes:
        work.say(recipe.name)
        rows.append(_row(recipe, work.records([recipe])))
        clean = replace(recipe, protocol="clean", holdout=options["holdout"])
        tried = [replace(clean, lr=lr, seeds=recipe.seeds[: options["tuning_seeds"]]) for lr in options["rates"]]
        choice = choose(work.records(tried), "lr")[0]
        tuning = {"tuning": [asdict(point) for point in choice.curve]}
        if choice.best is None:
            rows.append(_row(replace(clean, lr=options["rates"][0]), ()) | tuning)
            continue
        best = replace(clean, lr=choice.best)
        rows.append(_row(best, work.records([best])) | tuning)
    return rows


def _row(recipe: Recipe, records: Sequence[Record]) -> dict[str, Any]:
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
    if not sound:
        return row
    measure = measure_of(sound)
    values = [record.metrics[measure] for record in sound]
    return (
        row
        | _motion(sound)
        | {
            "measure": measure,
            "values": values,
            "estimate": asdict(estimate(values)),
            "epochs": median(len(record.epochs) for record in sound),
            "at_the_end": fmean(len(record.epochs) == recipe.epochs for record in sound),
            "seconds": sum(record.seconds for record in sound),
        }
    )


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


def against(rows: Sequence[Mapping[str, Any]], of: str) -> list[dict[str, Any]]:
    """Method ``of`` less every other, seed by seed, within each group of rows with the same data, batch and protocol."""
    found = []
    groups = dict.fromkeys((row["data"], row["batch"], row["protocol"]) for row in rows)
    for data, batch, protocol in groups:
        own = [r for r in rows if (r["data"], r["batch"], r["protocol"]) == (data, batch, protocol) and "values" in r]
        first = next((row for row in own if row["method"] == of), None)
        others = [row for row in own if row["method"] != of]
        if first is None:
            continue
        for row in others:
            one, other = (dict(zip(r["seeds"], r["values"], strict=True)) for r in (first, row))
            if not set(one) & set(other):
                continue
            gap = difference(one, other, comparisons=len(others))
            found.append(
                {"data": data, "batch": batch, "protocol": protocol, "method": of, "against": row["method"]}
                | asdict(gap)
                | {"is_shown": gap.is_shown}
            )
    return found
