"""Figures of what is measured of Farkas layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from neuronal.experiments.procedures.farkas.claims import rows_of
from neuronal.report.figures import COLOURS, Drawing, Sheet, blank, colour

FEW = 6
"""Lines where they come in threes."""
SINGLY = 3
"""Runs of a network that are drawn as lines of their own."""
LONG = 32
"""Letters of a name that has a line of a legend for itself."""


def _accuracy(answer: Mapping[str, Any]) -> list[Drawing]:
    return [_errors(answer), *_curves(answer)]


def _errors(answer: Mapping[str, Any]) -> Drawing:
    """One line per network from top to bottom; as wide as the runs that learnt, with the others beside it."""
    rows = answer["result"]["rows"]
    with blank(f"{answer['reproduction']}-errors") as sheet:
        sheet.figure.set_size_inches(5.6, 0.8 + 0.24 * len(rows))
        for place, row in enumerate(rows):
            shade = colour(int(row["neuron"] != "standard"))
            good = [100 * (1 - a) for seed, a in row["accuracy"].items() if seed not in row["failed"]]
            sheet.axes.plot(good, [place] * len(good), "o", color=shade, markersize=4)
            if row["failed"]:
                style: dict[str, Any] = {"xycoords": sheet.axes.get_yaxis_transform(), "textcoords": "offset points"}
                for right, text, red in ((4, "×", "#b00020"), (12, f"{len(row['failed'])} failed", "#000000")):
                    sheet.axes.annotate(text, (1, place), (right, 0), color=red, va="center", fontsize=7, **style)
            if given := answer["reported"].get(row["name"], {}).get("error"):
                sheet.axes.plot(given, place, "D", markerfacecolor="none", color="#666666", markersize=5)
        sheet.axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
        sheet.axes.set(xlabel="test error (%)", ylim=(len(rows) - 0.5, -0.5))
    caption = "Every dot a run; crosses beside the frame stand for runs that failed."
    caption += " Open diamonds: reported." if answer["reported"] else ""
    return Drawing(sheet.svg, "Test errors", caption)


def _curves(answer: Mapping[str, Any]) -> list[Drawing]:
    """Training errors; networks with the same inputs together, and where they are too many, those trained equally long.

    What are still more than there are colours for are divided in their order.
    """
    drawn = [row for row in rows_of(answer) if max(map(len, row["while_training"].values())) > 1]
    figures: list[list[Mapping[str, Any]]] = []
    for rows in _by(drawn, "scaling"):
        for own in [rows] if _has_colours(rows) else _by(rows, "epochs"):
            figures.append([])
            for row in own:
                figures += [] if _has_colours([*figures[-1], row]) else [[]]
                figures[-1].append(row)
    return [_training(f"{answer['reproduction']}-curves-{number}", rows) for number, rows in enumerate(figures)]


def _by(rows: Sequence[Mapping[str, Any]], key: str) -> list[list[Mapping[str, Any]]]:
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row.get(key), []).append(row)
    return list(groups.values())


def _has_colours(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each has one of its own; those with standard units are told from the others by their dashes."""
    return max(Counter(map(_is_standard, rows)).values()) <= len(COLOURS)


def _is_standard(row: Mapping[str, Any]) -> bool:
    return bool(row["neuron"] == "standard")


def _training(name: str, rows: Sequence[Mapping[str, Any]]) -> Drawing:
    """Colours are counted for standard and other units apart, so that networks which are compared mostly share one."""
    counts: Counter[bool] = Counter()
    singly = max(len(row["while_training"]) for row in rows) <= SINGLY
    with blank(name) as sheet:
        for row in rows:
            number = counts[_is_standard(row)]
            counts[_is_standard(row)] += 1
            style: dict[str, Any] = {"linestyle": "--" if _is_standard(row) else "-", "linewidth": 1}
            runs = [curve for curve in row["while_training"].values() if curve]
            for place, curve in enumerate(runs if singly else [_means(runs)]):
                label = row["name"] if place == 0 else None
                errors = [100 * (1 - a) for a in curve]
                sheet.axes.plot(range(1, len(errors) + 1), errors, color=colour(number), label=label, **style)
        sheet.axes.set(xlabel="epoch", ylabel="training error (%)")
        _whole_epochs(sheet)
        _legend_below(sheet)
    caption = (
        "Training error, every run a line, dashed for standard units; one that breaks down ends, and is not there if it did "
        "in the first epoch."
    )
    if not singly:
        caption = "Training error, means over the runs that got so far, dashed for standard units."
    return Drawing(sheet.svg, "While training", caption)


