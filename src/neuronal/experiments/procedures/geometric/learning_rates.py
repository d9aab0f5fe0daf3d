"""Every method over a whole list of learning rates: results and stability (the claim of ten times larger rates)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from neuronal.experiments.procedures.finding import Finding, Verdict
from neuronal.experiments.procedures.geometric.protocol_table import UNITS, ahead
from neuronal.experiments.protocols import method, row_of
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.tune import choose

if TYPE_CHECKING:
    from neuronal.experiments.reproduce import Work


JUDGED = (
    "Rates are chosen on held-out data. Ten times is at least 9.9 times every other's; at least as large as all "
    "and larger than some is a part. Best at each one's own best rate: ahead in the mean by more than two standard errors "
    "of each difference; ahead by less is a part. Turns least: the largest step of any unit, median over seeds, is the "
    "smallest of all methods."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe at every one of ``rates``, with all seeds, choices on ``holdout`` of the training data."""
    rows, chosen = [], []
    for recipe in setting.recipes:
        work.say(recipe.name)
        every = [replace(recipe, lr=lr, holdout=setting.options["holdout"]) for lr in setting.options["rates"]]
        rows += [row_of(one, work) for one in every]
        choice = choose(work.records(every), "lr")[0]
        chosen.append(
            {"data": recipe.data, "method": method(recipe), "best": choice.best}
            | {"curve": [asdict(point) for point in choice.curve]}
        )
    return {"rows": rows, "chosen": chosen}


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Which rate is best for whom, who stands the largest one, and results at each one's own best rate."""
    result = answer["result"]
    found = []
    for data in dict.fromkeys(one["data"] for one in result["chosen"]):
        best = {one["method"]: one["best"] for one in result["chosen"] if one["data"] == data}
        if best.get("GmP") is None or None in best.values():
            continue
        others = [rate for name, rate in best.items() if name != "GmP"]
        verdict: Verdict = "not reproduced"
        if all(best["GmP"] >= 9.9 * rate for rate in others):
            verdict = "reproduced"
        elif all(best["GmP"] >= rate for rate in others) and any(best["GmP"] > rate for rate in others):
            verdict = "reproduced in part"
        numbers = ", ".join(f"{name} {rate:g}" for name, rate in best.items())
        found.append(Finding(f"{data}: the best rate of GmP is ten times that of the others", verdict, numbers))
        found += _at_own_best(data, best, result["rows"])
        found += _at_largest(data, result["rows"])
    return found


def _at_own_best(data: str, best: Mapping[str, float], rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    own = [r for r in rows if r["data"] == data and r["rate"] == best[r["method"]] and "values" in r]
    if len(own) < 2:
        return []
    factor, unit, digits = UNITS[own[0]["measure"]]
    numbers = ", ".join(
        f"{r['method']} {format(factor * r['estimate']['mean'], digits)}{unit}"
        f" ± {format(factor * (r['estimate']['standard_error'] or 0), digits)}"
        for r in own
    )
    gmp = next(row for row in own if row["method"] == "GmP")
    verdict = ahead(own, "GmP")
    return [
        Finding(f"{data}: at each one's own best rate GmP does best", verdict, f"{numbers} ({len(gmp['seeds'])} seeds)")
    ]


def _at_largest(data: str, rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """How far units turn in a step at the largest rate."""
    largest = max(row["rate"] for row in rows)
    own = [r for r in rows if r["data"] == data and r["rate"] == largest and "largest_angle" in r]
    if not any(row["method"] == "GmP" for row in own) or len(own) < 2:
        return []
    turned = {row["method"]: median(row["largest_angle"]) for row in own}
    least = min(turned, key=lambda name: turned[name]) == "GmP"
    numbers = ", ".join(f"{name} {value:.3g}°" for name, value in turned.items())
    verdict: Verdict = "reproduced" if least else "not reproduced"
    claim = f"{data}: at the largest rate, {largest:g}, units of GmP turn least in a step"
    return [Finding(claim, verdict, f"largest step, median over seeds: {numbers}")]
