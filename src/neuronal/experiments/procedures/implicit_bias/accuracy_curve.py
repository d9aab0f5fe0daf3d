"""Accuracy against what training had: data, parameters, wrong labels or epochs (Figures 3, 6, 7 and 8, implicit bias)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from torch import nn

from neuronal.data.catalogue import load
from neuronal.experiments.procedures.finding import Finding, all_or_some
from neuronal.experiments.procedures.implicit_bias.robustness import AT_ONCE, on_the_device
from neuronal.experiments.procedures.tuned import measured
from neuronal.experiments.record import Record
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.run import training_data
from neuronal.probes.curvature import curvature

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

AXES: dict[str, Callable[[Record], float]] = {
    "fraction of the training data": lambda record: record.recipe.fraction,
    "parameters": lambda record: record.metrics["parameters"],
    "share of wrong labels": lambda record: record.recipe.wrong_labels,
    "epoch": lambda record: len(record.epochs),
}
RUNNING = 3
"""Epochs that are averaged before the accuracy of one is compared with the target."""

Curve = dict[float, list[float]]


JUDGED = (
    "Medians over seeds are compared. Less data: some share below all of it reaches the standard network's "
    "accuracy with all of it. Same size: every size has to be ahead, some are a part. Epochs (running means): "
    "less than half as many, fewer are a part. Wrong labels: the lead has to be larger at every share of them than "
    "with none, in every seed, paired by number; in the median at some is a part; and the loss around training images "
    "with wrong labels has to be less curved at every share, at some is a part."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed: test accuracy, and accuracy on held-out images with right labels, epoch by epoch.

    ``options``: ``axis``, one of ``AXES``; ``curvature``, at how many training images of each kind the curvature of the loss
    is measured, if at all (see :func:`curvatures`); ``rates``, ``tuning_seeds`` and ``tuned_at`` as for :func:`tuned`.
    """
    axis = AXES[setting.options["axis"]]

    def point(record: Record, model: nn.Module) -> dict[str, Any]:
        followed = [round(row["holdout_accuracy"], 5) for row in record.epochs if "holdout_accuracy" in row]
        row = {"data": record.recipe.data, "x": axis(record), "accuracy": record.metrics["accuracy"]}
        if not (count := setting.options.get("curvature", 0)):
            return row | {"epochs": followed}
        work.say(f"curvature of {record.recipe.name}, {record.recipe.family}, seed {record.seed}")
        return row | {"epochs": followed, "curvature": curvatures(record, on_the_device(model), count)}

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
        places = chosen.nonzero().flatten()[:count]
        few = seen.rows(places)
        found[name] = curvature(model, few, rows=count, batch_size=AT_ONCE)["median"] if len(few) else None
    return found


