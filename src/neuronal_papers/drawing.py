"""What figures are drawn with: curves over seeds, means with bars, points, panels, and legends out of the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import fmean, median
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.ticker import MaxNLocator

from neuronal.report import MARKERS, Figure, Sheet, blank, colour, plain_numbers

BAND = "Lines are medians over seeds, bands reach from the lowest to the highest seed."
BARS = "bars two standard errors to each side"


class Line(NamedTuple):
    """A network in a figure: its colour and marker by number, what it is called, and the curve of every seed."""

    number: int
    label: str
    x: Sequence[float]
    curves: Sequence[Sequence[float]]
    style: str = "-"
    has_markers: bool = True

    @property
    def look(self) -> dict[str, object]:
        """What all draw alike, in the words of matplotlib's ``plot``."""
        marker = MARKERS[self.number % len(MARKERS)] if self.has_markers else ""
        return {"color": colour(self.number), "marker": marker, "linestyle": self.style, "label": self.label}


def band(axes: Any, line: Line, middle: Callable[[Sequence[float]], float] = median) -> None:
    """Medians, and a band from the lowest to the highest seed."""
    columns = list(zip(*line.curves, strict=True))
    axes.plot(line.x, list(map(middle, columns)), markersize=4, **line.look)
    low, high = list(map(min, columns)), list(map(max, columns))
    axes.fill_between(line.x, low, high, color=colour(line.number), alpha=0.18, linewidth=0)


mean_band = partial(band, middle=fmean)
"""The same around means."""


def marked(axes: Any, line: Line) -> None:
    """One curve with markers."""
    axes.plot(line.x, *line.curves, **line.look)


def every_seed(axes: Any, line: Line) -> None:
    """A line for every seed, as long as its curve."""
    for place, curve in enumerate(line.curves):
        label = None if place else line.label
        axes.plot(line.x[: len(curve)], curve, line.style, color=colour(line.number), linewidth=1, label=label)


def mean_curve(curves: Sequence[Sequence[float]]) -> list[float]:
    """At each place the mean over the curves that are so long."""
    return [fmean(curve[i] for curve in curves if len(curve) > i) for i in range(max(map(len, curves)))]


def chart(
    name: str,
    title: str,
    lines: Iterable[Line],
    axes: Mapping[str, object],
    caption: str = BAND,
    *,
    draw: Callable[[Any, Line], None] = band,
    legend: Callable[[Sheet], None] | None = None,
    size: float = 9,
    level: float | None = None,
    whole: bool = False,
) -> Figure:
    """A figure of curves.

    Args:
        name: Keeps ids on a page apart.
        title: Of the figure.
        lines: The curves.
        axes: Labels, limits and scales; numbers on logarithmic axes are written in full.
        caption: Below it.
        draw: Draws one of the lines.
        legend: Draws the legend; inside the axes without it.
        size: Of the words in a legend inside the axes.
        level: Where a horizontal line is drawn, if anywhere.
        whole: Only whole numbers stand below.
    """
    with blank(name) as sheet:
        for line in lines:
            draw(sheet.axes, line)
        if level is not None:
            sheet.axes.axhline(level, color="#444444", linewidth=1)
        set_axes(sheet.axes, axes)
        if whole:
            sheet.axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if legend:
            legend(sheet)
        else:
            sheet.axes.legend(fontsize=size)
    return Figure(sheet.svg, title, caption)


def set_axes(axes: Any, settings: Mapping[str, object]) -> None:
    """Labels, limits and scales; numbers on logarithmic axes are written in full."""
    axes.set(**settings)
    for axis in ("x", "y"):
        if settings.get(f"{axis}scale") in ("log", "symlog"):
            plain_numbers(getattr(axes, f"{axis}axis"))


def dots(axes: Any, number: int, x: Sequence[float], y: Sequence[float], label: str | None) -> None:
    """Every seed a point."""
    axes.scatter(x, y, color=colour(number), marker=MARKERS[number % len(MARKERS)], s=18, label=label)


def classes(axes: Any, points: Any, labels: Any) -> None:
    """Points in the plane, those of the classes 0 and 1 with markers of their own; as many units high as wide."""
    for label, marker in ((0, "o"), (1, "P")):
        own = [point for point, its in zip(points, labels, strict=True) if its == label]
        x, y = zip(*own, strict=True)
        axes.scatter(x, y, color=colour(label), marker=marker, s=15, zorder=3, label=f"class {label}")
    axes.set(aspect="equal")
    axes.grid(visible=False)


def bars(axes: Any, line: Line) -> None:
    """Means, the first of the curves, with bars of two standard errors, the second of them, to each side."""
    middle, errors = line.curves
    axes.errorbar(line.x, middle, yerr=[2 * error for error in errors], capsize=2, markersize=4, **line.look)


def in_panels(
    name: str,
    title: str,
    caption: str,
    items: Sequence[Any],
    draw: Callable[[Any, Any], None],
    size: tuple[float, float],
    *,
    columns: int = 2,
    legend: int = 0,
    **shared: Any,
) -> Figure:
    """A figure with a panel for each item, ``columns`` side by side, each of a ``size`` in inches.

    ``draw`` draws an item on axes; ``legend`` is how many names stand side by side in one legend for all panels, which have
    in common what ``shared`` says in the words of matplotlib's ``subplots``.
    """
    with blank(name) as sheet:
        rows = -(-len(items) // columns)
        sheet.figure.clear()
        sheet.figure.set_size_inches(columns * size[0], rows * size[1])
        every = list(sheet.figure.subplots(rows, columns, squeeze=False, **shared).flat)
        for spare in every[len(items) :]:
            spare.remove()
        names: dict[str, Artist] = {}
        for axes, item in zip(every, items, strict=False):
            draw(axes, item)
            names |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        if legend:
            sheet.figure.legend(list(names.values()), list(names), loc="outside upper center", ncols=legend)
    return Figure(sheet.svg, title, caption)


def legend_below(sheet: Sheet) -> None:
    """Out of the way of the lines, in one column if names are long: two would not fit."""
    names = sheet.axes.get_legend_handles_labels()[1]
    columns = 1 if max(map(len, names)) > 32 else 2
    sheet.figure.set_size_inches(4.6, 3.0 + 0.15 * (1 + len(names) // columns))
    sheet.figure.legend(fontsize=7, loc="outside lower center", ncol=columns)
