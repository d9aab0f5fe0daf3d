"""How boundaries move while small networks are trained, and what comes of it (Figures 2 and 3 of the geometric paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from neuronal.data.catalogue import load
from neuronal.data.dataset import Dataset
from neuronal.experiments.procedures.finding import Finding, Verdict, ours
from neuronal.experiments.procedures.geometric import protocol_table
from neuronal.experiments.protocols import measure_of, method, row_of
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import cell_name
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.run import drawn, network
from neuronal.geometry.trace import outputs

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

GRID = 33
"""Points per side of what is drawn of a network of the plane."""
KEYS = {1: ("distance", "moves"), 2: ("angle", "turns")}
"""What is followed of points and of lines."""
SNAPSHOTS = {1: 20, 2: 40}
"""At most so many, and the last, of where the points, or lines, are; there are far more points than lines."""


SHOWN = 0.1
"""The rate at which the paper shows steps."""
JUDGED = (
    "Lowest RMSE, highest accuracy, and best with every method at one rate: as under Table 3. A boundary moves, or turns, "
    "least if the largest step of any of its units, median over seeds, is smaller than that of every other method; a tie is "
    "not least. The paper shows steps at rate 0.1, and compares results at two rates; the rest is ours."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Both protocols, all methods at the same rates, and pictures of the first seed at these rates.

    ``options``: those of the protocols, and ``same_rates``, at which every method is trained as published.
    """
    result = protocol_table.measure(setting, work)
    rates = [replace(one, lr=lr) for one in setting.recipes for lr in setting.options["same_rates"]]
    # All at once first: there is more to divide.
    work.records(rates)
    rows = [row_of(recipe, work) for recipe in rates]
    data = drawn(load(rates[0].data), rates[0], rates[0].seeds[0])
    trained = [one for one, row in zip(rates, rows, strict=True) if one.seeds[0] in row["seeds"]]
    return result | {
        "same_rates": rows,
        "inputs": data.shape[0],
        "drawn": _points(data),
        # One rate for all, as in Figure 3i: at two rates a curve says more of its rate than of its method.
        "pictures": [_picture(recipe, data, work) for recipe in trained],
    }


