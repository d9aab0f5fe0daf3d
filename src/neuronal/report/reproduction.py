"""A result of ``neuronal reproduce`` as tables and sentences: reported beside measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from neuronal.experiments.procedures import PROCEDURES


def tables(answer: Mapping[str, Any]) -> list[Table]:
    """What the procedure measured."""
    draw = TABLES.get(answer["procedure"])
    return draw(answer) if draw else []


def sentences(answer: Mapping[str, Any]) -> list[str]:
    """One sentence per claim: verdict, claim, numbers."""
    if answer["scale"] == "smoke":
        return ["Scale smoke shows that it runs; it says nothing of the paper's claims."]
    found = PROCEDURES[answer["procedure"]].findings(answer)
    return [f"{one.verdict}: {one.claim}: {one.numbers}." for one in found]


def _contrast(answer: Mapping[str, Any]) -> list[Table]:
    """One line per multiplier, measured and reported side by side: that fits a terminal."""
    rows = [row for row in answer["result"]["rows"] if "estimates" in row]
    drawn = Table(title=_title(answer), box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    drawn.add_column("contrast", justify="right", no_wrap=True)
    columns: list[Sequence[str]] = []
    for row in rows:
        drawn.add_column(f"{row['name']}, {row['neuron']} (%)", justify="right")
        columns.append([_percent(e["mean"], e["standard_error"]) for e in row["estimates"]])
        curve = answer["reported"].get(row["neuron"], {}).get("curve")
        if curve:
            drawn.add_column("reported (%)", justify="right")
            columns.append([f"{100 * value:.2f}" for value in curve])
    if rows:
        for s, *cells in zip(rows[0]["multipliers"], *columns, strict=True):
            drawn.add_row(f"{s:g}", *cells)
    seeds = sorted({seed for row in rows for seed in row["seeds"]})
    drawn.caption = f"mean ± standard error over {len(seeds)} seed{'s' if len(seeds) != 1 else ''}"
    drawn.caption_justify = "left"
    return [drawn]


def _percent(mean: float, error: float | None) -> str:
    return f"{100 * mean:.2f}" + ("" if error is None else f" ± {100 * error:.2f}")


def _title(answer: Mapping[str, Any]) -> str:
    return f"{answer['title']} ({answer['where']}; scale {answer['scale']})"


TABLES: dict[str, Any] = {"contrast_table": _contrast}
"""By procedure."""


def verdicts(answers: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], Any]]:
    """Every finding of several results, each with the result it is from."""
    return [(answer, one) for answer in answers for one in PROCEDURES[answer["procedure"]].findings(answer)]
