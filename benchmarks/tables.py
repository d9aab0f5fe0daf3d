"""Rows of a suite as a table for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from neuronal.report import Column, Table, table


def number(value: float | str | None) -> str:
    """Whole numbers in full, others with the digits that matter."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if value == 0 or abs(value) >= 0.1:
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    return f"{value:.2g}"


def _interval(row: Mapping[str, Any]) -> str:
    low, high = ((row["measured"] or {}).get(end) for end in ("low", "high"))
    return "" if low == high else f"{number(low)} to {number(high)}"


def _notes(row: Mapping[str, Any]) -> str:
    notes = [f"{name} {number(value)}" for name, value in row["notes"].items()]
    return "; ".join(notes + [row["error"]] * bool(row["error"]))


COLUMNS = (
    Column("", "name", is_text=True),
    Column("ms", lambda row: number(row["ms"])),
    Column("plain ms", lambda row: number(row["baseline_ms"])),
    Column("measured", lambda row: number((row["measured"] or {}).get("median"))),
    Column("95% interval", _interval),
    Column("unit", "unit"),
    Column("limit", lambda row: f"{row['limit']:g}: {row['verdict']}" if row["verdict"] else ""),
    Column("notes", _notes),
)


def suite_table(result: Mapping[str, Any]) -> Table:
    """The table of a suite, and below it how many limits were kept."""
    verdicts = Counter(row["verdict"] for row in result["rows"] if row["verdict"])
    limits = f"limits: {', '.join(f'{count} {verdict}' for verdict, count in verdicts.items())}; " if verdicts else ""
    title = f"{result['suite']} on {result['device']}: {result['about']}"
    caption = f"{limits}medians of {result['rounds']} rounds with 95% intervals, {result['seconds']:.0f} seconds in all"
    return table(title, COLUMNS, result["rows"], caption)
