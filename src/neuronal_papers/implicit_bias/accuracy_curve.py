"""Accuracy against what training had, for both neurons: what Figures 3, 6, 7 and 8 share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from neuronal.data import load
from neuronal.experiments import Record, Work, training_data
from neuronal.probes import curvature
from neuronal.report import Column, Drawing, Table, blank, table
from neuronal_papers.core import Setting, title_of
from neuronal_papers.implicit_bias.compared import (
    BAND,
    NEURON,
    OVER_SEEDS,
    Row,
    Value,
    band,
    networks,
    over_seeds,
    percents,
)
from neuronal_papers.implicit_bias.white_box import AT_ONCE, on_the_device
from neuronal_papers.judge import Result
from neuronal_papers.tuning import measured

AXES: dict[str, Callable[[Record], float]] = {
    "fraction of the training data": lambda record: record.recipe.fraction,
    "parameters": lambda record: record.metrics["parameters"],
    "share of wrong labels": lambda record: record.recipe.wrong_labels,
    "epoch": lambda record: len(record.epochs),
}
CHANCE = 0.1
"""Of ten classes, which all data sets here have."""


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed: test accuracy, and accuracy on held-out images with right labels, epoch by epoch.

    ``options``: ``axis``, one of ``AXES``; ``curvature``, at how many training images of each kind the curvature of the loss
    is measured, if at all (see :func:`curvatures`); ``rates``, ``tuning_seeds`` and ``tuned_at`` as for
    :func:`neuronal_papers.tuning.tuned`.
    """
    axis = AXES[setting.options["axis"]]

    def point(record: Record, model: nn.Module) -> dict[str, Any]:
        followed = [round(row["holdout_accuracy"], 5) for row in record.epochs if "holdout_accuracy" in row]
        row = {
            "data": record.recipe.data,
            "x": axis(record),
            "accuracy": record.metrics["accuracy"],
            "epochs": followed,
        }
        if not (count := setting.options.get("curvature", 0)):
            return row
        work.say(f"curvature of {record.recipe.name}, {record.recipe.family}, seed {record.seed}")
        return row | {"curvature": curvatures(record, on_the_device(model), count)}

    rows = measured(setting, work, "accuracy_curve", point, may_fail=True)
    return {"rows": rows, "axis": setting.options["axis"]}


def curvatures(record: Record, model: nn.Module, count: int) -> dict[str, float | None]:
    """Median curvature of the loss at the training images as they were labelled: the rightly and the wrongly labelled.

    An image that was learnt by heart sits in a narrow valley of the loss (Garg and others, ICML 2024). ``None`` where no
    label is of that kind.
    """
    recipe, data = record.recipe, load(record.recipe.data).scaled(record.recipe.scaling)
    seen = training_data(recipe, data, record.seed)[0]
    true = training_data(replace(recipe, wrong_labels=0.0), data, record.seed)[0]
    wrong = seen.y != true.y
    found: dict[str, float | None] = {}
    for name, chosen in (("right", ~wrong), ("wrong", wrong)):
        few = seen.rows(chosen.nonzero().flatten()[:count])
        found[name] = curvature(model, few, rows=count, batch_size=AT_ONCE)["median"] if len(few) else None
    return found


@dataclass(frozen=True)
class Both:
    """The networks of one name with both neurons: a number of each seed, and what failed."""

    data: str
    label: str
    x: Any
    own: dict[int, float]
    standard: dict[int, float]
    note: str


def both(result: Result, value: Value, field: str = "", failed: float = CHANCE) -> list[Both]:
    """Numbers of both neurons for every name of a recipe, in their order.

    Args:
        result: Its recipes say which runs there have to be.
        value: A row to the number that is compared.
        field: Of the recipe, whose value is the ``x`` of a network.
        failed: Stands for runs that failed.
    """
    rows = {(row["name"], row["neuron"], row["seed"]): row for row in result["result"]["rows"]}
    recipes: dict[str, dict[str, Any]] = {}
    for recipe in result["recipes"]:
        recipes.setdefault(recipe["name"], {})[recipe["family"]] = recipe
    several = len({recipe["data"] for recipe in result["recipes"]}) > 1
    found = []
    for name, of in recipes.items():
        data, _, rest = name.partition(", ")
        numbers, missing = [], []
        for neuron in ("implicit_bias", "standard"):
            own = {seed: rows.get((name, neuron, seed)) for seed in of[neuron]["seeds"]}
            numbers.append({seed: value(row) if row else failed for seed, row in own.items()})
            missing += [f"{neuron} seed {seed} failed" for seed, row in own.items() if row is None]
        label = name if several else rest
        found.append(Both(data, label, of["standard"].get(field), *numbers, ", ".join(missing)))
    return found


def sorted_networks(result: Result) -> list[dict[str, Any]]:
    """Networks along the axis, one neuron after the other, one data set after the other."""
    every = networks(result["result"]["rows"], "data", "neuron", "x")
    order = [list(dict.fromkeys(one[key] for one in every)) for key in ("data", "neuron")]
    return sorted(every, key=lambda one: (order[0].index(one["data"]), order[1].index(one["neuron"]), one["x"]))


def best(run: Row) -> float:
    """The best held-out accuracy of all epochs."""
    return float(max(run["epochs"]))


def tables(result: Result) -> list[Table]:
    bends = [kind for kind in ("right", "wrong") if all("curvature" in row for row in result["result"]["rows"])]
    columns = [
        Column("data", "data", is_text=True),
        NEURON,
        Column(result["result"]["axis"], "x", "g"),
        percents("test accuracy (%)", lambda run: run["accuracy"]),
        percents("best held-out accuracy (%)", best),
        *(
            over_seeds(f"curvature, {kind} labels", lambda run, kind=kind: run["curvature"][kind], ".3g")
            for kind in bends
        ),
    ]
    return [table(title_of(result), columns, sorted_networks(result), OVER_SEEDS)]


def lines(result: Result, value: Value, factor: float = 100) -> Iterator[tuple[str, str, Sequence[float], Any]]:
    """Of every data set and neuron, in one place after the other: the axis, and the curves of the seeds."""
    every = sorted_networks(result)
    for data, neuron in dict.fromkeys((one["data"], one["neuron"]) for one in every):
        own = [one for one in every if (one["data"], one["neuron"]) == (data, neuron)]
        values = [[factor * value(run) for run in one["runs"]] for one in own]
        yield data, neuron, [one["x"] for one in own], list(zip(*values, strict=True))


def figure(result: Result, drawn: Sequence[tuple[str, str, Sequence[float], Any]]) -> list[Drawing]:
    """One figure per data set of what :func:`lines` gives."""
    found = []
    for data in dict.fromkeys(line[0] for line in drawn):
        with blank(f"{result['reproduction']}-{data}") as sheet:
            for number, (_, neuron, x, curves) in enumerate(line for line in drawn if line[0] == data):
                band(sheet.axes, number, neuron, x, curves)
            sheet.axes.set(xlabel=result["result"]["axis"], ylabel="accuracy (%)")
            sheet.axes.legend()
        found.append(Drawing(sheet.svg, data, BAND))
    return found


def figures(result: Result) -> list[Drawing]:
    """Test accuracy along the axis."""
    return figure(result, list(lines(result, lambda run: run["accuracy"])))
