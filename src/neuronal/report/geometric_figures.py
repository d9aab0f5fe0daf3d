"""Figures of the geometric paper's reproductions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neuronal.report.figures import MARKERS, Drawing, blank, colour


def protocol_table(answer: Mapping[str, Any]) -> list[Drawing]:
    """Every method beside the standard one, set by set; one figure per protocol."""
    found = []
    for protocol in ("published", "clean"):
        rows = [row for row in answer["result"]["rows"] if row["protocol"] == protocol and "estimate" in row]
        places = list(dict.fromkeys((row["data"], row["batch"]) for row in rows))
        lower = bool(rows) and rows[0]["measure"] == "rmse"
        with blank(f"{answer['reproduction']}-{protocol}") as sheet:
            methods = list(dict.fromkeys(row["method"] for row in rows))
            for number, method in enumerate(methods):
                x, y, error = [], [], []
                for place, (data, batch) in enumerate(places):
                    own = {r["method"]: r["estimate"] for r in rows if (r["data"], r["batch"]) == (data, batch)}
                    base = own.get(methods[0], {}).get("mean") if lower else 0.01
                    if method in own and base:
                        x.append(place + 0.14 * (number - (len(methods) - 1) / 2))
                        y.append(own[method]["mean"] / base)
                        error.append(2 * (own[method]["standard_error"] or 0.0) / base)
                style: dict[str, Any] = {"marker": MARKERS[number], "linestyle": "", "markersize": 4, "capsize": 2}
                sheet.axes.errorbar(x, y, yerr=error, color=colour(number), label=method, **style)
            with_batch = len({batch for _, batch in places}) > 1
            sheet.axes.set_xticks(range(len(places)), [str(batch) if with_batch else data for data, batch in places])
            sheet.axes.set(ylabel=f"test RMSE, {methods[0]} = 1" if lower and methods else "test accuracy (%)")
            if with_batch:
                sheet.axes.set(xlabel="batch size")
            sheet.axes.legend(ncols=2)
        caption = "Means over seeds, bars two standard errors to each side."
        found.append(Drawing(sheet.svg, f"{answer['title']}, {protocol}", caption))
    return found


FIGURES: dict[str, Any] = {"protocol_table": protocol_table}
"""By procedure."""
