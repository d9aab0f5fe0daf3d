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
    from neuronal.experiments.reproduce import Work


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
        near = between < 1.1 or (within is not None and between <= within)
        beside = "" if within is None else f"; two seeds of one neuron by {within:.3f}"
        found.append(
            Finding(
                f"{network['name']}: training losses with and without biases are almost identical",
                "reproduced" if near else "reproduced in part" if between < 1.5 else "not reproduced",
                f"losses differ by a factor of {between:.3f} in the mean over epochs{beside}",
            )
        )
    return found
