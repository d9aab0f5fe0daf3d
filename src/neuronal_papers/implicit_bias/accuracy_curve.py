"""Accuracy against what training had: data, parameters, epochs and wrong labels (Figures 3, 6, 7 and 8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from statistics import fmean, median
from typing import NamedTuple

from torch import nn

from neuronal.core.records import record_to_json
from neuronal.data import load
from neuronal.experiments import Recipe, Record, Work, training_data
from neuronal.probes import curvature
from neuronal.report import Column, Figure, Table, table
from neuronal_papers.core import Measured, Options, Reproduction, Setting, one_table, settings, title_of
from neuronal_papers.drawing import BAND, Line, chart
from neuronal_papers.implicit_bias import networks
from neuronal_papers.implicit_bias.compared import AT_ONCE, in_percent
from neuronal_papers.judge import Above, Below, Case, Claim, Result, paired
from neuronal_papers.seeds import NEURON, OVER_SEEDS, Row, Value, at, groups, networks_of, over_seeds, percents, spread
from neuronal_papers.tuning import measured, on_the_device

AXES: dict[str, Callable[[Record], float]] = {
    "fraction of the training data": lambda record: record.recipe.fraction,
    "parameters": lambda record: record.metrics["parameters"],
    "share of wrong labels": lambda record: record.recipe.wrong_labels,
    "epoch": lambda record: len(record.epochs),
}
CHANCE = 0.1
"""Of ten classes, which all data sets here have."""
ACCURACY = at("accuracy")
DATA = Column("data", "data", is_text=True)


@dataclass(frozen=True)
class Point:
    """One network: its place on the axis, its accuracy, and epoch by epoch that on held-out images with right labels."""

    data: str
    x: float
    accuracy: float
    epochs: Sequence[float]
    curvature: Mapping[str, float | None] | None = None


def measure(setting: Setting, work: Work) -> Measured:
    """Every network and seed: test accuracy, and accuracy on held-out images with right labels, epoch by epoch.

    ``options``: ``axis``, one of ``AXES``; ``curvature``, at how many training images of each kind the curvature of the loss
    is measured, if at all (see :func:`curvatures`); ``rates``, ``tuning_seeds`` and ``tuned_at`` as for
    :func:`neuronal_papers.tuning.tuned`.
    """
    x, count = AXES[setting.options["axis"]], setting.options.get("curvature", 0)

    def point(record: Record, model: nn.Module) -> Row:
        followed = [round(row["holdout_accuracy"], 5) for row in record.epochs if "holdout_accuracy" in row]
        bent = curvatures(record, on_the_device(model), count) if count else None
        return record_to_json(Point(record.recipe.data, x(record), record.metrics["accuracy"], followed, bent))

    return {"rows": measured(setting, work, "accuracy_curve", point, may_fail=True)}


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
        found[name] = curvature(model, few, rows=count, batch_size=AT_ONCE).median if len(few) else None
    return found


class Both(NamedTuple):
    """The standard network of a name as a recipe, and a number of each seed with either neuron; failed runs are noted."""

    recipe: Row
    label: str
    own: dict[int, float]
    standard: dict[int, float]
    note: str

    def above(self, base: Mapping[int, float]) -> Case:
        """Own numbers less those of ``base``, in points."""
        return Case(self.label, paired(self.own, base, 100), note=self.note)


def both(result: Result, value: Value, failed: float = CHANCE) -> list[Both]:
    """Numbers of both neurons for every name of a recipe, in their order; ``failed`` stands for runs that failed."""
    numbers = {(row["name"], row["neuron"], row["seed"]): value(row) for row in result["result"]["rows"]}
    recipes = [recipe for recipe in result["recipes"] if recipe["family"] == "standard"]
    several, found = len(groups(recipes, "data")) > 1, []
    for recipe in recipes:
        name, seeds = recipe["name"], recipe["seeds"]
        lost = [(neuron, seed) for neuron in networks.NEURONS for seed in seeds if (name, neuron, seed) not in numbers]
        note = ", ".join(f"{neuron} seed {seed} failed" for neuron, seed in lost)
        standard, own = ({s: numbers.get((name, neuron, s), failed) for s in seeds} for neuron in networks.NEURONS)
        found.append(Both(recipe, name if several else name.partition(", ")[2], own, standard, note))
    return found


def leads(result: Result) -> list[Case]:
    """Accuracy minus the standard neuron's with the same data, in points."""
    return [one.above(one.standard) for one in both(result, ACCURACY)]