def by_data(answer: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """The rows of every data set."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in answer["result"]["rows"]:
        found.setdefault(row["data"], []).append(row)
    return found


def curves(rows: Sequence[Mapping[str, Any]], key: Callable[[Mapping[str, Any]], float]) -> dict[str, Curve]:
    """By neuron: the values of all seeds at every place of the axis."""
    found: dict[str, Curve] = {}
    for row in rows:
        found.setdefault(row["neuron"], {}).setdefault(row["x"], []).append(key(row))
    return {neuron: dict(sorted(curve.items())) for neuron, curve in found.items()}


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """One line per data set, and one of its curvatures where they were measured."""
    found = []
    for data, own in by_data(answer).items():
        found.append(JUDGES[answer["result"]["axis"]](data, own))
        if all("curvature" in row for row in own):
            found.append(_flatter(data, own))
    return found


def _less_data(data: str, rows: Sequence[Mapping[str, Any]]) -> Finding:
    both = curves(rows, lambda row: row["accuracy"])
    target = median(list(both["standard"].values())[-1])
    enough = [x for x, values in both["implicit_bias"].items() if median(values) >= target]
    whole = max(both["standard"])
    verdict: Any = "reproduced" if enough and min(enough) < whole else "not reproduced"
    reached = f"from {100 * min(enough):g}% of the data on" if enough else "with no share of the data"
    return Finding(
        f"{data}: implicit bias needs less training data for the standard network's best accuracy",
        verdict,
        f"{100 * target:.1f}% is reached {reached}; {_gaps(both, lambda x: f'{100 * x:g}%')}",
    )


def _fewer_parameters(data: str, rows: Sequence[Mapping[str, Any]]) -> Finding:
    """Couplings are parameters too, so networks of one name are compared, at the size of the standard one."""
    named: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        named.setdefault(row["name"], []).append(row)
    leads: dict[float, float] = {}
    for own in named.values():
        both = curves(own, lambda row: row["accuracy"])
        # A size at which all seeds of one neuron failed has nothing to compare.
        if len(both) == 2:
            ((x, other),) = both["standard"].items()
            leads[x] = median(*both["implicit_bias"].values()) - median(other)
    gaps = ", ".join(f"{100 * lead:+.1f} at {x:,.0f}" for x, lead in sorted(leads.items()))
    return Finding(
        f"{data}: implicit bias is more accurate at the same size",
        all_or_some(sum(lead > 0 for lead in leads.values()), len(leads)),
        f"points by parameters: {gaps}",
    )


def epochs_needed(rows: Sequence[Mapping[str, Any]]) -> tuple[float, dict[str, list[float]]]:
    """The best accuracy of standard networks (median over seeds), and after how many epochs each seed has it, by neuron.

    Accuracies are running means; what never has it takes infinitely many.
    """

    def smooth(curve: Sequence[float]) -> list[float]:
        return [fmean(curve[max(0, i - RUNNING + 1) : i + 1]) for i in range(len(curve))]

    every: dict[str, list[list[float]]] = {}
    for row in rows:
        every.setdefault(row["neuron"], []).append(smooth(row["epochs"]))
    target = median(max(curve) for curve in every["standard"])

    def until(curve: Sequence[float]) -> float:
        return next((i + 1.0 for i, value in enumerate(curve) if value >= target), inf)

    return target, {neuron: [until(curve) for curve in all_of] for neuron, all_of in every.items()}


def _fewer_epochs(data: str, rows: Sequence[Mapping[str, Any]]) -> Finding:
    target, needed = epochs_needed(rows)
    own, other = median(needed["implicit_bias"]), median(needed["standard"])
    return Finding(
        f"{data}: implicit bias reaches the standard network's best accuracy in less than half the epochs",
        "reproduced"
        if isfinite(own) and own < other / 2
        else "reproduced in part"
        if own < other
        else "not reproduced",
        f"epochs until {100 * target:.1f}%: {epochs_text(needed['implicit_bias'])} against "
        f"{epochs_text(needed['standard'])} (median and range over seeds)",
    )


def epochs_text(needed: Sequence[float]) -> str:
    """Median and range over seeds."""
    if min(needed) == inf:
        return "never"
    middle, low, high = (f"{one:g}" if isfinite(one) else "never" for one in (median(needed), min(needed), max(needed)))
    return f"{middle} ({low} to {high})"


def _less_memory(data: str, rows: Sequence[Mapping[str, Any]]) -> Finding:
    """The lead of every seed, and by how much it is larger than the same seed's with right labels."""
    best = {(row["neuron"], row["x"], row["seed"]): max(row["epochs"]) for row in rows}
    leads: dict[float, dict[int, float]] = {}
    for (neuron, x, seed), value in sorted(best.items()):
        if neuron == "standard" and ("implicit_bias", x, seed) in best:
            leads.setdefault(x, {})[seed] = best["implicit_bias", x, seed] - value
    first, *others = leads.values()
    gains = [[lead - first[seed] for seed, lead in own.items() if seed in first] for own in others]
    some = any(median(own) > 0 for own in gains if own)
    every = all(own and min(own) > 0 for own in gains)
    text = {f"{100 * x:g}%": [100 * lead for lead in own.values()] for x, own in leads.items()}
    numbers = ", ".join(f"{median(own):+.1f} ({min(own):+.1f} to {max(own):+.1f}) at {x}" for x, own in text.items())
    return Finding(
        f"{data}: its lead in the best validation accuracy is larger when labels are wrong",
        "reproduced" if every else "reproduced in part" if some else "not reproduced",
        f"points by share of wrong labels, median and range over seeds: {numbers}",
    )


def _flatter(data: str, rows: Sequence[Mapping[str, Any]]) -> Finding:
    """Curvature of the loss against the standard network's, at wrong labels; at right ones where none is wrong."""
    both = curves(rows, lambda row: row["curvature"]["wrong" if row["x"] else "right"])
    own, other = both["implicit_bias"], both["standard"]
    ratios = {x: median(own[x]) / max(median(other[x]), 1e-30) for x in own if x in other}
    smaller = sum(ratio < 1 for ratio in ratios.values())
    numbers = ", ".join(f"{ratio:.2f} at {100 * x:g}%" for x, ratio in ratios.items())
    return Finding(
        f"{data}: the loss is less curved around what it learns by heart (Eq. 62)",
        all_or_some(smaller, len(ratios)),
        f"curvature against the standard network's, at wrongly labelled training images (at 0%: rightly labelled), by "
        f"share of wrong labels: {numbers}",
    )


def _gaps(both: Mapping[str, Curve], text: Callable[[float], str]) -> str:
    own, other = both["implicit_bias"], both["standard"]
    points = ", ".join(f"{100 * (median(own[x]) - median(other[x])):+.1f} at {text(x)}" for x in own if x in other)
    return f"points against standard: {points}"


JUDGES: dict[str, Callable[[str, Sequence[Mapping[str, Any]]], Finding]] = {
    "fraction of the training data": _less_data,
    "parameters": _fewer_parameters,
    "share of wrong labels": _less_memory,
    "epoch": _fewer_epochs,
}
