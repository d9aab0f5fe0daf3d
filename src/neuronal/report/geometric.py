"""Tables of the geometric paper's reproductions: both protocols side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from neuronal.experiments.procedures.protocol_table import UNITS, reported_for
from neuronal.report.drawn import columns, title_of


def protocol_table(answer: Mapping[str, Any]) -> list[Table]:
    """One line per set, batch and method: reported, published and clean."""
    rows = answer["result"]["rows"]
    head = ["reported", "published", "its rate", "clean", "its rate", "failed"]
    drawn = columns(title_of(answer), ["data", "method"], head)
    images = any(row.get("measure") == "accuracy" for row in rows)
    for data, batch, method in dict.fromkeys((row["data"], row["batch"], row["method"]) for row in rows):
        own = {r["protocol"]: r for r in rows if (r["data"], r["batch"], r["method"]) == (data, batch, method)}
        given = reported_for(own["published"], answer["reported"])
        measure = next((row["measure"] for row in own.values() if "measure" in row), "rmse")
        cells = ["" if given is None else written(*given, measure)]
        for protocol in ("published", "clean"):
            row = own[protocol]
            estimate = row.get("estimate", {"mean": None, "standard_error": None})
            cells += [written(estimate["mean"], estimate["standard_error"], measure), f"{row['rate']:g}"]
        failed = sum(len(row["failed"]) for row in own.values())
        drawn.add_row(f"{data}, {batch}" if images else data, method, *cells, str(failed))
    seeds = max(len(row["seeds"]) for row in rows)
    what = "accuracy (%)" if images else "RMSE"
    drawn.caption = f"test {what}, mean ± standard error over {seeds} seeds; clean: the rate is tuned on held-out data"
    drawn.caption_justify = "left"
    return [drawn]


def written(mean: float | None, error: float | None, measure: str) -> str:
    """A mean with its error in the measure's own units and digits."""
    if mean is None:
        return "–"
    factor, _, digits = UNITS[measure]
    return format(factor * mean, digits) + ("" if error is None else f" ± {format(factor * error, digits)}")


TABLES: dict[str, Any] = {"protocol_table": protocol_table}
"""By procedure."""
