"""Loss curves with and without biases, and a number for how close they are (Figure 5 of the zero-bias paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import exp, log
from statistics import fmean
from typing import TYPE_CHECKING, Any

from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.record import Record
from neuronal.experiments.reproduction import Setting

if TYPE_CHECKING:
    from neuronal.experiments.work import Work


CLOSE = 1.1
"""Losses that differ by a smaller factor are close; the paper gives no number."""
SIMILAR = 0.0155
"""Accuracies that differ by no more are similar: the largest difference in the paper's Table 1, which it calls so."""
JUDGED = (
    f"Curves are almost identical if they differ by less than {100 * (CLOSE - 1):.0f}%, or by no more than two seeds of one "
    f"neuron do. Accuracies are similar within {100 * SIMILAR:g} points, the largest difference in Table 1."
)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every network with every neuron and seed: its curve; per network the distances between and within neurons.

    The distance of two curves is the mean over epochs of the factor by which their losses differ.
    """
    records = [record for record in work.records(setting.recipes) if record.failure is None]
    networks = []
    for name in dict.fromkeys(recipe.name for recipe in setting.recipes):
        curves = {
            neuron: {r.seed: _losses(r) for r in records if (r.recipe.name, r.recipe.family) == (name, neuron)}
            for neuron in dict.fromkeys(recipe.family for recipe in setting.recipes if recipe.name == name)
        }
        accuracy = {
            neuron: [r.metrics["accuracy"] for r in records if (r.recipe.name, r.recipe.family) == (name, neuron)]
            for neuron in curves
        }
        networks.append({"name": name, "curves": _plain(curves), "accuracy": accuracy} | _distances(curves))
    return {"networks": networks}


def _losses(record: Record) -> list[float]:
    return [row["loss"] for row in record.epochs]


def _plain(curves: Mapping[str, Mapping[int, Sequence[float]]]) -> dict[str, dict[str, list[float]]]:
    return {neuron: {str(seed): list(curve) for seed, curve in of.items()} for neuron, of in curves.items()}


def _factor(a: Sequence[float], b: Sequence[float]) -> float:
    return exp(fmean(abs(log(p / q)) for p, q in zip(a, b, strict=True)))


def _distances(curves: Mapping[str, Mapping[int, Sequence[float]]]) -> dict[str, float | None]:
    first, *others = curves.values()
    between = [_factor(first[s], other[s]) for other in others for s in first if s in other]
    within = [_factor(a, b) for of in curves.values() for a, b in combinations(of.values(), 2)]
    return {"between": fmean(between) if between else None, "within": fmean(within) if within else None}


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Close means: no further apart than two seeds of one network are, or by less than 10%."""
    found = []
    for network in answer["result"]["networks"]:
        between, within = network["between"], network["within"]
        if between is None:
            continue
        near = between < CLOSE or (within is not None and between <= within)
        beside = "" if within is None else f"; two seeds of one neuron by {within:.3f}"
        found.append(
            Finding(
                f"{network['name']}: training losses with and without biases are almost identical",
                "reproduced" if near else "reproduced in part" if between < 1.5 else "not reproduced",
                f"losses differ by a factor of {between:.3f} in the mean over epochs{beside} ({_seeds(network)})",
            )
        )
    return found + _generalisation(answer["result"]["networks"])


def _seeds(network: Mapping[str, Any]) -> str:
    count = len(next(iter(network["curves"].values())))
    return f"{count} seed{'' if count == 1 else 's'}"


def _generalisation(networks: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """How far apart the test accuracies are in the mean over seeds."""
    apart = {
        network["name"]: fmean(network["accuracy"]["zero_bias"]) - fmean(network["accuracy"]["standard"])
        for network in networks
        if all(network["accuracy"].get(neuron) for neuron in ("zero_bias", "standard"))
    }
    if not apart:
        return []
    similar = sum(abs(value) <= SIMILAR for value in apart.values())
    each = ", ".join(f"{name} {100 * value:+.2f}" for name, value in apart.items())
    return [
        Finding(
            "Generalisation to unseen images is very similar with and without biases",
            "reproduced" if similar == len(apart) else "reproduced in part" if similar else "not reproduced",
            f"test accuracy without biases, in points: {each} (means of {_seeds(networks[0])})",
        )
    ]
