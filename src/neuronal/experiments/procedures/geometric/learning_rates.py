"""Every method over a whole list of learning rates: results and stability (the claim of ten times larger rates)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from neuronal.experiments.procedures.finding import Finding, Verdict, seeds_said
from neuronal.experiments.procedures.geometric.protocol_table import TEN_TIMES, UNITS, ahead
from neuronal.experiments.protocols import method, row_of
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.tune import choose

if TYPE_CHECKING:
    from neuronal.experiments.work import Work


JUDGED = (
    "Rates are chosen on held-out data. Ten times is at least 9.9 times every other's; larger than all, but by less, is a "
    "part. Who does best, at each one's own best rate and at the largest, is judged as under Table 3. Turns least: the "
    "largest step of any unit, median over seeds, is smaller than with every other method."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe at every one of ``rates``, with all seeds, choices on ``holdout`` of the training data."""
    rows, chosen = [], []
    tried = [
        [replace(recipe, lr=lr, holdout=setting.options["holdout"]) for lr in setting.options["rates"]]
        for recipe in setting.recipes
    ]
    # All at once first: there is more to divide.
    work.records([one for every in tried for one in every])
    for recipe, every in zip(setting.recipes, tried, strict=True):
        rows += [row_of(one, work) for one in every]
        choice = choose(work.records(every), "lr")[0]
        chosen.append(
            {"data": recipe.data, "method": method(recipe), "best": choice.best}
            | {"curve": [asdict(point) for point in choice.curve]}
        )
    return {"rows": rows, "chosen": chosen}


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Which rate is best for whom, results at each one's own best rate, and who stands the largest one."""
    result = answer["result"]
    found = []
    for data in dict.fromkeys(one["data"] for one in result["chosen"]):
        best = {one["method"]: one["best"] for one in result["chosen"] if one["data"] == data}
        rows = [row for row in result["rows"] if row["data"] == data]
        found += _ten_times(data, best)
        own = [row for row in rows if row["rate"] == best[row["method"]]]
        found += _does_best(f"{data}: at each one's own best rate GmP does best", own)
        largest = max(row["rate"] for row in rows)
        own = [row for row in rows if row["rate"] == largest]
        found += _does_best(f"{data}: at the largest rate, {largest:g}, GmP does best", own)
        found += _turns_least(f"{data}: at the largest rate, {largest:g}, units of GmP turn least in a step", own)
    return found


def _ten_times(data: str, best: Mapping[str, float | None]) -> list[Finding]:
    """No rate is the best of a method that failed at all of them."""
    rates = {name: rate for name, rate in best.items() if rate is not None}
    others = [rate for name, rate in rates.items() if name != "GmP"]
    if "GmP" not in best or not others:
        return []
    verdict: Verdict = "not reproduced"
    if "GmP" in rates and all(rates["GmP"] > rate for rate in others):
        ten = all(rates["GmP"] >= TEN_TIMES * rate for rate in others)
        verdict = "reproduced" if ten else "reproduced in part"
    numbers = ", ".join(f"{name} {'failed' if rate is None else format(rate, 'g')}" for name, rate in best.items())
    return [Finding(f"{data}: the best rate of GmP is ten times that of the others", verdict, numbers)]


def _does_best(claim: str, rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    own = [row for row in rows if "values" in row]
    if len(own) < 2 or not any(row["method"] == "GmP" for row in own):
        return []
    factor, unit, digits = UNITS[own[0]["measure"]]
    numbers = ", ".join(
        f"{r['method']} {format(factor * r['estimate']['mean'], digits)}{unit}"
        f" ± {format(factor * (r['estimate']['standard_error'] or 0), digits)}"
        for r in own
    )
    return [Finding(claim, ahead(own, "GmP"), f"{numbers} ({seeds_said(max(len(row['seeds']) for row in own))})")]


def _turns_least(claim: str, rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    turned = {row["method"]: median(row["largest_angle"]) for row in rows if "largest_angle" in row}
    others = [angle for name, angle in turned.items() if name != "GmP"]
    if "GmP" not in turned or not others:
        return []
    verdict: Verdict = "reproduced" if turned["GmP"] < min(others) else "not reproduced"
    numbers = ", ".join(f"{name} {value:.3g}°" for name, value in turned.items())
    return [Finding(claim, verdict, f"largest step, median over seeds: {numbers}")]
