"""Networks with implicit bias beside the standard one of the same data: what tables, figures and claims compare."""

from __future__ import annotations

from collections.abc import Iterator
from math import log10
from statistics import fmean
from typing import Any

from neuronal_papers.drawing import set_axes
from neuronal_papers.judge import Case, Result
from neuronal_papers.seeds import NETWORK, NEURON, SMALLEST, Row, Value, by_network, differences

LEARNT = "coupling learnt"
"""The kind whose recipe is called like the standard network's."""
KINDS = {LEARNT: "learnt coupling", "coupling -0.5": "coupling -0.5"}
"""Those that claims are about, and how these call them."""
NAMES = (NETWORK, NEURON)


def by_data(result: Result) -> dict[str, dict[str, Row]]:
    """Networks by data and kind: ``standard`` is called like the data, and names of the others begin with that."""
    found: dict[str, dict[str, Row]] = {}
    for one in by_network(result["result"]["rows"]):
        if one["neuron"] == "standard":
            found[one["name"]] = {"standard": one}
        else:
            data = next(data for data in found if one["name"].startswith(data))
            found[data][one["name"].removeprefix(data).removeprefix(", ") or LEARNT] = one
    return found


def pairs(result: Result, *kinds: str) -> Iterator[tuple[str, Row, Row]]:
    """Every network with implicit bias of these kinds, its label before it, beside the standard one of the same data."""
    every = by_data(result)
    for data, networks in every.items():
        for kind, own in networks.items():
            if kind in kinds or (not kinds and kind != "standard"):
                words = [data] * (len(every) > 1) + [kind] * (len(kinds) != 1)
                yield ", ".join(words), own, networks["standard"]


def against_standard(result: Result, value: Value, *kinds: str, factor: float = 100.0) -> list[Case]:
    """Own number less the standard network's, in points unless ``factor`` says otherwise; rates are named if they differ."""
    cases = []
    for label, own, standard in pairs(result, *kinds):
        rate, other = own["runs"][0].get("lr"), standard["runs"][0].get("lr")
        note = "" if rate == other else f"learning rate {rate:g} against {other:g}"
        cases.append(Case(label, differences(own, standard, value, factor), note=note))
    return cases


def under_attack(result: Result, kind: str, curve: Value) -> list[Case]:
    """Points of accuracy above the standard network's, mean over the strengths of an attack; the first is no attack."""
    return against_standard(result, lambda run: fmean(curve(run)[1:]), kind)


def log_ratios(result: Result, kind: str, value: Value) -> list[Case]:
    """log10 of a number over the standard network's, each trained by itself."""
    return against_standard(result, lambda run: log10(max(value(run), SMALLEST)), kind, factor=1.0)


def names_below(axes: Any, networks: list[dict[str, Any]], label: str) -> None:
    """Networks one beside the other, their names below; numbers on a logarithmic axis."""
    names = [f"{one['name']}\n{one['neuron']}" for one in networks]
    axes.set_xticks(range(len(networks)), names, fontsize=5)
    set_axes(axes, {"ylabel": label, "yscale": "log"})