def _picture(recipe: Recipe, data: Dataset, work: Work) -> dict[str, Any]:
    """Motion of the first seed step by step, the places of its units, and what the network puts out."""
    seed = recipe.seeds[0]
    record, model = work.network(recipe, seed)
    seen, measure = record.probes["hinge_motion"], measure_of([record])
    # A picture of other weights than those that were judged, copied there by whoever, would be worse than none.
    if abs((test := _test(model, data)) - record.metrics[measure]) > 0.01:
        raise ValueError(
            f"The weights kept of {recipe.name} at rate {recipe.lr:g} are not those of its record: test {measure} "
            f"{test:.4g}, in the record {record.metrics[measure]:.4g}. Remove "
            f"{(work.folder / 'cells' / cell_name(recipe, seed)).with_suffix('.safetensors')} and run again."
        )
    key, places = KEYS[data.shape[0]][0], seen["places"]
    apart = -(-len(places) // SNAPSHOTS[data.shape[0]])
    grid = _grid(*_window(data))
    found = {
        "method": method(recipe),
        "rate": recipe.lr,
        "measure": measure,
        "test": record.metrics[measure],
        "every": seen["every"],
        key: _short([seen[key]])[0],
        "places": [[at, _short(where)] for at, where in (*places[:-1:apart], places[-1])],
        "value": _shown(model, grid, data),
    }
    if data.task == "regression":
        found["value_at_start"] = _shown(network(recipe, data, seed), grid, data)
    return found


def _test(model: nn.Module, data: Dataset) -> float:
    scores = outputs(model, data.test.x).double()
    if data.task == "regression":
        return float((scores[:, 0] - data.test.y).square().mean().sqrt())
    return float((scores.argmax(1) == data.test.y).double().mean())


def _window(data: Dataset) -> tuple[list[float], list[float]]:
    low, high = (getattr(data.train.x, name)(0).tolist() for name in ("amin", "amax"))
    return [value - 0.3 for value in low], [value + 0.3 for value in high]


def _shown(model: nn.Module, grid: torch.Tensor, data: Dataset) -> list[float]:
    """What is put out on the grid; of two classes, by how much the second is ahead."""
    scores = outputs(model, grid).double()
    value = scores[:, 0] if data.task == "regression" else scores[:, 1] - scores[:, 0]
    return _short([value.tolist()])[0]


def _grid(low: Sequence[float], high: Sequence[float]) -> torch.Tensor:
    sides = [torch.linspace(a, b, GRID if len(low) == 2 else 4 * GRID) for a, b in zip(low, high, strict=True)]
    return torch.cartesian_prod(*sides).view(-1, len(low))


def _points(data: Dataset) -> dict[str, Any]:
    """What all pictures share: the window, some of the training points, and of a curve the truth."""
    low, high = _window(data)
    some = data.train.rows(slice(200))
    found: dict[str, Any] = {"low": low, "high": high, "points": _short(some.x.tolist())}
    found["answers"] = [round(y, 3) for y in some.y.tolist()]
    if data.task == "regression":
        found["truth"] = _short(torch.stack([data.test.x[:, 0], data.test.y], 1).tolist())
    return found


def _short(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Digits enough for a picture."""
    return [[float(f"{value:.3g}") for value in row] for row in rows]


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Who is best by both protocols; how far boundaries move; and the same at one rate."""
    result = answer["result"]
    found = list(protocol_table.findings(answer))
    for rate in sorted({row["rate"] for row in result["same_rates"]}):
        rows = {r["method"]: r for r in result["same_rates"] if r["rate"] == rate and "values" in r}
        if "GmP" in rows and len(rows) > 1:
            least = _least(rows, rate, result["inputs"])
            found += [least if rate == SHOWN else ours(least), ours(_alike(rows, rate))]
    return found + _below_one(result)


def _least(rows: Mapping[str, Mapping[str, Any]], rate: float, inputs: int) -> Finding:
    """At one rate for all, do the boundaries of GmP move, or turn, less than any other's?"""
    key, verb = KEYS[inputs]
    steps = {name: row[f"largest_{key}"] for name, row in rows.items()}
    others = [median(values) for name, values in steps.items() if name != "GmP"]
    unit = "°" if inputs == 2 else ""
    numbers = ", ".join(f"{m} {median(v):.3g}{unit} (at most {max(v):.3g})" for m, v in steps.items())
    if inputs == 1:
        numbers += "; on a line the direction of GmP is a fixed sign: its units turn by 0 by construction"
    return Finding(
        f"{rows['GmP']['data']}: with GmP the boundary {verb} least per step, all at rate {rate:g}",
        "reproduced" if median(steps["GmP"]) < min(others) else "not reproduced",
        f"largest step of any unit, median over {len(steps['GmP'])} seeds: {numbers}",
    )


def _alike(rows: Mapping[str, Mapping[str, Any]], rate: float) -> Finding:
    """At one rate for all, is GmP still the best? A mean may hide seeds of two kinds, so all of them are told."""
    factor, unit, digits = protocol_table.UNITS[rows["GmP"]["measure"]]

    def text(value: float) -> str:
        return format(factor * value, digits)

    numbers = ", ".join(
        f"{m} {text(r['estimate']['mean'])}{unit} ± {text(r['estimate']['standard_error'] or 0)}"
        f" (median {text(median(r['values']))}, {text(min(r['values']))} to {text(max(r['values']))})"
        for m, r in rows.items()
    )
    return Finding(
        f"{rows['GmP']['data']}: GmP is the best with every method at rate {rate:g} (published)",
        protocol_table.ahead(list(rows.values()), "GmP"),
        f"mean ± standard error (median and range over {len(rows['GmP']['values'])} seeds): {numbers}",
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
