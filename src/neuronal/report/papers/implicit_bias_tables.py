"""Tables of the results of the implicit-bias paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from rich.table import Table

from neuronal.experiments.procedures.implicit_bias.accuracy_curve import by_data, curves, epochs_needed, epochs_text
from neuronal.experiments.procedures.implicit_bias.boundary_2d import medians
from neuronal.experiments.procedures.implicit_bias.robustness import networks
from neuronal.experiments.procedures.implicit_bias.stealth import counts
from neuronal.experiments.procedures.implicit_bias.transfer import by_coupling
from neuronal.experiments.procedures.implicit_bias.variants import cost_of, learnt
from neuronal.report.drawn import columns, title_of

OVER_SEEDS = "median over seeds, with the lowest and the highest"


def _range(values: Sequence[float], text: Callable[[float], str]) -> str:
    if len(values) == 1:
        return text(values[0])
    return f"{text(median(values))} ({text(min(values))} to {text(max(values))})"


def _percents(values: Sequence[float]) -> str:
    return _range(values, lambda value: f"{100 * value:.1f}")


def _boundary(answer: Mapping[str, Any]) -> list[Table]:
    numbers = ["coupling", "slope", "accuracy (%)", "curvature", "hollow (%)"]
    caption = (
        f"{OVER_SEEDS}; curvature: of the strongest tenth of the boundary; hollow: pairs of a class whose middle is of "
        "the other class, for the rounder of the two"
    )
    drawn = columns(title_of(answer), ["neuron"], numbers, caption)
    for kind in medians(answer["result"]["rows"]):
        of_units = ["", ""] if kind["coupling"] is None else [f"{kind['coupling']:g}", f"{kind['slope']:g}"]
        bends = _range(kind["curvature"], lambda value: f"{value:.2g}")
        drawn.add_row(kind["neuron"], *of_units, _percents(kind["accuracy"]), bends, _percents(kind["hollow"]))
    return [drawn]


def _energy(answer: Mapping[str, Any]) -> list[Table]:
    numbers = ["slope", "coupling x slope", "solutions found", "settled (%)", "slope of the energy", "from descent"]
    drawn = columns(
        title_of(answer), [], numbers, "solutions: most of any row, by descents of the energy from many places"
    )
    for row in answer["result"]["rows"]:
        solved = row["solved"]
        own = [f"{solved['steepest']:.0e}", f"{solved['from_descent']:.0e}"] if solved else ["", "refused"]
        most = str(max(row["solutions"]))
        drawn.add_row(f"{row['slope']:g}", f"{row['product']:g}", most, f"{100 * row['settled']:.0f}", *own)
    return [drawn]


def _robustness(answer: Mapping[str, Any]) -> list[Table]:
    result = answer["result"]
    caption = f"accuracy in %, {OVER_SEEDS}; transfer: {result['attacks']['transfer']}"
    drawn = columns(
        title_of(answer), ["network", "neuron", "attack"], [f"epsilon {e:g}" for e in result["epsilons"]], caption
    )
    for group in networks(result["rows"]):
        for attack in result["attacks"]:
            by_epsilon = zip(*(row["accuracy"][attack] for row in group), strict=True)
            drawn.add_row(group[0]["name"], group[0]["neuron"], attack, *map(_percents, by_epsilon))
    checks = columns("Whether gradients are masked", ["network", "neuron", "check"], ["seed", "passed", "numbers"])
    for group in networks(result["rows"]):
        for row in group:
            for check in row["checks"]:
                passed = "yes" if check["passed"] else "NO"
                checks.add_row(row["name"], row["neuron"], check["name"], str(row["seed"]), passed, check["numbers"])
    return [drawn, checks]


def _pixels(answer: Mapping[str, Any]) -> list[Table]:
    queries = answer["result"]["queries"]
    places = sorted({0, len(queries) // 4, len(queries) // 2, len(queries) - 1})
    numbers = [f"{queries[place]} queries" for place in places]
    drawn = columns(title_of(answer), ["network", "neuron"], numbers, f"accuracy in %, {OVER_SEEDS}")
    for group in networks(answer["result"]["rows"]):
        cells = [_percents([row["accuracy"][place] for row in group]) for place in places]
        drawn.add_row(group[0]["name"], group[0]["neuron"], *cells)
    return [drawn]


def _transfer(answer: Mapping[str, Any]) -> list[Table]:
    epsilons = answer["result"]["epsilons"]
    numbers = ["coupling", "accuracy", "norm of the Jacobian", *(f"at epsilon {e:g}" for e in epsilons)]
    caption = f"changes against coupling 0 (points of accuracy; the norm times so much), {OVER_SEEDS}"
    drawn = columns(title_of(answer), ["network"], numbers, caption)
    for kind in by_coupling(answer["result"]["rows"]):
        left = [_points(column) for column in zip(*kind["robust"], strict=True)]
        norm = _range(kind["jacobian"], lambda value: f"{value:.2f}")
        drawn.add_row(kind["name"], f"{kind['coupling']:g}", _points(kind["accuracy"]), norm, *left)
    return [drawn]


def _points(values: Sequence[float]) -> str:
    return _range(values, lambda value: f"{100 * value:+.1f}")


def _sensitivity(answer: Mapping[str, Any]) -> list[Table]:
    numbers = ["accuracy (%)", "Jacobian", "the same at coupling 0", "curvature", "the same at coupling 0"]
    drawn = columns(
        title_of(answer), ["network", "neuron"], numbers, f"Frobenius norms and input curvature; {OVER_SEEDS}"
    )
    for group in networks(answer["result"]["rows"]):
        cells = [_percents([row["accuracy"] for row in group])]
        for key in ("frobenius", "curvature"):
            for which in ("with", "without"):
                sizes = [row[which][key] for row in group if which in row]
                cells.append(_range(sizes, lambda value: f"{value:.3g}") if sizes else "")
        drawn.add_row(group[0]["name"], group[0]["neuron"], *cells)
    return [drawn]


def _stealth(answer: Mapping[str, Any]) -> list[Table]:
    numbers = ["triggers", "work", "no class changed", "no logit changed", "largest change of a logit (%)"]
    drawn = columns(
        title_of(answer),
        ["network", "neuron"],
        numbers,
        "changes of logits relative to their spread; all seeds together",
    )
    for group in networks(answer["result"]["rows"]):
        changes = [value for row in group for value in row["logits"]]
        total = sum(len(row["works"]) for row in group)
        cells = [str(number) for number in (total, *counts(group))]
        drawn.add_row(group[0]["name"], group[0]["neuron"], *cells, _range(changes, lambda value: f"{100 * value:.2g}"))
    return [drawn]


def _variants(answer: Mapping[str, Any]) -> list[Table]:
    groups = networks(answer["result"]["rows"])
    costs = [cost_of(answer, group) for group in groups]
    numbers = ["accuracy (%)", f"at epsilon {answer['result']['epsilon']:g} (%)", "couplings and slopes"]
    how = f"{OVER_SEEDS}; time of a step: of the first seed's network, in turn with a standard one's" * any(costs)
    numbers += ["time of a step"] * any(costs)
    drawn = columns(title_of(answer), ["network", "neuron"], numbers, how or OVER_SEEDS)
    for group, cost in zip(groups, costs, strict=True):
        cells = [_percents([row[key] for row in group]) for key in ("accuracy", "robust")]
        cells += [learnt(group), *([cost or "1"] if any(costs) else [])]
        drawn.add_row(group[0]["name"], group[0]["neuron"], *cells)
    return [drawn]


def _accuracy_curve(answer: Mapping[str, Any]) -> list[Table]:
    axis, rows = answer["result"]["axis"], answer["result"]["rows"]
    kinds = [kind for kind in ("right", "wrong") if all("curvature" in row for row in rows)]
    numbers = [
        axis,
        "test accuracy (%)",
        "best held-out accuracy (%)",
        *(f"curvature, {kind} labels" for kind in kinds),
    ]
    drawn = columns(title_of(answer), ["data", "neuron"], numbers, OVER_SEEDS)
    for data, own in by_data(answer).items():
        last, best = curves(own, lambda row: row["accuracy"]), curves(own, lambda row: max(row["epochs"]))
        bends = {kind: curves(own, lambda row: row["curvature"][kind]) for kind in kinds}  # noqa: B023
        for neuron, curve in last.items():
            for x, values in curve.items():
                bent = [[v for v in bends[kind][neuron][x] if v is not None] for kind in kinds]
                cells = [_range(one, lambda value: f"{value:.3g}") if one else "" for one in bent]
                drawn.add_row(data, neuron, f"{x:g}", _percents(values), _percents(best[neuron][x]), *cells)
    return [drawn, *([_epochs_needed(answer)] if axis == "epoch" else [])]


def _epochs_needed(answer: Mapping[str, Any]) -> Table:
    drawn = columns(title_of(answer), ["data", "neuron"], ["held-out accuracy (%)", "epochs until then"], OVER_SEEDS)
    for data, own in by_data(answer).items():
        target, needed = epochs_needed(own)
        for neuron, epochs in needed.items():
            drawn.add_row(data, neuron, f"{100 * target:.1f}", epochs_text(epochs))
    return drawn


TABLES: dict[str, Any] = {
    "accuracy_curve": _accuracy_curve,
    "boundary_2d": _boundary,
    "energy": _energy,
    "pixels_moved": _pixels,
    "robustness": _robustness,
    "sensitivity": _sensitivity,
    "stealth": _stealth,
    "transfer": _transfer,
    "variants": _variants,
}
"""By procedure."""
