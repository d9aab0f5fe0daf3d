"""Rows of a result by network, and what implicit bias gains over the standard neuron: shared by tables, figures, claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from statistics import median
from typing import Any

from neuronal.report import MARKERS, Column, colour
from neuronal_papers.judge import Case, Result, paired

Row = Mapping[str, Any]
Value = Callable[[Row], Any]

OVER_SEEDS = "median over seeds, with the lowest and the highest"
BAND = "Lines are medians over seeds, bands reach from the lowest to the highest seed."
LEARNT = "coupling learnt"
"""The kind whose recipe is called like the standard network's."""
NEURON = Column("neuron", "neuron", is_text=True)
NAMES = (Column("network", "name", is_text=True), NEURON)
ENOUGH = 0.05
"""Accuracy below which there is nothing left to compare."""
SMALLEST = 1e-30
"""Stands for 0 where a logarithm is taken."""


def networks(rows: Iterable[Row], *keys: str) -> list[dict[str, Any]]:
    """Rows that differ in their seed only, together: what they share, by ``keys``, and the rows themselves as ``runs``."""
    keys = keys or ("name", "neuron")
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    return [dict(zip(keys, shared, strict=True)) | {"runs": runs} for shared, runs in found.items()]


def spread(values: Sequence[float], form: str, factor: float = 1.0) -> str:
    """Median, lowest and highest of ``factor`` times the values; nothing of none, one alone of one."""
    if not values:
        return ""
    middle, low, high = (format(factor * of(values), form) for of in (median, min, max))
    return middle if len(values) == 1 else f"{middle} ({low} to {high})"


def over_seeds(head: str, value: Value, form: str = ".1f", factor: float = 1.0) -> Column:
    """A column that spreads a number of each of a network's runs; runs without the number are left out."""

    def cell(network: Row) -> str:
        return spread([number for run in network["runs"] if (number := value(run)) is not None], form, factor)

    return Column(head, cell)


def percents(head: str, value: Value) -> Column:
    return over_seeds(head, value, factor=100)


def band(
    axes: Any, number: int, label: str, x: Sequence[float], curves: Sequence[Sequence[float]], **style: Any
) -> None:
    """The line of one network and the band of its seeds; ``curves`` are those of the seeds."""
    columns = list(zip(*curves, strict=True))
    marker = MARKERS[number % len(MARKERS)]
    axes.plot(x, list(map(median, columns)), color=colour(number), marker=marker, markersize=4, label=label, **style)
    low, high = list(map(min, columns)), list(map(max, columns))
    axes.fill_between(x, low, high, color=colour(number), alpha=0.18, linewidth=0)


def dots(axes: Any, number: int, x: Sequence[float], y: Sequence[float], label: str | None) -> None:
    """Every seed a point."""
    axes.scatter(x, y, color=colour(number), marker=MARKERS[number % len(MARKERS)], s=18, label=label)


def named_ticks(axes: Any, groups: Sequence[Row]) -> None:
    """The names of networks below the figure, one beside the other."""
    names = [f"{group['name']}\n{group['neuron']}" for group in groups]
    axes.set_xticks(range(len(groups)), names, fontsize=5)


@dataclass(frozen=True)
class Pair:
    """A network with implicit bias, and the standard one of the same data."""

    kind: str
    label: str
    own: Row
    standard: Row

    def differences(self, value: Value, factor: float = 100.0) -> list[float]:
        """Own number minus the standard network's, seed by seed; in points unless ``factor`` says otherwise."""
        own, standard = ({run["seed"]: value(run) for run in one["runs"]} for one in (self.own, self.standard))
        return paired(own, standard, factor)

    def log_ratios(self, value: Value) -> list[float]:
        """log10 of own number over the standard network's, seed by seed."""
        return self.differences(lambda run: log10(max(value(run), SMALLEST)), 1.0)

    def has_left(self, value: Value) -> bool:
        """Whether one of the two has some accuracy left."""
        return max(median(map(value, one["runs"])) for one in (self.own, self.standard)) > ENOUGH

    def rates(self) -> str:
        """Learning rates, where they differ between the two."""
        own, standard = self.own["runs"][0].get("lr"), self.standard["runs"][0].get("lr")
        return "" if own == standard else f"learning rate {own:g} against {standard:g}"


def pairs(result: Result, *kinds: str) -> list[Pair]:
    """Every network with implicit bias of these kinds beside the standard one whose name its own begins with."""
    every = networks(result["result"]["rows"])
    standard = {one["name"]: one for one in every if one["neuron"] == "standard"}
    found = []
    for own in every:
        data = next((name for name in standard if own["name"].startswith(name)), None)
        if own["neuron"] != "standard" and data is not None:
            kind = own["name"].removeprefix(data).removeprefix(", ") or LEARNT
            if not kinds or kind in kinds:
                words = [data] * (len(standard) > 1) + [kind] * (len(kinds) != 1)
                found.append(Pair(kind, ", ".join(words), own, standard[data]))
    return found


def labelled(*words: str) -> str:
    return ", ".join(word for word in words if word)


def under_attack(result: Result, kind: str, strengths: Sequence[float], unit: str, value: Value) -> list[Case]:
    """Leads at every strength of an attack at which one of the two still has some accuracy; the first is no attack.

    Args:
        result: Of the attacks.
        kind: Of the implicit-bias neuron.
        strengths: Of the attack.
        unit: What they are.
        value: Accuracies of a run, one per strength.
    """
    cases = []
    for pair in pairs(result, kind):
        note = pair.rates()
        for place, strength in enumerate(strengths[1:], 1):

            def left(run: Row, place: int = place) -> float:
                return float(value(run)[place])

            if pair.has_left(left):
                cases.append(Case(labelled(pair.label, f"{unit} {strength:g}"), pair.differences(left), note=note))
                note = ""
    return cases
