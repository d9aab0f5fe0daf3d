"""Accuracy at lower and lower contrast, with and without biases (Table 1 of the zero-bias papers)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import variance
from typing import TYPE_CHECKING, Any

from neuronal.experiments.compare import Difference, difference, estimate
from neuronal.experiments.procedures.finding import BEYOND, Finding, Verdict, seeds_said
from neuronal.experiments.record import Record
from neuronal.experiments.reproduction import Setting

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

FLAT = 0.005
"""Accuracies over contrasts that differ by less are called the same: rounding decides a few near-ties."""
NEAR, FAR = 0.005, 0.03
"""An accuracy this near to the reported one is reproduced, one this far from it is not; between them it is in part."""
SHARP = 0.01
"""Standard errors that are larger leave open whether an accuracy is reproduced."""
SIMILAR = 0.0155
"""Accuracies with and without biases that differ by no more are similar: the largest difference the paper calls so."""
VARIANCE = 0.5
"""Of the accuracies in percent, over three runs: the paper says that all of its own are below."""
POOR = 5.0
"""Points of accuracy by which a network has to lag to be called poor; the paper gives no number."""
COMPARABLE = 3.0
"""Points of accuracy within which two networks are called comparable; the paper gives no number."""
JUDGED = (
    f"Accuracy does not depend on contrast if it changes by at most {100 * FLAT:g} points, and falls if by more than 5. It "
    f"agrees with the paper within {100 * NEAR:g} points or two standard errors, which for more than a part must not be "
    f"above {100 * SHARP:g} point; at full contrast {100 * FAR:g} points are a part, and of lower contrasts half are. "
    "Accuracies with and without biases are similar if the 95% interval (Student's t) of their difference, seed by seed, "
    f"lies within {100 * SIMILAR:g} points, the largest difference in Table 1, and in part if the mean alone does. Poor is "
    f"more than {POOR:g} points behind, comparable within {COMPARABLE:g}."
)


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
    """Flatness of the zero-bias rows, fall of the others, and how far the accuracies are from each other's and reported."""
    rows = [row for row in answer["result"]["rows"] if "accuracy" in row]
    if augmented := [row for row in rows if row.get("augmented")]:
        # The networks beside them are those of another table, and judged there.
        zero_bias = next((row for row in rows if row["neuron"] == "zero_bias"), None)
        return [finding for row in augmented for finding in _augmented(row, zero_bias)]
    found: list[Finding] = []
    for row in rows:
        found += [
            _flat(row) if row["neuron"] == "zero_bias" else _falls(row),
            *_against_reported(row, answer["reported"]),
        ]
    found += [_similar(row, other) for row in rows for other in rows if _is_twin(row, other)]
    if answer["reported"]:
        found += _variances(rows)
    ways = [row for row in rows if row["neuron"] == "zero_bias" and not any(_is_twin(row, other) for other in rows)]
    return found + [_more_accurate(other, ways[0]) for other in ways[1:]]


