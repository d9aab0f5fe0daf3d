"""Rows of a suite as a table for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
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
    return "" if row["limit"] is None else f"{row['limit']:g}: {row['verdict']}"


def _ms(key: str) -> Callable[[Mapping[str, Any]], str | None]:
    return lambda row: None if row[key] is None else number(row[key])


def _notes(row: Mapping[str, Any]) -> str:
    notes = [f"{name} {number(value)}" for name, value in row["notes"].items()]
    return "; ".join([*notes, *([row["error"]] if row["error"] else [])])


COLUMNS = (
    Column("", "name", is_text=True),
    Column("ms", _ms("ms")),
    Column("plain ms", _ms("baseline_ms")),
    Column("measured", _measured),
    Column("95% interval", _interval),
    Column("unit", "unit"),
    Column("limit", _limit),
    Column("notes", _notes),
)


def suite_table(result: Mapping[str, Any]) -> Table:
    """The table of a suite, and below it how many limits were kept."""
    rows = result["rows"]
    verdicts = Counter(row["verdict"] for row in rows if row["verdict"])
    limits = f"limits: {', '.join(f'{count} {verdict}' for verdict, count in verdicts.items())}; " if verdicts else ""
    title = f"{result['suite']} on {result['device']}: {result['about']}"
    caption = f"{limits}medians of {result['rounds']} rounds with 95% intervals, {result['seconds']:.0f} seconds in all"
    return table(title, COLUMNS, rows, caption)
