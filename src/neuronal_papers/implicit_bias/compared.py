"""Trained networks on test images, and those with implicit bias beside the standard one of the same data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from neuronal.report import Figure, blank
from neuronal_papers.drawing import Line, dots, set_axes
from neuronal_papers.judge import Case, Result
from neuronal_papers.seeds import Row, Value, differences, networks_of

AT_ONCE = 1000
"""Images in a batch of an attack: as many as one point has. The networks are small, and launching is what costs."""

LEARNT = "coupling learnt"
"""The kind whose recipe is called like the standard network's."""
KINDS = {LEARNT: "learnt coupling", "coupling -0.5": "coupling -0.5"}
"""Those that claims are about, and how these call them."""


def by_data(result: Result) -> dict[str, dict[str, Row]]:
    """Networks by data and kind: ``standard`` is called like the data, and names of the others begin with that."""
    found: dict[str, dict[str, Row]] = {}
    for one in networks_of(result):
        data, _, kind = one["name"].partition(", ")
        found.setdefault(data, {})["standard" if one["neuron"] == "standard" else kind or LEARNT] = one
    return found


def pairs(result: Result, *kinds: str) -> Iterator[tuple[str, Row, Row]]:
    """Every network of these kinds, of implicit bias if none is named, its label before it and the standard one behind.

    A label says the data, where there are several sets, and the kind, where just one is not asked for.
    """
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


def in_percent(number: int, network: Row, label: str, x: Sequence[float], curve: Value, style: str = "-") -> Line:
    """A network in a figure, its accuracies in percent."""
    return Line(number, label, x, [[100 * accuracy for accuracy in curve(run)] for run in network["runs"]], style)


def side_by_side(result: Result, title: str, label: str, series: Mapping[str, Value], caption: str) -> Figure:
    """Every number of every run a point, networks one beside the other, their names below; colours tell series apart."""
    every = networks_of(result)
    with blank(f"{result['reproduction']}-networks") as sheet:
        for place, one in enumerate(every):
            for number, (words, values) in enumerate(series.items(), place * (len(series) == 1)):
                y = [value for run in one["runs"] for value in values(run)]
                dots(sheet.axes, number, [place] * len(y), y, words if place == len(every) - 1 else None)
        names = [f"{one['name']}\n{one['neuron']}" for one in every]
        sheet.axes.set_xticks(range(len(every)), names, fontsize=5)
        set_axes(sheet.axes, {"ylabel": label, "yscale": "log"})
        if len(series) > 1:
            sheet.axes.legend()
    return Figure(sheet.svg, title, caption)
