"""Rows of a result by network, and what implicit bias gains over the standard neuron: shared by tables, figures, claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from statistics import fmean, median
from typing import Any, NamedTuple

from neuronal.report import MARKERS, Column, Drawing, blank, colour, plain_numbers
from neuronal_papers.judge import Case, Result, paired

Row = Mapping[str, Any]
Value = Callable[[Row], Any]

OVER_SEEDS = "median over seeds, with the lowest and the highest"
BAND = "Lines are medians over seeds, bands reach from the lowest to the highest seed."
LEARNT = "coupling learnt"
"""The kind whose recipe is called like the standard network's."""
NEURON = Column("neuron", "neuron", is_text=True)
NAMES = (Column("network", "name", is_text=True), NEURON)
SMALLEST = 1e-30
"""Stands for 0 where a logarithm is taken."""


def at(*path: str | int) -> Value:
    """What stands in a row below these keys and places; ``None`` where a key is missing."""

    def value(row: Any) -> Any:
        for step in path:
            row = row.get(step) if isinstance(row, Mapping) else row[step]
            if row is None:
                return None
        return row

    return value


def by_network(rows: Iterable[Row], *keys: str) -> list[dict[str, Any]]:
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
    """The same of a share, in percent."""
    return over_seeds(head, value, factor=100)


class Line(NamedTuple):
    """A network in a figure: its colour and marker by number, what it is called, and the curve of every seed."""

    number: int
    label: str
    x: Sequence[float]
    curves: Sequence[Sequence[float]]
    style: str = "-"


def bands(
    name: str,
    title: str,
    lines: Iterable[Line],
    axes: Mapping[str, Any],
    caption: str = BAND,
    *,
    size: float = 9,
    level: float | None = None,
) -> Drawing:
    """A figure of curves.

    Args:
        name: Keeps ids on a page apart.
        title: Of the figure.
        lines: The curves: medians, and a band from the lowest to the highest seed.
        axes: Labels, limits and scales.
        caption: Below it.
        size: Of the words in the legend.
        level: Where a horizontal line is drawn, if anywhere.
    """
    with blank(name) as sheet:
        for number, label, x, curves, style in lines:
            columns = list(zip(*curves, strict=True))
            how: dict[str, Any] = {"marker": MARKERS[number % len(MARKERS)], "markersize": 4, "linestyle": style}
            sheet.axes.plot(x, list(map(median, columns)), color=colour(number), label=label, **how)
            low, high = list(map(min, columns)), list(map(max, columns))
            sheet.axes.fill_between(x, low, high, color=colour(number), alpha=0.18, linewidth=0)
        if level is not None:
            sheet.axes.axhline(level, color="#444444", linewidth=1)
        sheet.axes.set(**axes)
        if axes.get("yscale") == "log":
            plain_numbers(sheet.axes.yaxis)
        sheet.axes.legend(fontsize=size)
    return Drawing(sheet.svg, title, caption)


def dots(axes: Any, number: int, x: Sequence[float], y: Sequence[float], label: str | None) -> None:
    """Every seed a point."""
    axes.scatter(x, y, color=colour(number), marker=MARKERS[number % len(MARKERS)], s=18, label=label)


def names_below(axes: Any, networks: Sequence[Row], label: str) -> None:
    """Networks one beside the other, their names below; numbers on a logarithmic axis."""
    names = [f"{one['name']}\n{one['neuron']}" for one in networks]
    axes.set_xticks(range(len(networks)), names, fontsize=5)
    axes.set(ylabel=label, yscale="log")
    plain_numbers(axes.yaxis)


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

    def rates(self) -> str:
        """Learning rates, where they differ between the two."""
        own, standard = self.own["runs"][0].get("lr"), self.standard["runs"][0].get("lr")
        return "" if own == standard else f"learning rate {own:g} against {standard:g}"


def pairs(result: Result, *kinds: str) -> list[Pair]:
    """Every network with implicit bias of these kinds beside the standard one whose name its own begins with."""
    every = by_network(result["result"]["rows"])
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


def under_attack(result: Result, kind: str, curve: Value) -> list[Case]:
    """Points of accuracy above the standard network's, mean over the strengths of an attack; the first is no attack."""
    return [
        Case(pair.label, pair.differences(lambda run: fmean(curve(run)[1:])), note=pair.rates())
        for pair in pairs(result, kind)
    ]


def against_standard(result: Result, kind: str, value: Value) -> list[Case]:
    """log10 of a number over the standard network's, each trained by itself."""
    return [Case(pair.label, pair.log_ratios(value), note=pair.rates()) for pair in pairs(result, kind)]
