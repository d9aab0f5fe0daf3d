"""Rows of a suite as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neuronal.report import Column, Table, table


def number(value: float | str) -> str:
    """Whole numbers in full, others with the digits that matter."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if value == 0 or abs(value) >= 0.1:
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    return f"{value:.2g}"


def _measured(row: Mapping[str, Any]) -> str | None:
    return None if row["measured"] is None else number(row["measured"]["median"])


def _interval(row: Mapping[str, Any]) -> str | None:
    measured = row["measured"]
    if measured is None or measured["low"] == measured["high"]:
        return None
    return f"{number(measured['low'])} to {number(measured['high'])}"


def _limit(row: Mapping[str, Any]) -> str:
    if row["limit"] is None:
        return ""
    return f"{row['limit']:g}, {'kept' if row['kept'] else 'NOT KEPT'}"


def _notes(row: Mapping[str, Any]) -> str:
    notes = [f"{name} {number(value)}" for name, value in row["notes"].items()]
    return "; ".join([*notes, *([row["error"]] if row["error"] else [])])


COLUMNS = (
    Column("", "name", is_text=True),
    Column("ms", lambda row: None if row["ms"] is None else number(row["ms"])),
    Column("measured", _measured),
    Column("95% interval", _interval),
    Column("unit", "unit"),
    Column("limit", _limit),
    Column("notes", _notes),
)


def suite_table(result: Mapping[str, Any]) -> Table:
    """The table of a suite, with how many limits were kept below it."""
    rows = result["rows"]
    judged = [row["kept"] for row in rows if row["limit"] is not None]
    kept = f"{sum(judged)} of {len(judged)} limits kept; " if judged else ""
    title = f"{result['suite']} on {result['device']}: {result['about']}"
    caption = f"{kept}medians of {result['rounds']} rounds with 95% intervals, {result['seconds']:.0f} seconds in all"
    return table(title, COLUMNS, rows, caption)
