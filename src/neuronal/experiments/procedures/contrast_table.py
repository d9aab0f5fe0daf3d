"""Accuracy at lower and lower contrast, with and without biases (Table 1 of the zero-bias papers)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from neuronal.experiments.compare import difference, estimate
from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.record import Record
from neuronal.experiments.reproduction import Setting

if TYPE_CHECKING:
    from neuronal.experiments.reproduce import Work

FLAT = 0.005
"""Accuracies over contrasts that differ by less are called the same: rounding decides a few near-ties."""
POOR = 5.0
"""Points of accuracy by which a network has to lag to be called poor; the paper gives no number."""
COMPARABLE = 3.0
"""Points of accuracy within which two networks are called comparable; the paper gives no number."""


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Trains every recipe with every seed: accuracy at each multiplier, seed by seed and as a mean with its error."""
    records = work.records(setting.recipes)
    rows = []
    for recipe in setting.recipes:
        own = [r for r in records if r.recipe.name == recipe.name and r.recipe.family == recipe.family]
        rows.append(_row(recipe.name, recipe.family, own) | ({"augmented": True} if recipe.contrast else {}))
    return {"rows": rows, "differences": _differences(rows)}


def _row(name: str, family: str, records: Sequence[Record]) -> dict[str, Any]:
    sound = [record for record in records if record.failure is None]
    row: dict[str, Any] = {
        "name": name,
        "neuron": family,
        "seeds": [record.seed for record in sound],
        "failed": {str(r.seed): r.failure.reason for r in records if r.failure},
    }
    if not sound:
        return row
    multipliers = sound[0].probes["contrast"]["multipliers"]
    curves = [record.probes["contrast"]["accuracy"] for record in sound]
    columns = list(zip(*curves, strict=True))
    return row | {
        "multipliers": multipliers,
        "accuracy": [list(curve) for curve in curves],
        "estimates": [asdict(estimate(column)) for column in columns],
        "parameters": sound[0].metrics["parameters"],
        "seconds": sum(record.seconds for record in sound),
    }


def _differences(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every other row against the first one at full contrast, seed by seed."""
    measured = [row for row in rows if "accuracy" in row]
    if len(measured) < 2:
        return []
    full = [dict(zip(row["seeds"], (curve[0] for curve in row["accuracy"]), strict=True)) for row in measured]
    return [
        {"row": row["name"], "neuron": row["neuron"], "against": measured[0]["name"]}
        | asdict(difference(own, full[0], comparisons=len(measured) - 1))
        for row, own in zip(measured[1:], full[1:], strict=True)
        if set(own) & set(full[0])
    ]


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Flatness of the zero-bias rows, fall of the others, and how far the accuracies are from the reported ones."""
    found = []
    rows = [row for row in answer["result"]["rows"] if "accuracy" in row]
    for row in rows:
        if row.get("augmented"):
            found += _augmented(row, next((other for other in rows if other["neuron"] == "zero_bias"), None))
            continue
        changes = [max(abs(value - curve[0]) for value in curve) for curve in row["accuracy"]]
        seeds = f"{len(changes)} seeds"
        if row["neuron"] == "zero_bias":
            exact = max(changes) <= FLAT
            found.append(
                Finding(
                    f"{row['name']}: without biases accuracy does not depend on contrast",
                    "reproduced" if exact else "not reproduced",
                    f"largest change over {len(row['multipliers'])} multipliers {100 * max(changes):.2f} points ({seeds})",
                )
            )
        else:
            lowest = [100 * min(curve) for curve in row["accuracy"]]
            falls = min(changes) > 0.05
            found.append(
                Finding(
                    f"{row['name']}: with biases accuracy falls as contrast does",
                    "reproduced" if falls else "not reproduced",
                    f"lowest accuracy {min(lowest):.1f} to {max(lowest):.1f}% ({seeds})",
                )
            )
        found += _against_reported(row, answer["reported"])
    return found


def _augmented(row: Mapping[str, Any], zero_bias: Mapping[str, Any] | None) -> list[Finding]:
    """A biased network that saw all contrasts, against a zero-bias one that saw none but the full one."""
    if zero_bias is None:
        return []
    seeds = f"{len(row['seeds'])} seeds"
    gaps = {
        s: 100 * (own["mean"] - other["mean"])
        for s, own, other in zip(row["multipliers"], row["estimates"], zero_bias["estimates"], strict=True)
    }
    dark, middle = ([gap for s, gap in gaps.items() if low <= s <= high] for low, high in ((0, 0.001), (0.01, 0.25)))
    return [
        Finding(
            f"{row['name']}: with biases accuracy stays poor at contrasts of 0.001 and less, whatever was trained on",
            "reproduced" if max(dark) < -POOR else "not reproduced" if min(dark) >= -POOR else "reproduced in part",
            f"{_points(dark)} against zero-bias networks trained at full contrast only ({seeds})",
        ),
        Finding(
            f"{row['name']}: at contrasts from 0.25 to 0.01 it is merely comparable to zero-bias networks",
            "reproduced" if max(map(abs, middle)) <= COMPARABLE else "not reproduced",
            f"{_points(middle)} against them ({seeds})",
        ),
    ]


def _points(gaps: Sequence[float]) -> str:
    return f"{min(gaps):+.1f} to {max(gaps):+.1f} points"


def _against_reported(row: Mapping[str, Any], reported: Mapping[str, Any]) -> list[Finding]:
    given = reported.get(row["neuron"])
    if given is None:
        return []
    mean, error = row["estimates"][0]["mean"], row["estimates"][0]["standard_error"]
    spread = 0.0 if error is None else 2 * error
    near = abs(mean - given["mean"]) <= max(spread, given.get("spread", 0.0), 0.005)
    within = f"{100 * mean:.2f}%" + ("" if error is None else f" ± {100 * error:.2f}")
    return [
        Finding(
            f"{row['name']}: accuracy {100 * given['mean']:.2f}% at full contrast ({row['neuron']})",
            "reproduced" if near else "reproduced in part" if abs(mean - given["mean"]) < 0.03 else "not reproduced",
            f"{within} ({len(row['seeds'])} seeds)",
        )
    ]