def sorted_networks(result: Result) -> list[Row]:
    """Networks along the axis, one neuron after the other, one data set after the other."""
    every = groups(networks_of(result, "data", "neuron", "x"), "data", "neuron")
    return [one for own in every.values() for one in sorted(own, key=lambda one: float(one["x"]))]


def best(run: Row) -> float:
    """The best held-out accuracy of all epochs."""
    return float(max(run["epochs"]))


def columns(result: Result) -> list[Column]:
    kinds = ("right", "wrong") if "curvature" in result["options"] else ()
    found = [over_seeds(f"curvature, {kind} labels", at("curvature", kind), ".3g") for kind in kinds]
    accuracies = percents("test accuracy (%)", ACCURACY), percents("best held-out accuracy (%)", best)
    return [DATA, NEURON, Column(result["options"]["axis"], "x", "g"), *accuracies, *found]


tables = one_table(columns, OVER_SEEDS, rows=sorted_networks)


def along(
    every: Sequence[Row], value: Value, by: str = "neuron", x: str = "x", kind: str = "", style: str = "-"
) -> list[Line]:
    """A line through the networks that share what ``by`` names, in their order."""
    found = []
    for number, ((name,), own) in enumerate(groups(every, by).items()):
        curves = zip(*(map(value, one["runs"]) for one in own), strict=True)
        found.append(Line(number, f"{name}{kind}", [one[x] for one in own], list(curves), style))
    return found


def accuracies(every: Sequence[Row], value: Value = ACCURACY) -> list[Line]:
    """Percents along the axis, of the test data unless told otherwise."""
    return along(every, lambda run: 100 * value(run))


def figures(
    result: Result, lines: Callable[..., list[Line]] = accuracies, what: str = "", caption: str = BAND, **axes: str
) -> list[Figure]:
    """One figure per data set."""
    axes = {"xlabel": result["options"]["axis"], "ylabel": "accuracy (%)", **axes}
    return [
        chart(f"{result['reproduction']}-{data}{what}", f"{data}{what}", lines(every), axes, caption, size=7)
        for (data,), every in groups(sorted_networks(result), "data").items()
    ]


# Less data


def _fractions(recipe: Recipe) -> tuple[Recipe, ...]:
    shares = (0.1, 0.5) if recipe.data == "digits" else (0.05, 0.1, 0.2, 0.5, 1.0)
    names = {share: f"{recipe.name}, {100 * share:g}% of the data" for share in shares}
    return networks.pair(*(replace(recipe, name=name, fraction=share) for share, name in names.items()))


def against_all(result: Result) -> list[Case]:
    """Accuracy with less data minus the standard neuron's with all of it, in points."""
    found = both(result, ACCURACY)
    whole = {one.recipe["data"]: one.standard for one in found if one.recipe["fraction"] == 1}
    return [one.above(whole[one.recipe["data"]]) for one in found if one.recipe["fraction"] < 1 and whole]


_curve = partial(networks.scales, digits=networks.ALL_DIGITS)
ENOUGH = "With some share of the training data, implicit bias is as accurate as the standard neuron with all of it"
SAME_DATA = "Implicit bias is more accurate than the standard neuron with the same data"
DATA_FRACTION = Reproduction(
    name="implicit_bias/data_fraction",
    title="Accuracy against the fraction of training data",
    where="Figure 3",
    scales=_curve(_fractions, {"axis": "fraction of the training data"}, small={"tuned_at": {"fraction": 1.0}}),
    measure=measure,
    claims=(Claim(ENOUGH, against_all, Above(), needs="some"), Claim(SAME_DATA, leads, Above())),
    tables=tables,
    figures=figures,
    criteria="Fewer data suffice if the accuracy with them is above the standard neuron's with all.",
    departs=(
        f"{networks.CHOSEN} Epochs are the same for every share, so a smaller one has fewer steps. The rate is chosen with "
        f"all of the data for every share of them. {networks.LEARNT_ALONE}"
    ),
)

