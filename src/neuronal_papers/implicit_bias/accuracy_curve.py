"""Accuracy against what training had: data and parameters (Figures 3 and 6), and what Figures 7 and 8 share with these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from neuronal.data import load
from neuronal.experiments import Recipe, Record, Work, training_data
from neuronal.probes import curvature
from neuronal.report import Column, Drawing, Table, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.implicit_bias.compared import (
    NEURON,
    OVER_SEEDS,
    Line,
    Row,
    Value,
    at,
    bands,
    by_network,
    over_seeds,
    percents,
)
from neuronal_papers.implicit_bias.networks import ALL_DIGITS, CHOSEN, CUT, LEARNT_ALONE, NEURONS, SHORT, pair, scales
from neuronal_papers.implicit_bias.white_box import AT_ONCE, on_the_device
from neuronal_papers.judge import Above, Case, Claim, Result, paired
from neuronal_papers.tuning import measured

AXES: dict[str, Callable[[Record], float]] = {
    "fraction of the training data": lambda record: record.recipe.fraction,
    "parameters": lambda record: record.metrics["parameters"],
    "share of wrong labels": lambda record: record.recipe.wrong_labels,
    "epoch": lambda record: len(record.epochs),
}
CHANCE = 0.1
"""Of ten classes, which all data sets here have."""
ACCURACY = at("accuracy")


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
        runs = {neuron: {seed: rows.get((name, neuron, seed)) for seed in of[neuron]["seeds"]} for neuron in NEURONS}
        own, standard = (
            {seed: failed if row is None else value(row) for seed, row in runs[neuron].items()}
            for neuron in ("implicit_bias", "standard")
        )
        lost = [
            f"{neuron} seed {seed} failed" for neuron in NEURONS for seed, row in runs[neuron].items() if row is None
        ]
        found.append(Both(data, name if several else rest, of["standard"].get(field), own, standard, ", ".join(lost)))
    return found


def sorted_networks(result: Result) -> list[dict[str, Any]]:
    """Networks along the axis, one neuron after the other, one data set after the other."""
    every = by_network(result["result"]["rows"], "data", "neuron", "x")
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
        percents("test accuracy (%)", ACCURACY),
        percents("best held-out accuracy (%)", best),
        *(over_seeds(f"curvature, {kind} labels", at("curvature", kind), ".3g") for kind in bends),
    ]
    return [table(title_of(result), columns, sorted_networks(result), OVER_SEEDS)]


def figures(result: Result, value: Value = ACCURACY) -> list[Drawing]:
    """A share along the axis, test accuracy unless told otherwise; one figure per data set."""
    found = []
    for data in dict.fromkeys(row["data"] for row in result["result"]["rows"]):
        own = [one for one in sorted_networks(result) if one["data"] == data]
        labels = {"xlabel": result["result"]["axis"], "ylabel": "accuracy (%)"}
        found.append(bands(f"{result['reproduction']}-{data}", data, lines(own, value, 100), labels))
    return found


def lines(networks: Sequence[Row], value: Value, factor: float = 1, kind: str = "", style: str = "-") -> list[Line]:
    """A line per neuron through its networks, in their order."""
    found = []
    for number, neuron in enumerate(dict.fromkeys(one["neuron"] for one in networks)):
        own = [one for one in networks if one["neuron"] == neuron]
        curves = zip(*([factor * value(run) for run in one["runs"]] for one in own), strict=True)
        found.append(Line(number, f"{neuron}{kind}", [one["x"] for one in own], list(curves), style))
    return found


def _fractions(recipe: Recipe) -> tuple[Recipe, ...]:
    shares = (0.1, 0.5) if recipe.data == "digits" else (0.05, 0.1, 0.2, 0.5, 1.0)
    return pair(*(replace(recipe, name=f"{recipe.name}, {100 * s:g}% of the data", fraction=s) for s in shares))


def leads(result: Result) -> list[Case]:
    """Accuracy minus the standard neuron's with the same data, in points."""
    found = both(result, ACCURACY)
    return [Case(one.label, paired(one.own, one.standard, 100), note=one.note) for one in found]


def against_all(result: Result) -> list[Case]:
    """Accuracy with less data minus the standard neuron's with all of it, in points."""
    found = both(result, ACCURACY, "fraction")
    whole = {one.data: one.standard for one in found if one.x == 1}
    return [
        Case(one.label, paired(one.own, whole[one.data], 100), note=one.note)
        for one in found
        if one.x < 1 and one.data in whole
    ]


DATA_FRACTION = Reproduction(
    name="implicit_bias/data_fraction",
    title="Accuracy against the fraction of training data",
    where="Figure 3",
    scales=scales(
        _fractions, {"axis": "fraction of the training data"}, digits=ALL_DIGITS, small={"tuned_at": {"fraction": 1.0}}
    ),
    measure=measure,
    claims=(
        Claim(
            "With some share of the training data, implicit bias is as accurate as the standard neuron with all of it",
            against_all,
            Above(),
            needs="some",
        ),
        Claim("Implicit bias is more accurate than the standard neuron with the same data", leads, Above()),
    ),
    tables=tables,
    figures=figures,
    criteria="Fewer data suffice if the accuracy with them is above the standard neuron's with all.",
    departs=(
        f"{CHOSEN} Epochs are the same for every share, so a smaller one has fewer steps. {CUT} The rate is chosen with "
        f"all of the data and used with every share of them. {LEARNT_ALONE}"
    ),
)


def _widths(recipe: Recipe) -> tuple[Recipe, ...]:
    widths = {"digits": (1, 2), "cifar10": (4, 8, 16)}.get(recipe.data, (1, 2, 3, 5, 8))
    sizes = [{"depth": dict(recipe.model_options)["depth"], "width": width} for width in widths]
    return pair(*(replace(recipe, name=f"{recipe.name}, {s['width']} channels", model_options=s) for s in sizes))


SIZE = dict(SHORT.model_options)
EXPRESSIVITY = Reproduction(
    name="implicit_bias/expressivity",
    title="Accuracy against the number of parameters",
    where="Figure 6",
    scales=scales(_widths, {"axis": "parameters"}, digits=ALL_DIGITS, small={"tuned_at": {"model_options": SIZE}}),
    measure=measure,
    # Couplings are parameters too, so networks of one name are compared.
    claims=(Claim("Implicit bias is more accurate than the standard neuron at the same size", leads, Above()),),
    tables=tables,
    figures=figures,
    criteria="Networks with the same number of channels are compared.",
    departs=(
        f"{CHOSEN} Sizes are made by the number of channels, as in the paper; a coupling per layer is learnt besides. {CUT} "
        f"The rate is chosen with {SIZE['width']} channels and used with every number of them. {LEARNT_ALONE}"
    ),
)
