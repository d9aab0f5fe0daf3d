"""Methods against each other on several sets, as published and cleanly (Tables 1, 2 and 3 of the geometric paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from neuronal.experiments.procedures.finding import Finding, Verdict
from neuronal.experiments.protocols import against, both
from neuronal.experiments.reproduction import Setting

if TYPE_CHECKING:
    from neuronal.experiments.reproduce import Work

UNITS = {"rmse": (1.0, "", ".3f"), "accuracy": (100.0, "%", ".2f")}
"""Factor, unit and digits a measure is written with."""


JUDGED = (
    "Best is ahead of every other method in the mean, and beyond chance (paired intervals at 95%, corrected for "
    "their number) against all; without that it is a part. Reported numbers are met within two standard errors of "
    "both."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Rows of :func:`neuronal.experiments.protocols.both`, and the paper's method less the others, seed by seed.

    ``options``: those of :func:`both`, and ``best``, the method that is best according to the paper.
    """
    rows = both(setting.recipes, setting.options, work)
    return {"rows": rows, "differences": against(rows, setting.options["best"]), "best": setting.options["best"]}


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Whether the paper's method is best, set by set and protocol by protocol; and the reported numbers."""
    result = answer["result"]
    found = []
    groups = dict.fromkeys((row["data"], row["batch"], row["protocol"]) for row in result["rows"])
    for group in groups:
        own = [r for r in result["rows"] if (r["data"], r["batch"], r["protocol"]) == group and "values" in r]
        gaps = [d for d in result["differences"] if (d["data"], d["batch"], d["protocol"]) == group]
        if own and gaps:
            found.append(_is_best(group, own, gaps, result["best"]))
    return found + _reported(result["rows"], answer["reported"])


def _is_best(
    group: tuple[str, int, str], rows: Sequence[Mapping[str, Any]], gaps: Sequence[Mapping[str, Any]], best: str
) -> Finding:
    data, batch, protocol = group
    lower = rows[0]["measure"] == "rmse"
    better = [gap for gap in gaps if (gap["mean"] < 0) == lower]
    shown = [gap for gap in better if gap["is_shown"]]
    verdict: Verdict = "not reproduced"
    if len(better) == len(gaps) and shown:
        verdict = "reproduced" if len(shown) == len(gaps) else "reproduced in part"
    factor, unit, digits = UNITS[rows[0]["measure"]]
    means = ", ".join(f"{r['method']} {format(factor * r['estimate']['mean'], digits)}{unit}" for r in rows)
    beaten = (
        f"; beyond chance against {', '.join(gap['against'] for gap in shown)}" if shown else "; none beyond chance"
    )
    what = "lowest RMSE" if lower else "highest accuracy"
    places = "" if batch is None or lower else f", batches of {batch}"
    count = f" ({max(len(r['seeds']) for r in rows)} seeds)"
    return Finding(f"{data}{places}: {best} has the {what} ({protocol})", verdict, means + beaten + count)


def ahead(rows: Sequence[Mapping[str, Any]], best: str) -> Verdict:
    """Whether a method has the best mean of all rows, and by more than two standard errors of the difference."""
    sign = -1 if rows[0]["measure"] == "rmse" else 1
    own = next(row["estimate"] for row in rows if row["method"] == best)
    others = [row["estimate"] for row in rows if row["method"] != best]
    gaps = [sign * (own["mean"] - one["mean"]) for one in others]
    errors = [((own["standard_error"] or 0.0) ** 2 + (one["standard_error"] or 0.0) ** 2) ** 0.5 for one in others]
    if min(gaps) <= 0:
        return "not reproduced"
    return "reproduced" if all(gap > 2 * e for gap, e in zip(gaps, errors, strict=True)) else "reproduced in part"


def _reported(rows: Sequence[Mapping[str, Any]], reported: Mapping[str, Any]) -> list[Finding]:
    """How many of the paper's numbers are met by its own protocol, within twice both standard errors."""
    near: list[str] = []
    far: list[str] = []
    for row in rows:
        given = reported_for(row, reported)
        if row["protocol"] != "published" or given is None or "estimate" not in row:
            continue
        mean, error = given
        spread = 2 * (error**2 + (row["estimate"]["standard_error"] or 0.0) ** 2) ** 0.5
        (near if abs(row["estimate"]["mean"] - mean) <= spread else far).append(f"{row['data']} {row['method']}")
    if not near and not far:
        return []
    verdict: Verdict = "reproduced" if not far else "reproduced in part" if near else "not reproduced"
    numbers = f"{len(near)} of {len(near) + len(far)} within two standard errors"
    return [Finding("the reported numbers, by the published protocol", verdict, numbers + _far(far))]


def _far(names: Sequence[str]) -> str:
    return f"; not {', '.join(names)}" if names else ""


def reported_for(row: Mapping[str, Any], reported: Mapping[str, Any]) -> tuple[float, float] | None:
    """The paper's mean and error for the row, by data or batch, then method."""
    for place in (row["data"], str(row["batch"])):
        if row["method"] in reported.get(place, {}):
            mean, error = reported[place][row["method"]]
            return mean, error
    return None