# More parameters


def _widths(recipe: Recipe) -> tuple[Recipe, ...]:
    widths = {"digits": (1, 2), "cifar10": (4, 8, 16)}.get(recipe.data, (1, 2, 3, 5, 8))
    sizes = {f"{recipe.name}, {width} channels": dict(recipe.model_options) | {"width": width} for width in widths}
    return networks.pair(*(replace(recipe, name=name, model_options=size) for name, size in sizes.items()))


SIZE = dict(networks.SHORT.model_options)
EXPRESSIVITY = replace(
    DATA_FRACTION,
    name="implicit_bias/expressivity",
    title="Accuracy against the number of parameters",
    where="Figure 6",
    scales=_curve(_widths, {"axis": "parameters"}, small={"tuned_at": {"model_options": SIZE}}),
    claims=(Claim("Implicit bias is more accurate than the standard neuron at the same size", leads, Above()),),
    criteria="Networks with the same number of channels are compared: couplings are parameters too.",
    departs=(
        f"{networks.CHOSEN} Sizes are made by the number of channels, as in the paper; a coupling per layer is learnt "
        f"besides. The rate is chosen with {SIZE['width']} channels for every number of them. {networks.LEARNT_ALONE}"
    ),
)

# Fewer epochs

RUNNING = 3
"""Epochs that are averaged before the accuracy of one is compared with the target."""


def until(curve: Sequence[float], target: float) -> float:
    """The first epoch whose running mean is at least the target; infinite if there is none."""
    return next((i + 1.0 for i, value in enumerate(smooth(curve)) if value >= target), inf)


def smooth(curve: Sequence[float]) -> list[float]:
    """Running means."""
    return [fmean(curve[max(0, i - RUNNING + 1) : i + 1]) for i in range(len(curve))]


def followed(result: Result) -> Result:
    """The result, each row with its ``target`` and the epochs ``needed`` until it.

    The target is the best running mean of the standard networks with the same data, median over seeds.
    """
    rows, found = result["result"]["rows"], []
    for own in groups(rows, "data").values():
        target = median(max(smooth(row["epochs"])) for row in own if row["neuron"] == "standard")
        found += [{**row, "target": target, "needed": until(row["epochs"], target)} for row in own]
    return {**result, "result": {"rows": found}}


def fewer_epochs(result: Result, share: float) -> list[Case]:
    """Epochs of implicit bias minus ``share`` times the standard network's, seed by seed.

    A run that does not get there, or failed, counts as if it had in the epoch after the last.
    """
    cases = []
    for one in both(followed(result), at("needed"), failed=inf):
        late, needed = one.recipe["epochs"] + 1.0, [*one.own.values(), *one.standard.values()]
        values = [min(own, late) - share * min(one.standard[seed], late) for seed, own in one.own.items()]
        never = f"{needed.count(inf)} of {len(needed)} runs never reach it" * (inf in needed)
        cases.append(Case(one.label, values, note=", ".join(filter(None, (never, one.note)))))
    return cases


def epoch_tables(result: Result) -> list[Table]:
    def needed(network: Row) -> str:
        return spread([run["needed"] for run in network["runs"]], "g").replace("inf", "never")

    target = Column("held-out accuracy (%)", lambda network: 100 * network["runs"][0]["target"], ".1f")
    columns = (DATA, NEURON, target, Column("epochs until then", needed))
    return [*tables(result), table(title_of(result), columns, sorted_networks(followed(result)), OVER_SEEDS)]


def epoch_lines(every: Sequence[Row]) -> list[Line]:
    """Held-out accuracy epoch by epoch."""
    epochs = range(1, len(every[0]["runs"][0]["epochs"]) + 1)
    return [in_percent(number, one, one["neuron"], epochs, at("epochs")) for number, one in enumerate(every)]


