"""One start for layers of every size: signals at the start, and what training makes of it (Section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from neuronal.data.catalogue import load
from neuronal.data.redrawn import redrawn
from neuronal.experiments.compare import estimate
from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.run import network
from neuronal.geometry.trace import outputs

if TYPE_CHECKING:
    from neuronal.experiments.reproduce import Work

STEADY = 1.5
"""Factor over all widths within which signals are called independent of the width."""
WORSE = 1.2
"""Factor over the least error from which on a network is said to train worse."""


JUDGED = (
    "A signal does not depend on the width if the largest is at most 1.5 times the smallest; the widest network "
    "trains as well if its error is at most 1.2 times the least and no seed fails."
)


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
    """Of every start: whether signals know the width, and whether the widest network trains as well as any other."""
    rows = [row for row in answer["result"]["rows"] if "estimate" in row]
    found = []
    for start in dict.fromkeys(row["start"] for row in rows):
        own = [row for row in rows if row["start"] == start]
        # Glorot's start knows the size of the layers; the paper claims that geometric units need not.
        if "Glorot" in start or len(own) < 2:
            continue
        signals, errors = [row["signal"] for row in own], [row["estimate"]["mean"] for row in own]
        does = start.startswith("GmP")
        same = max(signals) <= STEADY * min(signals)
        trains = errors[-1] <= WORSE * min(errors) and not any(row["failed"] for row in own)
        widest = [f"{row['start']} {row['estimate']['mean']:.3g}" for row in rows if row["width"] == own[-1]["width"]]
        found += [
            Finding(
                f"{start}: the signal at the start {'does not depend' if does else 'depends'} on the width",
                "reproduced" if same == does else "not reproduced",
                f"{min(signals):.2g} to {max(signals):.2g} over widths {own[0]['width']} to {own[-1]['width']}",
            ),
            Finding(
                f"{start}: the widest network {'trains as well as' if does else 'trains worse than'} narrower ones",
                "reproduced" if trains == does else "not reproduced",
                f"test RMSE {errors[-1]:.3g} at {own[-1]['width']}, least {min(errors):.3g}; all at that width: "
                f"{', '.join(widest)}",
            ),
        ]
    return found