def _activity(answer: Mapping[str, Any]) -> list[Drawing]:
    found = []
    shown = (("dead_units", "dead units (%)", (0, None)), ("silent", "images that silence a layer (%)", (-2, 102)))
    for measure, label, limits in shown:
        rows = answer["result"]["rows"]
        for start in range(0, len(rows), FEW):
            few = rows[start : start + FEW]
            # A table says as well that there is nothing.
            if not any(max(of[measure]) for row in few for of in row["over_training"].values()):
                continue
            with blank(f"{answer['reproduction']}-{measure}-{start}") as sheet:
                for number, row in enumerate(few):
                    _mean(sheet, number, row["name"], [of[measure] for of in row["over_training"].values()])
                sheet.axes.set(xlabel="epoch", ylabel=label, ylim=limits)
                _whole_epochs(sheet)
                _legend_below(sheet)
            caption = "After every epoch, 0 is before training; means over the runs that got so far."
            found.append(Drawing(sheet.svg, label.removesuffix(" (%)").capitalize(), caption))
    return found


def _mean(sheet: Sheet, number: int, label: str, curves: Sequence[Sequence[float]]) -> None:
    means = [100 * share for share in _means(curves)]
    sheet.axes.plot(range(len(means)), means, color=colour(number), linewidth=1.2, marker=".", label=label)


def _means(curves: Sequence[Sequence[float]]) -> list[float]:
    """At each place over the curves that are so long."""
    longest = max(map(len, curves))
    return [float(np.mean([curve[i] for curve in curves if len(curve) > i])) for i in range(longest)]


def _legend_below(sheet: Sheet) -> None:
    """Out of the way of the lines; in one column if names are long, since two would be wider than the figure."""
    names = sheet.axes.get_legend_handles_labels()[1]
    columns = 1 if max(map(len, names)) > LONG else 2
    sheet.figure.set_size_inches(4.6, 3.0 + 0.15 * (1 + len(names) // columns))
    sheet.figure.legend(fontsize=7, loc="outside lower center", ncol=columns)


def _whole_epochs(sheet: Sheet) -> None:
    sheet.axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _born_dead(answer: Mapping[str, Any]) -> list[Drawing]:
    found = []
    for picture in answer["result"]["pictures"]:
        with blank(f"{answer['reproduction']}-{picture['network']}") as sheet:
            points, labels = np.array(picture["points"]), np.array(picture["labels"])
            for label, marker in ((0, "o"), (1, "P")):
                chosen = points[labels == label]
                style: dict[str, Any] = {"color": colour(label), "marker": marker, "s": 12, "zorder": 3}
                sheet.axes.scatter(chosen[:, 0], chosen[:, 1], label=f"class {label}", **style)
            for lines, shade, words in ((picture["before"], "#999999", "start"), (picture["after"], "#009E73", "end")):
                for place, line in enumerate(lines):
                    _line(sheet, line, shade, words if place == 0 else None)
            sheet.axes.set(aspect="equal", xlim=(-6, 6), ylim=(-4, 4))
            sheet.axes.grid(visible=False)
            sheet.axes.legend(fontsize=7, loc="upper left")
        caption = "Where each unit switches, at the start and at the end; arrows point to where it is on."
        found.append(Drawing(sheet.svg, picture["network"].capitalize(), caption))
    return found


def _line(sheet: Sheet, line: Sequence[float], shade: str, label: str | None) -> None:
    """The line w·x + b = 0 with an arrow along w."""
    w, b = np.array(line[:2]), line[2]
    norm = float(np.linalg.norm(w))
    if norm == 0:
        return
    foot, unit = -b * w / norm**2, w / norm
    along = np.array([-unit[1], unit[0]])
    ends = np.stack([foot - 20 * along, foot + 20 * along])
    style = "-" if shade == "#009E73" else "--"
    sheet.axes.plot(ends[:, 0], ends[:, 1], style, color=shade, linewidth=1.2, label=label)
    tip = foot + 0.8 * unit
    sheet.axes.annotate("", (tip[0], tip[1]), (foot[0], foot[1]), arrowprops={"arrowstyle": "->", "color": shade})


FIGURES: dict[str, Any] = {"accuracy_table": _accuracy, "activity": _activity, "born_dead": _born_dead}
"""By procedure."""
