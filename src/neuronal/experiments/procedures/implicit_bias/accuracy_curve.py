"""Accuracy against what training had: data, parameters, wrong labels or epochs (Figures 3, 6, 7 and 8, implicit bias)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.procedures.implicit_bias.tuned import described, tuned
from neuronal.experiments.record import Record
from neuronal.experiments.reproduction import Setting

if TYPE_CHECKING:
    from neuronal.experiments.reproduce import Work

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
    "half as many or fewer, fewer are a part. Wrong labels: the lead has to be larger at every share of them than "
    "with none, at some is a part."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network and seed: test accuracy, and accuracy on held-out images with right labels, epoch by epoch.

    ``options``: ``axis``, one of ``AXES``; ``rates`` and ``tuning_seeds`` as for :func:`tuned`.
    """
    axis = AXES[setting.options["axis"]]
    rows = []
    for record in work.records(tuned(setting, work)):
        if record.failure:
            continue
        followed = [round(row["holdout_accuracy"], 5) for row in record.epochs if "holdout_accuracy" in row]
        row = {"x": axis(record), "accuracy": record.metrics["accuracy"], "epochs": followed}
        rows.append(described(record.recipe, record.seed) | {"data": record.recipe.data} | row)
    return {"rows": rows, "axis": setting.options["axis"]}


def curves(rows: Sequence[Mapping[str, Any]], key: Callable[[Mapping[str, Any]], float]) -> dict[str, Curve]:
    """By neuron: the values of all seeds at every place of the axis."""
    found: dict[str, Curve] = {}
    for row in rows:
        found.setdefault(row["neuron"], {}).setdefault(row["x"], []).append(key(row))
    return {neuron: dict(sorted(curve.items())) for neuron, curve in found.items()}


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """One line per data set."""
    rows, axis = answer["result"]["rows"], answer["result"]["axis"]
    return [
        JUDGES[axis](data, [row for row in rows if row["data"] == data])
        for data in dict.fromkeys(row["data"] for row in rows)
    ]


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
    """Couplings are parameters too, so the neurons are compared size by size, in order."""
    both = curves(rows, lambda row: row["accuracy"])
    pairs = list(zip(both["implicit_bias"].values(), both["standard"].items(), strict=False))
    ahead = sum(median(own) > median(other) for own, (_, other) in pairs)
    verdict: Any = "reproduced" if ahead == len(pairs) else "reproduced in part" if ahead else "not reproduced"
    gaps = ", ".join(f"{100 * (median(own) - median(other)):+.1f} at {x:,.0f}" for own, (x, other) in pairs)
    return Finding(f"{data}: implicit bias is more accurate at the same size", verdict, f"points by parameters: {gaps}")


def _fewer_epochs(data: str, rows: Sequence[Mapping[str, Any]]) -> Finding:
    def smooth(curve: Sequence[float]) -> list[float]:
        return [fmean(curve[max(0, i - RUNNING + 1) : i + 1]) for i in range(len(curve))]

    every = {n: [smooth(row["epochs"]) for row in rows if row["neuron"] == n] for n in ("standard", "implicit_bias")}
    target = median(max(curve) for curve in every["standard"])

    def until(curve: Sequence[float]) -> float:
        return next((i + 1.0 for i, value in enumerate(curve) if value >= target), float("inf"))

    needed = {neuron: median(until(curve) for curve in all_of) for neuron, all_of in every.items()}
    half = needed["implicit_bias"] <= needed["standard"] / 2
    faster = needed["implicit_bias"] < needed["standard"]
    return Finding(
        f"{data}: implicit bias reaches the standard network's best accuracy in less than half the epochs",
        "reproduced" if half else "reproduced in part" if faster else "not reproduced",
        f"{100 * target:.1f}% after {needed['implicit_bias']:g} epochs against {needed['standard']:g} (median over seeds)",
    )


def _less_memory(data: str, rows: Sequence[Mapping[str, Any]]) -> Finding:
    both = curves(rows, lambda row: max(row["epochs"]))
    gaps = {x: median(both["implicit_bias"][x]) - median(both["standard"][x]) for x in both["standard"]}
    first, *others = gaps.values()
    larger = sum(gap > first for gap in others)
    verdict: Any = "reproduced" if larger == len(others) else "reproduced in part" if larger else "not reproduced"
    numbers = ", ".join(f"{100 * gap:+.1f} at {100 * x:g}%" for x, gap in gaps.items())
    return Finding(
        f"{data}: its lead in the best validation accuracy is larger when labels are wrong",
        verdict,
        f"points by share of wrong labels: {numbers}",
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
