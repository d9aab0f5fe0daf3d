"""Two methods at one and the same learning rate, with as many seeds as it takes to tell them apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from neuronal.experiments.procedures.finding import Finding, ours, seeds_said
from neuronal.experiments.procedures.geometric.protocol_table import UNITS, judged
from neuronal.experiments.protocols import against, row_of
from neuronal.experiments.reproduction import Setting

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

JUDGED = (
    "Seed by seed: shown if the 95% interval of the difference of the means is on one side; it is as wide as under Table 3. "
    "The paper compares no two methods at one rate."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe as published, and with ``holdout`` of the training data deciding when to stop; at its own rate.

    ``options``: ``holdout``; ``best``, the method that is better according to the paper.
    """
    rows = []
    for recipe in setting.recipes:
        work.say(recipe.name)
        clean = replace(recipe, protocol="clean", holdout=setting.options["holdout"])
        rows += [row_of(recipe, work), row_of(clean, work)]
    return {"rows": rows, "differences": against(rows, setting.options["best"])}


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """One for every protocol and other method."""
    result = answer["result"]
    found = []
    for gap in result["differences"]:
        own = {r["method"]: r for r in result["rows"] if r["protocol"] == gap["protocol"] and "values" in r}
        one, other = own[gap["method"]], own[gap["against"]]
        factor, unit, digits = UNITS[one["measure"]]
        means = ", ".join(f"{r['method']} {format(factor * r['estimate']['mean'], digits)}{unit}" for r in (one, other))
        numbers = f"{means}; difference {format(factor * gap['mean'], '+' + digits)}"
        if gap["low"] is not None:
            low, high = (format(factor * gap[end], "+" + digits) for end in ("low", "high"))
            numbers += f" (95%: {low} to {high})"
        claim = f"{gap['data']}: {gap['method']} does better than {gap['against']} at the same rate, {one['rate']:g}"
        verdict = judged([gap], one["measure"])
        found.append(
            ours(Finding(f"{claim} ({gap['protocol']})", verdict, f"{numbers}, {seeds_said(gap['num_seeds'])}"))
        )
    return found
