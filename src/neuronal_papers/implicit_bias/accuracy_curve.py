"""Accuracy against what training had: data, parameters, epochs and wrong labels (Figures 3, 6, 7 and 8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from statistics import fmean, median
from typing import Any, NamedTuple

from torch import nn

from neuronal.data import load
from neuronal.experiments import Recipe, Record, Work, training_data
from neuronal.probes import curvature
from neuronal.report import Column, Drawing, Table, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.drawing import BAND, Line, chart
from neuronal_papers.implicit_bias.networks import (
    ALL_DIGITS,
    CHOSEN,
    CIFAR,
    CUT,
    FASHION,
    LEARNT_ALONE,
    NEURONS,
    RATES,
    SHORT,
    pair,
    scales,
)
from neuronal_papers.implicit_bias.white_box import AT_ONCE, on_the_device
from neuronal_papers.judge import Above, Below, Case, Claim, Result, paired
from neuronal_papers.seeds import NEURON, OVER_SEEDS, Row, Value, at, by_network, groups, over_seeds, percents, spread
from neuronal_papers.tuning import measured

AXES: dict[str, Callable[[Record], float]] = {
    "fraction of the training data": lambda record: record.recipe.fraction,
    "parameters": lambda record: record.metrics["parameters"],
    "share of wrong labels": lambda record: record.recipe.wrong_labels,
    "epoch": lambda record: len(record.epochs),
}
CHANCE = 0.1
"""Of ten classes, which all data sets here have."""
DATA = Column("data", "data", is_text=True)
ACCURACY = at("accuracy")


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed: test accuracy, and accuracy on held-out images with right labels, epoch by epoch.

    ``options``: ``axis``, one of ``AXES``; ``curvature``, at how many training images of each kind the curvature of the loss
    is measured, if at all (see :func:`curvatures`); ``rates``, ``tuning_seeds`` and ``tuned_at`` as for
    :func:`neuronal_papers.tuning.tuned`.
    """
    axis, count = setting.options["axis"], setting.options.get("curvature", 0)

    def point(record: Record, model: nn.Module) -> dict[str, Any]:
        followed = [round(row["holdout_accuracy"], 5) for row in record.epochs if "holdout_accuracy" in row]
        row = {
            "data": record.recipe.data,
            "x": AXES[axis](record),
            "accuracy": ACCURACY(record.metrics),
            "epochs": followed,
        }
        if not count:
            return row
        work.say(f"curvature of {record.recipe.name}, {record.recipe.family}, seed {record.seed}")
        return row | {"curvature": curvatures(record, on_the_device(model), count)}

    return {"rows": measured(setting, work, "accuracy_curve", point, may_fail=True), "axis": axis}


def curvatures(record: Record, model: nn.Module, count: int) -> dict[str, float | None]:
    """Median curvature of the loss at the training images as they were labelled: the rightly and the wrongly labelled.

    An image that was learnt by heart sits in a narrow valley of the loss (Garg and others, ICML 2024). ``None`` where no
    label is of that kind.
    """
    recipe, data = record.recipe, load(record.recipe.data).scaled(record.recipe.scaling)
    seen = training_data(recipe, data, record.seed)[0]
    wrong = seen.y != training_data(replace(recipe, wrong_labels=0.0), data, record.seed)[0].y
    found: dict[str, float | None] = {}
    for name, chosen in (("right", ~wrong), ("wrong", wrong)):
        few = seen.rows(chosen.nonzero().flatten()[:count])
        found[name] = curvature(model, few, rows=count, batch_size=AT_ONCE)["median"] if len(few) else None
    return found


class Both(NamedTuple):
    """The standard network of a name as a recipe, and a number of each seed with either neuron; failed runs are noted."""

    recipe: Row
    label: str
    own: dict[int, float]
    standard: dict[int, float]
    note: str


def both(result: Result, value: Value, failed: float = CHANCE) -> list[Both]:
    """Numbers of both neurons for every name of a recipe, in their order; ``failed`` stands for runs that failed."""
    numbers = {(row["name"], row["neuron"], row["seed"]): value(row) for row in result["result"]["rows"]}
    recipes = [recipe for recipe in result["recipes"] if recipe["family"] == "standard"]
    several = len(groups(recipes, "data")) > 1
    found = []
    for recipe in recipes:
        runs = {
            neuron: {seed: numbers.get((recipe["name"], neuron, seed)) for seed in recipe["seeds"]}
            for neuron in NEURONS
        }
        lost = [f"{neuron} seed {seed} failed" for neuron, of in runs.items() for seed in of if of[seed] is None]
        standard, own = ({seed: failed if one is None else one for seed, one in of.items()} for of in runs.values())
        label = recipe["name"] if several else recipe["name"].partition(", ")[2]
        found.append(Both(recipe, label, own, standard, ", ".join(lost)))
    return found


def leads(result: Result) -> list[Case]:
    """Accuracy minus the standard neuron's with the same data, in points."""
    return [Case(one.label, paired(one.own, one.standard, 100), note=one.note) for one in both(result, ACCURACY)]


