"""Runs of a network seed by seed, those that failed among them, and what claims are made of.

A run has failed if its loss stopped being finite, or if it ends at chance. Where accuracies are compared it counts as one at
chance: leaving it out would flatter its network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

from neuronal.experiments import estimate
from neuronal.train import SCHEDULES
from neuronal_papers.judge import Above, Case, Claim, Evidence, Result, Within, paired
from neuronal_papers.seeds import Row, at_chance, with_error

STUCK = 1.5
"""A network whose accuracy is below so many times chance has not learnt."""
PATIENCE = 5
"""Epochs at the first rate after which the paper calls a run without progress failed; before that it may only be slow."""
CRITERIA = (
    f"A run failed if its loss stopped being finite, or if its accuracy at the end is below {STUCK:g} times chance (15% for "
    "10 classes); it trains otherwise, however high its error. In differences of accuracy a failed run counts as one at "
    "chance. The paper calls failed what made no progress in five epochs; a run that stayed at chance for fewer epochs at "
    "its first rate may only be slow, and decides nothing."
)
AS_TABLE_1 = "As in Table 1 on CIFAR-10."
"""Instead of ``CRITERIA``, where these have been told already."""


def learnt(accuracy: Mapping[str, float], broken: Mapping[str, str], chance: float) -> dict[str, Any]:
    """Accuracies of the runs that did not break down, which failed and why, by seed; the mean of those that learnt."""
    stuck = {seed: f"stays at {100 * a:.1f}%" for seed, a in accuracy.items() if a < STUCK * chance}
    sound = [a for seed, a in accuracy.items() if seed not in stuck]
    mean = estimate(sound) if sound else None
    return {
        "accuracy": dict(accuracy),
        "failed": {**broken, **stuck},
        "seeds": len(accuracy) + len(broken),
        "mean": None if mean is None else mean.mean,
        "standard_error": None if mean is None else mean.standard_error,
    }


def rows_of(result: Result) -> dict[str, Row]:
    """The rows of a result by name, each with its epochs, those at its first rate, and its scaling."""
    known = {}
    for recipe in result["recipes"]:
        factor = SCHEDULES[recipe["schedule"]]
        first = sum(factor(step, 1000) == factor(0, 1000) for step in range(1000)) / 1000
        more = {"epochs_at_first_rate": recipe["epochs"] * first}
        known[recipe["name"]] = {"epochs": recipe["epochs"], "scaling": recipe["scaling"], **more}
    return {row["name"]: {**row, **known[row["name"]]} for row in result["result"]["rows"]}


def error_of(row: Row) -> str | None:
    """Mean and standard error over the runs that learnt, in percent."""
    return None if row["mean"] is None else with_error(1 - row["mean"], row["standard_error"])


def failed_of(row: Row) -> str:
    return f"{len(row['failed'])} of {row['seeds']}"


def _stuck(row: Row) -> set[str]:
    """Seeds of the runs that ended at chance."""
    return set(row["failed"]) & set(row["accuracy"])


def _num_slow(row: Row) -> int:
    """Runs that ended at chance and may only need more epochs."""
    return len(_stuck(row)) if row["epochs_at_first_rate"] < PATIENCE else 0


Pairs = Mapping[str, tuple[str, str]]
"""Names of two networks by what a case of them is called."""


def differences(result: Result, pairs: Pairs) -> list[Case]:
    """Accuracy of the first network of each pair minus that of the second, in points, seed by seed."""
    rows, chance = rows_of(result), result["result"]["chance"]
    found = [(label, rows.get(own), rows.get(other)) for label, (own, other) in pairs.items()]
    return [difference(label, own, other, chance) for label, own, other in found if own and other]


def difference(label: str, own: Row, other: Row, chance: float) -> Case:
    """Accuracy of one network minus that of another, as a case; open where the worse one may only be slow."""
    accuracy, others = (at_chance(row["accuracy"], row["failed"], chance) for row in (own, other))
    values = paired(accuracy, others, factor=100)
    slow = _num_slow(other if values and fmean(values) > 0 else own)
    if own["mean"] is None and other["mean"] is None:
        return Case(label, values, note="no run learnt", is_open=True)
    errors = " against ".join("none" if row["mean"] is None else f"{error_of(row)}%" for row in (own, other))
    note = f"error {errors}"
    note += f", {failed_of(own)} against {failed_of(other)} runs failed" if own["failed"] or other["failed"] else ""
    note += f", {slow} of them perhaps only slow" if slow else ""
    return Case(label, values, note=note, is_open=bool(slow))


def lower_error(text: str, pairs: Pairs, *, beyond_paper: bool = False) -> Claim:
    """The claim that the first network of each pair has the lower error."""
    return Claim(text, partial(differences, pairs=pairs), Above(), beyond_paper=beyond_paper)


def same_error(text: str, margin: float, pairs: Pairs, *, beyond_paper: bool = False) -> Claim:
    """The claim that both networks of each pair have the same error, within ``margin`` points."""
    return Claim(text, partial(differences, pairs=pairs), Within(margin), beyond_paper=beyond_paper)


def all_train(*names: str) -> Callable[[Result], Evidence]:
    """Evidence that every run of these networks leaves chance."""

    def evidence(result: Result) -> Evidence:
        rows = [row for name, row in rows_of(result).items() if name in names]
        failed, slow = sum(len(row["failed"]) for row in rows), sum(map(_num_slow, rows))
        return Evidence(sum(row["seeds"] for row in rows), failed - slow, "; ".join(map(_said, rows)), slow)

    return evidence


def none_trains(*names: str) -> Callable[[Result], Evidence]:
    """Evidence that no run of these networks leaves chance."""

    def evidence(result: Result) -> Evidence:
        every = all_train(*names)(result)
        return replace(every, against=every.items - every.against - every.undecided)

    return evidence


def _said(row: Row) -> str:
    stuck, failed = len(_stuck(row)), len(row["failed"])
    text = f"{row['name']}: {row['seeds'] - failed} of {row['seeds']} runs train"
    text += f" (error {error_of(row)}%)" if row["mean"] is not None else ""
    text += f", {failed - stuck} broke down" if failed > stuck else ""
    text += f", {stuck} stayed at chance" if stuck else ""
    return f"{text}; {row['epochs']} epochs, {row['epochs_at_first_rate']:.3g} at the first rate"
