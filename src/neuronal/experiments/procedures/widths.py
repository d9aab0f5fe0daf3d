"""One start for layers of every size: signals at the start, and what training makes of it (Section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from neuronal.data.catalogue import load
from neuronal.data.redrawn import redrawn
from neuronal.experiments.compare import estimate
from neuronal.experiments.procedures.finding import Finding, Verdict
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.run import network
from neuronal.geometry.trace import outputs

if TYPE_CHECKING:
    from neuronal.experiments.reproduce import Work

STEADY = 3.0
"""Factor over all widths within which signals, or errors, are called independent of the width."""


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe at every one of ``widths``, two hidden layers of that width: signal at the start, test result."""
    rows = []
    for recipe in setting.recipes:
        for width in setting.options["widths"]:
            work.say(f"{recipe.name}, {width} units")
            one = replace(recipe, widths=(width, width))
            records = [record for record in work.records([one]) if record.failure is None]
            values = [record.metrics["rmse"] for record in records]
            rows.append(
                {"start": recipe.name, "width": width, "signal": fmean(_signal(one, seed) for seed in one.seeds)}
                | {"values": values, "failed": len(one.seeds) - len(values)}
                | ({"estimate": asdict(estimate(values))} if values else {})
            )
    return {"rows": rows}


def _signal(recipe: Recipe, seed: int) -> float:
    """Root mean square of what the last hidden layer puts out before training."""
    data = load(recipe.data)
    data = (redrawn(data, recipe.redrawn, seed) if recipe.redrawn else data).scaled(recipe.scaling)
    features = network(recipe, data, seed).features
    return float(outputs(features, data.train.x).double().square().mean().sqrt())  # type: ignore[arg-type]


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """For every start: does the signal, and does the result, depend on the width?"""
    rows = answer["result"]["rows"]
    found = []
    for start in dict.fromkeys(row["start"] for row in rows):
        own = [row for row in rows if row["start"] == start and "estimate" in row]
        if not own:
            continue
        signals, errors = [row["signal"] for row in own], [row["estimate"]["mean"] for row in own]
        steady = _factor(signals) <= STEADY and _factor(errors) <= STEADY and not any(row["failed"] for row in own)
        # The paper says so of geometric units, and the opposite of others whose start does not know the width.
        claimed = start.startswith("GmP")
        verdict: Verdict = "reproduced" if steady == (claimed or "Glorot" in start) else "not reproduced"
        numbers = (
            f"widths {own[0]['width']} to {own[-1]['width']}: signal {min(signals):.2g} to {max(signals):.2g}, "
            f"test RMSE {min(errors):.3g} to {max(errors):.3g}"
        )
        depends = (
            "works for layers of any size" if claimed or "Glorot" in start else "depends on the size of the layers"
        )
        found.append(Finding(f"{start}: {depends}", verdict, numbers))
    return found


def _factor(values: Sequence[float]) -> float:
    return max(values) / min(values) if min(values) > 0 else float("inf")
