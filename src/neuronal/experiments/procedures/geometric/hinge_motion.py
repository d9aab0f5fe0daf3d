"""How boundaries move while small networks are trained, and what comes of it (Figures 2 and 3 of the geometric paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from neuronal.data.catalogue import load
from neuronal.data.dataset import Dataset
from neuronal.data.redrawn import redrawn
from neuronal.experiments.procedures.finding import Finding, Verdict
from neuronal.experiments.procedures.geometric import protocol_table
from neuronal.experiments.protocols import method, row_of
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Setting
from neuronal.geometry.trace import outputs

if TYPE_CHECKING:
    from neuronal.experiments.reproduce import Work

GRID = 41
"""Points per side of what is drawn of a network of the plane."""
KEYS = {1: ("largest_distance", "moves"), 2: ("largest_angle", "turns")}
"""What is followed of points and of lines."""


JUDGED = (
    "Lowest RMSE or highest accuracy: ahead of every other method in the mean, and beyond chance (paired intervals at 95%, "
    "corrected for their number) against all; against some of them is a part, against none it is not reproduced. A boundary "
    "moves, or turns, least if the largest step of any of its units, median over seeds, is the smallest of all methods. "
    "Best with every method at one rate: ahead in the mean by more than two standard errors of each difference; ahead by "
    "less is a part."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Both protocols, all methods at the same rates, and pictures of the first seed.

    ``options``: those of the protocols, and ``same_rates``, at which every method is trained as published.
    """
    result = protocol_table.measure(setting, work)
    rates = [replace(one, lr=lr) for one in setting.recipes for lr in setting.options["same_rates"]]
    return result | {
        "same_rates": [row_of(recipe, work) for recipe in rates],
        "pictures": [_picture(recipe, work) for recipe in setting.recipes],
        "inputs": load(setting.recipes[0].data).shape[0],
    }


def _picture(recipe: Recipe, work: Work) -> dict[str, Any]:
    """Motion of the first seed step by step, the places of its units, and what the network puts out."""
    seed = recipe.seeds[0]
    record, model = work.network(recipe, seed)
    seen = dict(record.probes["hinge_motion"])
    source = load(recipe.data)
    data = redrawn(source, recipe.redrawn, seed) if recipe.redrawn else source
    scaled = data.scaled(recipe.scaling)
    low, high = (getattr(scaled.train.x, name)(0).tolist() for name in ("amin", "amax"))
    low, high = [value - 0.3 for value in low], [value + 0.3 for value in high]
    grid = _grid(low, high)
    scores = outputs(model, grid).double()
    value = scores[:, 0] if data.task == "regression" else scores[:, 1] - scores[:, 0]
    return {
        "method": method(recipe),
        "rate": recipe.lr,
        **{name: seen[name] for name in ("steps", "every", "angle", "distance", "places")},
        "low": low,
        "high": high,
        "value": [float(f"{one:.4g}") for one in value.tolist()],
        **_points(scaled),
    }


def _grid(low: Sequence[float], high: Sequence[float]) -> torch.Tensor:
    sides = [torch.linspace(a, b, GRID if len(low) == 2 else 4 * GRID) for a, b in zip(low, high, strict=True)]
    return torch.cartesian_prod(*sides).view(-1, len(low))


def _points(data: Dataset) -> dict[str, Any]:
    """Some of the training points, and of a curve the truth."""
    some = data.train.rows(slice(200))
    found: dict[str, Any] = {"points": _short(some.x.tolist()), "answers": [round(y, 3) for y in some.y.tolist()]}
    if data.task == "regression":
        found["truth"] = _short(torch.stack([data.test.x[:, 0], data.test.y], 1).tolist())
    return found


def _short(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[float(f"{value:.4g}") for value in row] for row in rows]


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Who is best by both protocols; how far boundaries move; and the same at one rate."""
    result = answer["result"]
    found = list(protocol_table.findings(answer))
    key, verb = KEYS[result["inputs"]]
    for rate in sorted({row["rate"] for row in result["same_rates"]}):
        rows = {r["method"]: r for r in result["same_rates"] if r["rate"] == rate and "values" in r}
        if "GmP" not in rows or len(rows) < 2:
            continue
        least = all(median(rows["GmP"][key]) <= median(row[key]) for row in rows.values())
        unit = "°" if result["inputs"] == 2 else ""
        numbers = ", ".join(f"{m} {median(r[key]):.3g}{unit} (at most {max(r[key]):.3g})" for m, r in rows.items())
        found.append(
            Finding(
                f"{rows['GmP']['data']}: with GmP the boundary {verb} least per step, all at rate {rate:g}",
                "reproduced" if least else "not reproduced",
                f"largest step of any unit, median over {len(rows['GmP'][key])} seeds: {numbers}",
            )
        )
        found.append(_alike(rows, rate))
    return found + _below_one(result)


def _alike(rows: Mapping[str, Mapping[str, Any]], rate: float) -> Finding:
    """At one rate for all, is GmP still the best?"""
    factor, unit, digits = protocol_table.UNITS[rows["GmP"]["measure"]]
    numbers = ", ".join(
        f"{m} {format(factor * r['estimate']['mean'], digits)}{unit}"
        f" ± {format(factor * (r['estimate']['standard_error'] or 0), digits)}"
        for m, r in rows.items()
    )
    return Finding(
        f"{rows['GmP']['data']}: GmP is the best with every method at rate {rate:g} (published)",
        protocol_table.ahead(list(rows.values()), "GmP"),
        numbers,
    )


def _below_one(result: Mapping[str, Any]) -> list[Finding]:
    """Figure 2c: on the line no point moves by 1 or more in a step."""
    if result["inputs"] != 1:
        return []
    row = next(
        (r for r in result["rows"] if r["method"] == "GmP" and r["protocol"] == "published" and "values" in r), None
    )
    if row is None:
        return []
    moved = row["largest_distance"]
    verdict: Verdict = "reproduced" if max(moved) < 1 else "not reproduced"
    return [Finding("with GmP no point moves by 1 or more in a step (rate 0.1)", verdict, f"largest {max(moved):.3g}")]
