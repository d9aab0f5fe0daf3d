"""Trained networks on test images, and those with implicit bias beside the standard one of the same data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from math import log10
from statistics import fmean
from typing import Any

import torch
from torch import nn

from neuronal.data import Split, load
from neuronal.experiments import Record, Work
from neuronal.report import Drawing, blank
from neuronal_papers.core import Setting
from neuronal_papers.drawing import Line, dots, set_axes
from neuronal_papers.judge import Case, Result
from neuronal_papers.seeds import NETWORK, NEURON, SMALLEST, Row, Value, by_network, differences
from neuronal_papers.tuning import measured

AT_ONCE = 1000
"""Images in a batch of an attack: as many as one point has. The networks are small, and launching is what costs."""


def on_the_device(model: nn.Module) -> nn.Module:
    """On a GPU, where there is one."""
    return model.to(torch.accelerator.current_accelerator() or "cpu")


def on_test_images(look: Callable[[Record, nn.Module, Split, Row], Row]) -> Callable[[Setting, Work], dict[str, Any]]:
    """A measurement whose ``rows`` are what ``look`` finds of every tuned network and seed.

    ``look`` takes a record, its network, test images and the options. Of these ``images`` is how many images, the first
    ones, it gets, all without it; ``rates`` and ``tuning_seeds`` are for :func:`neuronal_papers.tuning.tuned`.
    """

    @wraps(look)
    def measure(setting: Setting, work: Work) -> dict[str, Any]:
        def row(record: Record, model: nn.Module) -> Row:
            work.say(f"{look.__name__} of {record.recipe.name}, {record.recipe.family}, seed {record.seed}")
            test = load(record.recipe.data).scaled(record.recipe.scaling).test
            return look(record, on_the_device(model), test.rows(slice(setting.options.get("images"))), setting.options)

        return {"rows": measured(setting, work, look.__name__, row)}

    return measure


# Side by side

LEARNT = "coupling learnt"
"""The kind whose recipe is called like the standard network's."""
KINDS = {LEARNT: "learnt coupling", "coupling -0.5": "coupling -0.5"}
"""Those that claims are about, and how these call them."""
NAMES = (NETWORK, NEURON)


def by_data(result: Result) -> dict[str, dict[str, Row]]:
    """Networks by data and kind: ``standard`` is called like the data, and names of the others begin with that."""
    found: dict[str, dict[str, Row]] = {}
    for one in by_network(result["result"]["rows"]):
        data, _, kind = one["name"].partition(", ")
        found.setdefault(data, {})["standard" if one["neuron"] == "standard" else kind or LEARNT] = one
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


def in_percent(number: int, network: Row, label: str, x: Sequence[float], curve: Value, style: str = "-") -> Line:
    """A network in a figure, its accuracies in percent."""
    return Line(number, label, x, [[100 * accuracy for accuracy in curve(run)] for run in network["runs"]], style)


def log(value: float) -> float:
    """Power of ten, of a number that may be 0."""
    return log10(max(value, SMALLEST))


def side_by_side(
    result: Result, title: str, label: str, series: Mapping[str, Callable[[Row], Any]], caption: str
) -> Drawing:
    """Every number of every run a point, networks one beside the other, their names below; colours tell series apart."""
    every = by_network(result["result"]["rows"])
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
    return Drawing(sheet.svg, title, caption)
