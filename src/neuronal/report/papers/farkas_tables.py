"""Tables of what is measured of Farkas layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from rich.table import Table

from neuronal.experiments.procedures.farkas.activity import values
from neuronal.experiments.procedures.farkas.born_dead import TOLD
from neuronal.experiments.procedures.farkas.cutoff import ROUNDING
from neuronal.report.drawn import END_OF_LIST, columns, end_of_list, title_of


def _error(row: Mapping[str, Any]) -> str:
    if row["mean"] is None:
        return "–"
    spread = "" if row["standard_error"] is None else f" ± {100 * row['standard_error']:.2f}"
    return f"{100 * (1 - row['mean']):.2f}{spread}"


def _failed(row: Mapping[str, Any]) -> str:
    return f"{len(row['failed'])} of {row['seeds']}"


def _accuracy(answer: Mapping[str, Any]) -> list[Table]:
    reported, rows = answer["reported"], answer["result"]["rows"]
    tuned = [row for row in rows if "tuning" in row]
    heads = ["error (%)", "failed", "parameters"] + (["its rate"] if tuned else [])
    heads += ["reported (%)" if answer["scale"] == "paper" else "reported after 200 epochs (%)"] if reported else []
    heads += ["their parameters"] if any("parameters" in given for given in reported.values()) else []
    caption = "mean ± standard error over the runs that learnt"
    caption += END_OF_LIST if any(_rate(row)[-1] in "↑↓" for row in tuned) else ""
    drawn = columns(title_of(answer), ["network", "neuron"], heads, caption)
    for row in rows:
        given = reported.get(row["name"], {})
        beside = [f"{given['error']:.2f}" if "error" in given else ""]
        beside += [f"{given['parameters']:,}" if "parameters" in given else ""]
        cells = [_error(row), _failed(row), f"{row['parameters']:,}", *([_rate(row)] if tuned else []), *beside]
        drawn.add_row(row["name"], row["neuron"], *cells[: len(heads)])
    return [drawn, *([_tried(tuned)] if tuned else [])]


def _rate(row: Mapping[str, Any]) -> str:
    """The one chosen, or its own if some run broke down at each."""
    if all(point["failed"] for point in row["tuning"]):
        return f"{row['rate']:g}, not chosen"
    return f"{row['rate']:g}{end_of_list(row['rate'], [point['value'] for point in row['tuning']])}"


def _tried(rows: Sequence[Mapping[str, Any]]) -> Table:
    """What held-out images say of every rate."""
    rates = list(dict.fromkeys(point["value"] for row in rows for point in row["tuning"]))
    drawn = columns("Rates tried", ["network"], [f"{rate:g}" for rate in rates])
    for row in rows:
        points = {point["value"]: point for point in row["tuning"]}
        drawn.add_row(row["name"], *(_held_out(points[rate]) if rate in points else "" for rate in rates))
    drawn.caption = (
        "error (%) on held-out images by learning rate, mean over the seeds rates are tried with; one at which some of them "
        "broke down is not chosen"
    )
    return drawn


def _held_out(point: Mapping[str, Any]) -> str:
    return f"{point['failed']} broke down" if point["failed"] else f"{100 * (1 - point['mean']):.2f}"


def _activity(answer: Mapping[str, Any]) -> list[Table]:
    drawn = columns(
        title_of(answer),
        ["network"],
        ["error (%)", "failed", "dead units (%)", "dead layers (%)", "silent images, most (%)", "certified", "refuted"],
        "means over runs that did not break down, at the end of training; silent images: the most at any time; layers "
        "certified and refuted",
    )
    for row in answer["result"]["rows"]:
        proofs = list(row["certificates"].values())
        ends = [
            _percent([of[-1] for of in values(row, name).values()], fmean) for name in ("dead_units", "dead_layers")
        ]
        silent = _percent([share for of in values(row, "silent").values() for share in of], max)
        counts = [f"{sum(p[v] for p in proofs)}/{sum(p['layers'] for p in proofs)}" for v in ("certified", "refuted")]
        drawn.add_row(row["name"], _error(row), _failed(row), *ends, silent, *(counts if proofs else ("–", "–")))
    return [drawn]


def _percent(shares: Sequence[float], one: Callable[[Sequence[float]], float]) -> str:
    return f"{100 * one(shares):.1f}" if shares else "–"


def _born_dead(answer: Mapping[str, Any]) -> list[Table]:
    drawn = columns(
        title_of(answer), ["network", "units"], ["gradient 0 at the start", "told apart", "loss at the end"]
    )
    result = answer["result"]
    for name, what in result["networks"].items():
        own = [row for row in result["rows"] if row["network"] == name]
        counts = [sum(row["gradient"] == 0 for row in own), sum(row["accuracy"] > TOLD for row in own)]
        loss = sum(row["loss"] for row in own) / len(own)
        drawn.add_row(name, what, *(f"{count} of {len(own)}" for count in counts), f"{loss:.4f}")
    return [drawn]


def _cutoff(answer: Mapping[str, Any]) -> list[Table]:
    drawn = columns(
        title_of(answer), ["condition"], ["units", "cutoff c", "smallest largest pre-activation", "above c"]
    )
    for row in answer["result"]["rows"]:
        least = min(row["smallest"])
        least = 0.0 if abs(least) < ROUNDING else least
        kept = sum(value > row["cutoff"] + ROUNDING for value in row["smallest"])
        words = answer["result"]["conditions"][row["condition"]]
        drawn.add_row(
            words, str(row["units"]), f"{row['cutoff']:g}", f"{least:.4g}", f"{kept} of {len(row['smallest'])}"
        )
    return [drawn]


TABLES: dict[str, Any] = {
    "accuracy_table": _accuracy,
    "activity": _activity,
    "born_dead": _born_dead,
    "cutoff": _cutoff,
}
"""By procedure."""