FASTER = "Implicit bias reaches the standard network's best accuracy in"
HALF, MORE = "epochs more than half the standard network's", "epochs more than the standard network"
LEARNING_SPEED = replace(
    DATA_FRACTION,
    name="implicit_bias/learning_speed",
    title="Epochs to the standard network's best accuracy",
    where="Figure 7",
    scales=_curve(networks.pair, {"axis": "epoch"}),
    claims=(
        Claim(f"{FASTER} less than half the epochs", partial(fewer_epochs, share=0.5), Below(), HALF, "+.1f"),
        Claim(f"{FASTER} fewer epochs", partial(fewer_epochs, share=1.0), Below(), MORE, "+.1f"),
    ),
    tables=epoch_tables,
    figures=partial(figures, lines=epoch_lines),
    criteria="Best is a mean of three epochs, median over seeds; a run that never reaches it gets the epoch after the last.",
    departs=f"{networks.CHOSEN} Accuracy is that of held-out training images. {networks.LEARNT_ALONE}",
)

# Wrong labels


def _mislabelled(recipe: Recipe, shares: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)) -> tuple[Recipe, ...]:
    names = {share: f"{recipe.name}, {100 * share:g}% wrong" for share in shares}
    return networks.pair(*(replace(recipe, name=name, wrong_labels=share) for share, name in names.items()))


def gains(result: Result) -> list[Case]:
    """By how much the lead in the best validation accuracy is larger than the same seed's with right labels, in points."""
    found, cases = both(result, best), []
    right = {one.recipe["data"]: one for one in found if not one.recipe["wrong_labels"]}
    for one in found:
        if one.recipe["wrong_labels"] and (clean := right.get(one.recipe["data"])):
            lead = dict(zip(clean.own, paired(clean.own, clean.standard), strict=True))
            cases.append(one.above({seed: one.standard[seed] + lead[seed] for seed in lead}))
    return cases


def label_figures(result: Result) -> list[Figure]:
    """The best held-out accuracy, and the curvatures, dotted at wrongly labelled images."""

    def curvature_lines(every: Sequence[Row]) -> list[Line]:
        right = along(every, at("curvature", "right"), kind=", right labels")
        wrong = [one for one in every if one["x"]]
        return right + along(wrong, at("curvature", "wrong"), kind=", wrong labels", style=":")

    caption = f"At training images, by how they were labelled. {BAND}"
    axes = {"ylabel": "curvature of the loss", "yscale": "log"}
    found = figures(result, partial(accuracies, value=best))
    return found + figures(result, curvature_lines, ": curvature", caption, **axes)


FEW_WRONG = _mislabelled(networks.ALL_DIGITS, (0.0, 0.5))
LONGER, LONGER_CIFAR = (replace(recipe, epochs=32) for recipe in (networks.FASHION, networks.CIFAR))
BENDS: Options = {"axis": "share of wrong labels", "curvature": 256, **networks.RATES}
MEMORISATION = replace(
    DATA_FRACTION,
    name="implicit_bias/memorisation",
    title="Best validation accuracy when labels are wrong",
    where="Figure 8",
    scales=settings(
        # Small has as many steps as all the others, over fewer images more often: what is wrong can be learnt by heart.
        (FEW_WRONG, _mislabelled(replace(LONGER, fraction=0.2)), _mislabelled(LONGER) + _mislabelled(LONGER_CIFAR)),
        ({"axis": BENDS["axis"], "curvature": 4}, {**BENDS, "tuned_at": {"wrong_labels": 0.0}}, BENDS),
    ),
    claims=(Claim("Its lead in the best validation accuracy is larger when labels are wrong", gains, Above()),),
    figures=label_figures,
    criteria="The lead with wrong labels is compared with the same seed's with right ones.",
    departs=(
        f"{networks.CHOSEN} But here small has a fifth of the images, batches of 128, rates 0.01, 0.03 and 0.1, chosen with "
        "right labels. 32 epochs. Wrong labels are never the right one by chance; held-out labels are right. "
        "Beside accuracies stands the curvature of the loss at training images as they were labelled, when training ends. "
        f"{networks.LEARNT_ALONE}"
    ),
)