def sorted_networks(result: Result) -> list[Row]:
    """Networks along the axis, one neuron after the other, one data set after the other."""
    every = groups(by_network(result["result"]["rows"], "data", "neuron", "x"), "data", "neuron")
    return [one for own in every.values() for one in sorted(own, key=lambda one: float(one["x"]))]


def best(run: Row) -> float:
    """The best held-out accuracy of all epochs."""
    return float(max(run["epochs"]))


def tables(result: Result) -> list[Table]:
    columns = [
        DATA,
        NEURON,
        Column(result["result"]["axis"], "x", "g"),
        percents("test accuracy (%)", ACCURACY),
        percents("best held-out accuracy (%)", best),
    ]
    if all("curvature" in row for row in result["result"]["rows"]):
        columns += [
            over_seeds(f"curvature, {kind} labels", at("curvature", kind), ".3g") for kind in ("right", "wrong")
        ]
    return [table(title_of(result), columns, sorted_networks(result), OVER_SEEDS)]


def along(networks: Sequence[Row], value: Value, factor: float = 1, kind: str = "", style: str = "-") -> list[Line]:
    """A line per neuron through its networks, in their order."""
    found = []
    for number, ((neuron,), own) in enumerate(groups(networks, "neuron").items()):
        curves = zip(*([factor * value(run) for run in one["runs"]] for one in own), strict=True)
        found.append(Line(number, f"{neuron}{kind}", [one["x"] for one in own], list(curves), style))
    return found


TEST = partial(along, value=ACCURACY, factor=100)


def figures(result: Result, lines: Callable[[Sequence[Row]], list[Line]] = TEST) -> list[Drawing]:
    """Accuracies, those of the test data along the axis unless told otherwise; one figure per data set."""
    labels = {"xlabel": result["result"]["axis"], "ylabel": "accuracy (%)"}
    return [
        chart(f"{result['reproduction']}-{data}", data, lines(networks), labels)
        for (data,), networks in groups(sorted_networks(result), "data").items()
    ]


# Less data


def _fractions(recipe: Recipe) -> tuple[Recipe, ...]:
    shares = (0.1, 0.5) if recipe.data == "digits" else (0.05, 0.1, 0.2, 0.5, 1.0)
    return pair(*(replace(recipe, name=f"{recipe.name}, {100 * s:g}% of the data", fraction=s) for s in shares))


