"""Runs of a network seed by seed, those that failed among them, and what claims are made of.

A run has failed if its loss stopped being finite, or if it ends at chance. Where accuracies are compared it counts as one at
chance: leaving it out would flatter its network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from neuronal.experiments import estimate
from neuronal.train import SCHEDULES
from neuronal_papers.judge import Case, Evidence, Result, paired

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
Row = Mapping[str, Any]


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
    known = {
        recipe["name"]: {
            "epochs": recipe["epochs"],
            "epochs_at_first_rate": recipe["epochs"] * _share_at_first_rate(recipe["schedule"]),
            "scaling": recipe["scaling"],
        }
        for recipe in result["recipes"]
    }
    return {row["name"]: {**row, **known[row["name"]]} for row in result["result"]["rows"]}


def _share_at_first_rate(schedule: str) -> float:
    """To a thousandth."""
    factor = SCHEDULES[schedule]
    return sum(factor(step, 1000) == factor(0, 1000) for step in range(1000)) / 1000


def error_of(row: Row) -> str | None:
    """Mean and standard error over the runs that learnt, in percent."""
    if row["mean"] is None:
        return None
    spread = "" if row["standard_error"] is None else f" ± {100 * row['standard_error']:.2f}"
    return f"{100 * (1 - row['mean']):.2f}{spread}"


def failed_of(row: Row) -> str:
    return f"{len(row['failed'])} of {row['seeds']}"


def failures(own: Row, other: Row) -> str:
    """How many runs failed of two networks, for the note of a case; nothing where none did."""
    return f", {failed_of(own)} against {failed_of(other)} runs failed" if own["failed"] or other["failed"] else ""


def _stuck(row: Row) -> set[str]:
    """Seeds of the runs that ended at chance."""
    return set(row["failed"]) & set(row["accuracy"])


def _num_slow(row: Row) -> int:
    """Runs that ended at chance and may only need more epochs."""
    return len(_stuck(row)) if row["epochs_at_first_rate"] < PATIENCE else 0


def differences(pairs: Mapping[str, tuple[str, str]]) -> Callable[[Result], list[Case]]:
    """Cases of a claim: accuracy of the first network of each pair minus that of the second, in points, seed by seed."""

    def cases(result: Result) -> list[Case]:
        rows, chance = rows_of(result), result["result"]["chance"]
        found = [(label, rows.get(own), rows.get(other)) for label, (own, other) in pairs.items()]
        return [difference(label, own, other, chance) for label, own, other in found if own and other]

    return cases


def difference(label: str, own: Row, other: Row, chance: float) -> Case:
    """Accuracy of one network minus that of another, as a case; open where the worse one may only be slow."""
    values = paired(_by_seed(own, chance), _by_seed(other, chance), factor=100)
    slow = _num_slow(other if values and fmean(values) > 0 else own)
    nothing = own["mean"] is None and other["mean"] is None
    note = " against ".join(f"{error_of(row)}%" if row["mean"] is not None else "none" for row in (own, other))
    note = f"error {note}{failures(own, other)}" if not nothing else "no run learnt"
    note += f", {slow} of them perhaps only slow" if slow and not nothing else ""
    return Case(label, values, note=note, is_open=bool(slow) or nothing)


def _by_seed(row: Row, chance: float) -> dict[str, float]:
    return {**row["accuracy"], **dict.fromkeys(row["failed"], chance)}


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