def _is_twin(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """The same network without and with biases."""
    return bool(row["name"] == other["name"] and row["neuron"] == "zero_bias" != other["neuron"])


def _seeds(row: Mapping[str, Any]) -> str:
    return f"{len(row['seeds'])} seed{'' if len(row['seeds']) == 1 else 's'}"


def _flat(row: Mapping[str, Any]) -> Finding:
    change = max(abs(value - curve[0]) for curve in row["accuracy"] for value in curve)
    return Finding(
        f"{row['name']}: without biases accuracy does not depend on contrast",
        "reproduced" if change <= FLAT else "not reproduced",
        f"largest change over {len(row['multipliers'])} multipliers {100 * change:.2f} points ({_seeds(row)})",
    )


def _falls(row: Mapping[str, Any]) -> Finding:
    lowest = [f"{100 * value:.1f}" for value in sorted(min(curve) for curve in row["accuracy"])]
    falls = min(curve[0] - min(curve) for curve in row["accuracy"]) > 0.05
    span = f"{lowest[0]} to {lowest[-1]}" if lowest[0] != lowest[-1] else lowest[0]
    return Finding(
        f"{row['name']}: with biases accuracy falls as contrast does",
        "reproduced" if falls else "not reproduced",
        f"lowest accuracy {span}% ({_seeds(row)})",
    )


def _full(row: Mapping[str, Any]) -> dict[int, float]:
    """Accuracy at full contrast, by seed."""
    return dict(zip(row["seeds"], (curve[0] for curve in row["accuracy"]), strict=True))


def _apart(row: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[Difference, str]:
    """Accuracy of ``row`` less that of ``other`` at full contrast, as numbers and in words."""
    apart = difference(_full(row), _full(other), comparisons=1)
    words = f"{100 * apart.mean:+.2f} points"
    if apart.low is not None and apart.high is not None:
        words += f", 95% interval {100 * apart.low:+.2f} to {100 * apart.high:+.2f}"
    return apart, f"{words} ({seeds_said(apart.num_seeds)})"


def _similar(row: Mapping[str, Any], biased: Mapping[str, Any]) -> Finding:
    apart, words = _apart(row, biased)
    inside = apart.low is not None and apart.high is not None and max(-apart.low, apart.high) <= SIMILAR
    return Finding(
        f"{row['name']}: similar accuracies with and without biases at full contrast",
        "reproduced" if inside else "reproduced in part" if abs(apart.mean) <= SIMILAR else "not reproduced",
        f"without biases {words}",
    )


def _more_accurate(row: Mapping[str, Any], other: Mapping[str, Any]) -> Finding:
    apart, words = _apart(row, other)
    return Finding(
        f"{BEYOND}{row['name']} and {other['name']} differ in accuracy at equal budget",
        "shown" if apart.is_shown else "not shown",
        f"the first {words}",
    )


def _variances(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Of every column, in squares of percent, which is how the paper's are read here."""
    found = []
    for neuron in dict.fromkeys(row["neuron"] for row in rows):
        own = [row for row in rows if row["neuron"] == neuron and len(row["seeds"]) > 1]
        every = [
            (1e4 * variance(column), s, row["name"])
            for row in own
            for s, column in zip(row["multipliers"], zip(*row["accuracy"], strict=True), strict=True)
        ]
        if every:
            largest, s, name = max(every)
            found.append(
                Finding(
                    f"All variances over three runs are below {VARIANCE:g} ({neuron})",
                    "reproduced" if largest < VARIANCE else "not reproduced",
                    f"largest {largest:.2f} squared points, of {name} at contrast {s:g}; "
                    f"{sum(v < VARIANCE for v, *_ in every)} of {len(every)} are below ({_seeds(own[0])})",
                )
            )
    return found


def _augmented(row: Mapping[str, Any], zero_bias: Mapping[str, Any] | None) -> list[Finding]:
    """A biased network that saw all contrasts, against a zero-bias one that saw none but the full one."""
    if zero_bias is None:
        return []
    gaps = {
        s: 100 * (own["mean"] - other["mean"])
        for s, own, other in zip(row["multipliers"], row["estimates"], zero_bias["estimates"], strict=True)
    }
    dark, middle = ([gap for s, gap in gaps.items() if low <= s <= high] for low, high in ((0, 0.001), (0.01, 0.25)))
    behind = sum(gap < 0 for gap in gaps.values())
    return [
        Finding(
            f"{row['name']}: with biases accuracy is still poor at contrasts of 0.001 and less",
            "reproduced" if max(dark) < -POOR else "not reproduced" if min(dark) >= -POOR else "reproduced in part",
            f"{_points(dark)} against zero-bias networks trained at full contrast only ({_seeds(row)})",
        ),
        Finding(
            f"{row['name']}: at contrasts from 0.25 to 0.01 it is merely comparable to zero-bias networks",
            "reproduced" if max(map(abs, middle)) <= COMPARABLE else "not reproduced",
            f"{_points(middle)} against them: {'behind' if max(middle) < 0 else 'not always behind'} ({_seeds(row)})",
        ),
        Finding(
            f"{row['name']}: zero-bias networks need less data, having seen one contrast only",
            "reproduced" if behind == len(gaps) else "reproduced in part" if behind else "not reproduced",
            f"they are ahead at {behind} of {len(gaps)} contrasts, by {-max(gaps.values()):.1f} to "
            f"{-min(gaps.values()):.1f} points ({_seeds(row)})",
        ),
    ]


def _points(gaps: Sequence[float]) -> str:
    return f"{min(gaps):+.1f} to {max(gaps):+.1f} points"


def _against_reported(row: Mapping[str, Any], reported: Mapping[str, Any]) -> list[Finding]:
    given = reported.get(row["neuron"])
    if given is None:
        return []
    mean, error = row["estimates"][0]["mean"], row["estimates"][0]["standard_error"]
    within = f"{100 * mean:.2f}%" + ("" if error is None else f" ± {100 * error:.2f}")
    verdict: Verdict = "reproduced in part" if abs(mean - given["mean"]) < FAR else "not reproduced"
    found = [
        Finding(
            f"{row['name']}: accuracy {100 * given['mean']:.2f}% at full contrast ({row['neuron']})",
            # An error that is wide must not make everything fit.
            "reproduced" if _is_near(row["estimates"][0], given["mean"]) and (error or 0) <= SHARP else verdict,
            f"{within} ({_seeds(row)})",
        )
    ]
    if row["neuron"] != "zero_bias" and "curve" in given:
        found.append(_lower_contrasts(row, given["curve"]))
    return found


def _is_near(estimate: Mapping[str, Any], reported: float) -> bool:
    return bool(abs(estimate["mean"] - reported) <= max(2 * (estimate["standard_error"] or 0.0), NEAR))


def _lower_contrasts(row: Mapping[str, Any], curve: Sequence[float]) -> Finding:
    """The rest of a row of the table, which in zero-bias networks is the same number again."""
    lower = list(zip(row["multipliers"], row["estimates"], curve, strict=True))[1:]
    near = sum(_is_near(own, paper) for _, own, paper in lower)
    s, own, paper = max(lower, key=lambda cell: abs(cell[1]["mean"] - cell[2]))
    error = "" if own["standard_error"] is None else f" ± {100 * own['standard_error']:.1f}"
    widest = max(estimate["standard_error"] or 0.0 for _, estimate, _ in lower)
    every: Verdict = "reproduced" if widest <= SHARP else "reproduced in part"
    return Finding(
        f"{row['name']}: the reported accuracies at {len(lower)} lower contrasts ({row['neuron']})",
        every if near == len(lower) else "reproduced in part" if 2 * near >= len(lower) else "not reproduced",
        f"{near} of {len(lower)} agree, with standard errors up to {100 * widest:.1f}; furthest at {s:g}, "
        f"{100 * own['mean']:.1f}%{error} where {100 * paper:.1f}% is reported ({_seeds(row)})",
    )