def against_all(result: Result) -> list[Case]:
    """Accuracy with less data minus the standard neuron's with all of it, in points."""
    found = both(result, ACCURACY)
    whole = {one.recipe["data"]: one.standard for one in found if one.recipe["fraction"] == 1}
    return [
        Case(one.label, paired(one.own, whole[one.recipe["data"]], 100), note=one.note)
        for one in found
        if one.recipe["fraction"] < 1 and whole
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

# More parameters


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

# Fewer epochs

RUNNING = 3
"""Epochs that are averaged before the accuracy of one is compared with the target."""


def smooth(curve: Sequence[float]) -> list[float]:
    """Running means."""
    return [fmean(curve[max(0, i - RUNNING + 1) : i + 1]) for i in range(len(curve))]


def until(curve: Sequence[float], target: float) -> float:
    """The first epoch whose running mean is at least the target; infinite if there is none."""
    return next((i + 1.0 for i, value in enumerate(smooth(curve)) if value >= target), inf)


def targets(rows: Sequence[Row]) -> dict[str, float]:
    """The best running mean of standard networks, median over seeds, of every data set."""
    standard = groups((row for row in rows if row["neuron"] == "standard"), "data")
    return {data: median(max(smooth(row["epochs"])) for row in own) for (data,), own in standard.items()}


def fewer_epochs(result: Result, share: float) -> list[Case]:
    """Epochs of implicit bias minus ``share`` times the standard network's, seed by seed.

    A run that does not get there, or failed, counts as if it had in the epoch after the last.
    """
    goal, cases = targets(result["result"]["rows"]), []
    for one in both(result, lambda row: until(row["epochs"], goal[row["data"]]), failed=inf):
        late = one.recipe["epochs"] + 1.0
        never = [*one.own.values(), *one.standard.values()].count(inf)
        values = [min(own, late) - share * min(one.standard[seed], late) for seed, own in one.own.items()]
        note = f"{never} of {len(one.own) + len(one.standard)} runs never reach it" if never else ""
        cases.append(Case(one.label, values, note=", ".join(filter(None, (note, one.note)))))
    return cases


def epochs_text(needed: Sequence[float]) -> str:
    """Median and range over seeds."""
    return "never" if min(needed) == inf else spread(needed, "g").replace("inf", "never")


def epoch_tables(result: Result) -> list[Table]:
    goal = targets(result["result"]["rows"])

    def needed(network: Row) -> str:
        return epochs_text([until(run["epochs"], goal[network["data"]]) for run in network["runs"]])

    target = Column("held-out accuracy (%)", lambda network: 100 * goal[network["data"]], ".1f")
    columns = (DATA, NEURON, target, Column("epochs until then", needed))
    return [*tables(result), table(title_of(result), columns, sorted_networks(result), OVER_SEEDS)]


def epoch_lines(networks: Sequence[Row]) -> list[Line]:
    """Held-out accuracy epoch by epoch."""
    lines = []
    for number, one in enumerate(networks):
        curves = [[100 * value for value in run["epochs"]] for run in one["runs"]]
        lines.append(Line(number, one["neuron"], range(1, len(curves[0]) + 1), curves))
    return lines


LEARNING_SPEED = Reproduction(
    name="implicit_bias/learning_speed",
    title="Epochs to the standard network's best accuracy",
    where="Figure 7",
    scales=scales(pair, {"axis": "epoch"}, digits=ALL_DIGITS),
    measure=measure,
    claims=tuple(
        Claim(
            f"Implicit bias reaches the standard network's best accuracy in {words}",
            partial(fewer_epochs, share=share),
            Below(),
            unit=f"epochs more than {unit}",
            digits="+.1f",
        )
        for words, share, unit in (
            ("less than half the epochs", 0.5, "half the standard network's"),
            ("fewer epochs", 1.0, "the standard network"),
        )
    ),
    tables=epoch_tables,
    figures=partial(figures, lines=epoch_lines),
    criteria=(
        "The best accuracy is that of running means over three epochs, median over seeds; a run that does not reach it "
        "counts as one that does in the epoch after the last."
    ),
    departs=f"{CHOSEN} Accuracy is that of held-out training images, averaged over three epochs. {CUT} {LEARNT_ALONE}",
)

# Wrong labels


def _mislabelled(recipe: Recipe, *shares: float) -> tuple[Recipe, ...]:
    return pair(*(replace(recipe, name=f"{recipe.name}, {100 * s:g}% wrong", wrong_labels=s) for s in shares))


def gains(result: Result) -> list[Case]:
    """By how much the lead in the best validation accuracy is larger than the same seed's with right labels, in points."""
    found = [(one, {seed: own - one.standard[seed] for seed, own in one.own.items()}) for one in both(result, best)]
    right = {one.recipe["data"]: ahead for one, ahead in found if not one.recipe["wrong_labels"]}
    return [
        Case(one.label, paired(ahead, right[one.recipe["data"]], 100), note=one.note)
        for one, ahead in found
        if one.recipe["wrong_labels"] and right
    ]


def label_figures(result: Result) -> list[Drawing]:
    """The best held-out accuracy, and after each figure the curvatures."""
    found, axis = [], result["result"]["axis"]
    drawings = figures(result, partial(along, value=best, factor=100))
    every = groups(sorted_networks(result), "data")
    for drawing, ((data,), networks) in zip(drawings, every.items(), strict=True):
        wrong = [one for one in networks if one["x"]]
        lines = along(networks, at("curvature", "right"), 1, ", right labels")
        lines += along(wrong, at("curvature", "wrong"), 1, ", wrong labels", ":")
        labels = {"xlabel": axis, "ylabel": "curvature of the loss", "yscale": "log"}
        caption = f"At training images, by how they were labelled. {BAND}"
        name = f"{result['reproduction']}-{data}-curvature"
        found += [drawing, chart(name, f"{data}: curvature", lines, labels, caption, size=6)]
    return found


WRONG = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
LONGER = replace(FASHION, epochs=32)
BENDS = {"axis": "share of wrong labels", "curvature": 256}
MEMORISATION = Reproduction(
    name="implicit_bias/memorisation",
    title="Best validation accuracy when labels are wrong",
    where="Figure 8",
    scales={
        "smoke": Setting(_mislabelled(ALL_DIGITS, 0.0, 0.5), {**BENDS, "curvature": 4}),
        # As many steps as all the others, over fewer images more often: what is wrong can be learnt by heart.
        "small": Setting(
            _mislabelled(replace(LONGER, fraction=0.2), *WRONG), {**BENDS, **RATES, "tuned_at": {"wrong_labels": 0.0}}
        ),
        "paper": Setting(
            (*_mislabelled(LONGER, *WRONG), *_mislabelled(replace(CIFAR, epochs=32), *WRONG)), {**BENDS, **RATES}
        ),
    },
    measure=measure,
    claims=(Claim("Its lead in the best validation accuracy is larger when labels are wrong", gains, Above()),),
    tables=tables,
    figures=label_figures,
    criteria="The lead with wrong labels is compared with the same seed's with right ones.",
    departs=(
        f"{CHOSEN} Wrong labels are never the right one by chance; held-out labels are right. 32 epochs. Beside the "
        "accuracies stands the curvature of the loss at training images, with the labels they were given, when training "
        "ends. Small: Fashion-MNIST alone and a fifth of its training images; the rate is chosen with right labels "
        f"and used with every share of wrong ones. {LEARNT_ALONE}"
    ),
)
