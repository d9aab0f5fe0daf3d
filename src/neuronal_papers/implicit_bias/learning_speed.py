"""After how many epochs networks reach the standard network's best accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, isfinite
from statistics import fmean, median
from typing import Any

from neuronal.report import Column, Drawing, Table, table
from neuronal_papers.core import Reproduction, title_of
from neuronal_papers.implicit_bias import accuracy_curve
from neuronal_papers.implicit_bias.accuracy_curve import both, measure
from neuronal_papers.implicit_bias.compared import NEURON, OVER_SEEDS, Line, Row, bands, by_network
from neuronal_papers.implicit_bias.networks import ALL_DIGITS, CHOSEN, CUT, LEARNT_ALONE, pair, scales
from neuronal_papers.judge import Below, Case, Claim, Result

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
    standard = by_network((row for row in rows if row["neuron"] == "standard"), "data")
    return {one["data"]: median(max(smooth(run["epochs"])) for run in one["runs"]) for one in standard}


def differences(result: Result, share: float) -> list[Case]:
    """Epochs of implicit bias minus ``share`` times the standard network's, seed by seed.

    A run that does not get there, or failed, counts as if it had in the epoch after the last.
    """
    goal = targets(result["result"]["rows"])
    cases = []
    for one in both(result, lambda row: until(row["epochs"], goal[row["data"]]), "epochs", failed=inf):
        late = one.x + 1.0
        never = sum(not isfinite(epochs) for epochs in (*one.own.values(), *one.standard.values()))
        values = [min(own, late) - share * min(one.standard[seed], late) for seed, own in one.own.items()]
        notes = [f"{never} of {len(one.own) + len(one.standard)} runs never reach it"] * bool(never)
        cases.append(Case(one.label, values, note=", ".join([*notes, *([one.note] if one.note else [])])))
    return cases


def epochs_text(needed: Sequence[float]) -> str:
    """Median and range over seeds."""
    if min(needed) == inf:
        return "never"
    middle, low, high = (f"{one:g}" if isfinite(one) else "never" for one in (median(needed), min(needed), max(needed)))
    return f"{middle} ({low} to {high})"


def tables(result: Result) -> list[Table]:
    goal = targets(result["result"]["rows"])

    def needed(network: Any) -> str:
        return epochs_text([until(run["epochs"], goal[network["data"]]) for run in network["runs"]])

    columns = (
        Column("data", "data", is_text=True),
        NEURON,
        Column("held-out accuracy (%)", lambda network: 100 * goal[network["data"]], ".1f"),
        Column("epochs until then", needed),
    )
    every = by_network(result["result"]["rows"], "data", "neuron")
    return [*accuracy_curve.tables(result), table(title_of(result), columns, every, OVER_SEEDS)]


def figures(result: Result) -> list[Drawing]:
    """Held-out accuracy epoch by epoch."""
    every, found = by_network(result["result"]["rows"], "data", "neuron"), []
    for data in dict.fromkeys(one["data"] for one in every):
        lines = []
        for number, one in enumerate(one for one in every if one["data"] == data):
            curves = [[100 * value for value in run["epochs"]] for run in one["runs"]]
            lines.append(Line(number, one["neuron"], range(1, len(curves[0]) + 1), curves))
        labels = {"xlabel": "epoch", "ylabel": "accuracy (%)"}
        found.append(bands(f"{result['reproduction']}-{data}", data, lines, labels))
    return found


LEARNING_SPEED = Reproduction(
    name="implicit_bias/learning_speed",
    title="Epochs to the standard network's best accuracy",
    where="Figure 7",
    scales=scales(pair, {"axis": "epoch"}, digits=ALL_DIGITS),
    measure=measure,
    claims=tuple(
        Claim(
            f"Implicit bias reaches the standard network's best accuracy in {words}",
            partial(differences, share=share),
            Below(),
            unit=f"epochs more than {unit}",
            digits="+.1f",
        )
        for words, share, unit in (
            ("less than half the epochs", 0.5, "half the standard network's"),
            ("fewer epochs", 1.0, "the standard network"),
        )
    ),
    tables=tables,
    figures=figures,
    criteria=(
        "The best accuracy is that of running means over three epochs, median over seeds; a run that does not reach it "
        "counts as one that does in the epoch after the last."
    ),
    departs=f"{CHOSEN} Accuracy is that of held-out training images, averaged over three epochs. {CUT} {LEARNT_ALONE}",
)
