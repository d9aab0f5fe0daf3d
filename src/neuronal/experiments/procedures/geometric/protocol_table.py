"""Methods against each other on several sets, as published and cleanly (Tables 1, 2 and 3 of the geometric paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, Any

from neuronal.experiments.procedures.finding import Finding, Verdict
from neuronal.experiments.protocols import against, both, in_top5
from neuronal.experiments.reproduction import Setting

if TYPE_CHECKING:
    from neuronal.experiments.reproduce import Work

UNITS = {"rmse": (1.0, "", ".3f"), "accuracy": (100.0, "%", ".2f"), "top5": (100.0, "%", ".2f")}
"""Factor, unit and digits a measure is written with."""
WHAT = {"rmse": "lowest RMSE", "accuracy": "highest accuracy", "top5": "highest top-5 accuracy"}
NEAR = 0.99
"""A curve is there once it has this share of the best of all other methods."""


JUDGED = (
    "Best is ahead of every other method in the mean, and beyond chance (paired intervals at 95%, corrected for "
    "their number) against all; beyond chance against some of them is a part, against none it is not reproduced. Reported "
    "numbers are met within two standard errors of both. Where there are curves, fastest is who needs the fewest epochs "
    "to 99% of the highest mean accuracy that any method but the paper's gets to on the data followed; as fast as another "
    "is a part."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Rows of :func:`neuronal.experiments.protocols.both`, and the paper's method less the others, seed by seed.

    Where there are top-5 accuracies, that is done for them too (``top5_differences``).

    ``options``: those of :func:`both`, and ``best``, the method that is best according to the paper.
    """
    rows, best = both(setting.recipes, setting.options, work), setting.options["best"]
    found = {"rows": rows, "differences": against(rows, best), "best": best}
    five = against(in_top5(rows), best)
    return found | ({"top5_differences": five} if five else {})


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Whether the paper's method is best, and fastest, set by set and protocol by protocol; and the reported numbers."""
    result = answer["result"]
    found: list[Finding] = []
    five = in_top5(result["rows"])
    for rows, differences in ((result["rows"], result["differences"]), (five, result.get("top5_differences", ()))):
        for group in dict.fromkeys((row["data"], row["batch"], row["protocol"]) for row in rows):
            own = [r for r in rows if (r["data"], r["batch"], r["protocol"]) == group and "values" in r]
            gaps = [d for d in differences if (d["data"], d["batch"], d["protocol"]) == group]
            if own and gaps:
                found.append(_is_best(group, own, gaps, result["best"]))
    found += fastest(result["rows"], result["best"])
    reported = answer["reported"]
    return found + _reported(result["rows"], reported) + _reported(five, reported.get("top5", {}))


def fastest(rows: Sequence[Mapping[str, Any]], best: str) -> list[Finding]:
    """Figure 4: the epochs each method needs to nearly the best accuracy of all but the paper's."""
    found = []
    for group in dict.fromkeys((row["data"], row["batch"], row["protocol"]) for row in rows):
        own = {
            r["method"]: r["curves"] for r in rows if (r["data"], r["batch"], r["protocol"]) == group and "curves" in r
        }
        means = {
            name: [fmean(column) for column in zip(*as_long(curves["followed_accuracy"]), strict=True)]
            for name, curves in own.items()
        }
        others = [max(curve) for name, curve in means.items() if name != best]
        if best not in means or not others:
            continue
        level = NEAR * max(others)
        needed = {name: next((i for i, v in enumerate(curve, 1) if v >= level), inf) for name, curve in means.items()}
        rival = min(epochs for name, epochs in needed.items() if name != best)
        verdict: Verdict = "not reproduced"
        if needed[best] <= rival:
            verdict = "reproduced" if needed[best] < rival else "reproduced in part"
        epochs = ", ".join(f"{name} {'never' if count == inf else count}" for name, count in needed.items())
        data, batch, protocol = group
        claim = f"{data}, batches of {batch}: {best} converges fastest ({protocol})"
        found.append(Finding(claim, verdict, f"epochs to an accuracy of {100 * level:.1f}%, mean over seeds: {epochs}"))
    return found


def as_long(curves: Sequence[Sequence[float]]) -> list[list[float]]:
    """All as long as the longest; one that stopped early stays at its last value."""
    length = max(map(len, curves))
    return [[*curve, *[curve[-1]] * (length - len(curve))] for curve in curves]


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
    places = "" if batch is None or lower else f", batches of {batch}"
    count = f" ({max(len(r['seeds']) for r in rows)} seeds)"
    return Finding(
        f"{data}{places}: {best} has the {WHAT[rows[0]['measure']]} ({protocol})", verdict, means + beaten + count
    )


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
        name = f"{row['data']} {row['method']}" + (f" at {row['batch']}" if str(row["batch"]) in reported else "")
        (near if abs(row["estimate"]["mean"] - mean) <= spread else far).append(name)
    if not near and not far:
        return []
    verdict: Verdict = "reproduced" if not far else "reproduced in part" if near else "not reproduced"
    numbers = f"{len(near)} of {len(near) + len(far)} within two standard errors"
    five = "top-5 accuracies" if rows[0].get("measure") == "top5" else "numbers"
    return [Finding(f"the reported {five}, by the published protocol", verdict, numbers + _far(far))]


def _far(names: Sequence[str]) -> str:
    return f"; not {', '.join(names)}" if names else ""


def reported_for(row: Mapping[str, Any], reported: Mapping[str, Any]) -> tuple[float, float] | None:
    """The paper's mean and error for the row, by data or batch, then method."""
    for place in (row["data"], str(row["batch"])):
        if row["method"] in reported.get(place, {}):
            mean, error = reported[place][row["method"]]
            return mean, error
    return None
