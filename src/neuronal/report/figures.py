"""Figures as SVG text, small enough to read on a phone and sharp on a screen."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, NullFormatter

from neuronal.experiments.record import Record
from neuronal.probes.contrast import Contrast
from neuronal.probes.zero_image import ZeroImage

# Okabe & Ito's palette: told apart with any colour vision. Markers differ too, for print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e5e5",
    "axes.axisbelow": True,
    "legend.frameon": False,
    # A dollar sign in a class name is a dollar sign.
    "text.parse_math": False,
    "figure.constrained_layout.use": True,
}

Groups = Mapping[str, Sequence[Record]]


@dataclass(frozen=True)
class Figure:
    """A figure: its SVG, its title, and what can be seen in it, for those who cannot see it."""

    svg: str
    title: str
    caption: str


class Sheet:
    """Axes while drawing, SVG afterwards."""

    def __init__(self, figure: Canvas, axes: Axes) -> None:
        self.figure, self.axes, self.svg = figure, axes, ""


@contextmanager
def blank(name: str) -> Iterator[Sheet]:
    """Axes to draw on; afterwards ``svg`` holds the drawing. ``name`` keeps ids apart on a page of several."""
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Canvas(figsize=(4.6, 3.0))
        sheet = Sheet(figure, figure.add_subplot())
        yield sheet
        text = StringIO()
        with warnings.catch_warnings():
            # On a busy machine matplotlib warns that it took long to find a place for the legend.
            warnings.filterwarnings("ignore", message="Creating legend")
            figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
        svg = text.getvalue()[text.getvalue().index("<svg") :]
        # Groups are numbered alike in every figure, and nothing refers to them: ids on a page must be unique.
        sheet.svg = re.sub(r' id="[\w.]+_\d+"', "", svg)


def contrast_curves(groups: Groups) -> Figure:
    with blank("contrast") as sheet:
        for number, (family, records) in enumerate(groups.items()):
            multipliers = records[0].probe(Contrast).multipliers
            curves = [[100 * value for value in record.probe(Contrast).accuracy] for record in records]
            _band(sheet.axes, number, family, multipliers, curves, markers=True)
        sheet.axes.set(xscale="log", xlabel="contrast multiplier", ylabel="test accuracy (%)", ylim=(0, 102))
        plain_numbers(sheet.axes.xaxis)
        sheet.axes.invert_xaxis()
        sheet.axes.legend()
    return Figure(
        sheet.svg,
        "Contrast",
        "Test accuracy when every image is multiplied by the number below; full contrast on the left. "
        "Lines are means over seeds, bands reach from the lowest to the highest seed.",
    )


def zero_image_bars(groups: Groups, classes: Sequence[str]) -> Figure:
    with blank("zero") as sheet:
        width = 0.8 / len(groups)
        for number, (family, records) in enumerate(groups.items()):
            every = [record.probe(ZeroImage).probabilities for record in records]
            columns = list(zip(*every, strict=True))
            means = [sum(column) / len(column) for column in columns]
            places = [place + (number - (len(groups) - 1) / 2) * width for place in range(len(classes))]
            sheet.axes.bar(places, means, width, color=colour(number), label=family)
            sheet.axes.vlines(places, list(map(min, columns)), list(map(max, columns)), color="#444444", linewidth=0.7)
        sheet.axes.axhline(1 / len(classes), color="#444444", linewidth=1, linestyle="--", label="uniform")
        sheet.axes.set(xlabel="class", ylabel="probability")
        sheet.axes.grid(axis="x", visible=False)
        if len(classes) <= 20:
            sheet.axes.set_xticks(range(len(classes)), classes)
        sheet.axes.legend()
    return Figure(
        sheet.svg,
        "Zero image",
        "Class probabilities when the network sees an image that is zero everywhere: means over seeds, "
        "whiskers from the lowest to the highest seed.",
    )


def training_curves(groups: Groups, column: str, title: str, label: str, *, scale: float, log: bool) -> Figure:
    """One column of the epochs' rows against the epoch, for every neuron."""
    with blank(column) as sheet:
        for number, (family, records) in enumerate(groups.items()):
            curves = [[scale * row[column] for row in record.epochs if column in row] for record in records]
            length = min(map(len, curves))
            if length:
                _band(sheet.axes, number, family, range(1, length + 1), [c[:length] for c in curves], markers=False)
        sheet.axes.set(xlabel="epoch", ylabel=label, yscale="log" if log else "linear")
        if log:
            plain_numbers(sheet.axes.yaxis)
        if sheet.axes.get_legend_handles_labels()[0]:
            sheet.axes.legend()
    return Figure(sheet.svg, title, f"{label[0].upper()}{label[1:]} epoch by epoch; mean and range over seeds.")


def _band(
    axes: Axes, number: int, label: str, x: Sequence[float], curves: Sequence[Sequence[float]], *, markers: bool
) -> None:
    columns = list(zip(*curves, strict=True))
    marker = MARKERS[number % len(MARKERS)] if markers else ""
    means = [sum(column) / len(column) for column in columns]
    axes.plot(x, means, color=colour(number), marker=marker, markersize=4, linewidth=1.5, label=label)
    lows, highs = [min(column) for column in columns], [max(column) for column in columns]
    axes.fill_between(x, lows, highs, color=colour(number), alpha=0.18, linewidth=0)


def plain_numbers(axis: Axis) -> None:
    """``0.01`` instead of a power of ten, which would need the mathematical text that is switched off."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    low, high = sorted(axis.get_view_interval())
    if high > 50 * low:
        axis.set_minor_formatter(NullFormatter())
    else:
        # Hardly more than one power of ten is in sight: twice and five times as much have their number too.
        axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else ""))


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]
