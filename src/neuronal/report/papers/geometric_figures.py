"""Figures of the geometric paper's reproductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from typing import Any

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, NullFormatter

from neuronal.experiments.procedures.geometric.protocol_table import UNITS, as_long
from neuronal.report.figures import MARKERS, Drawing, Sheet, blank, colour, plain_numbers

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
"""Exponents as text: mathematical text is switched off."""


def _panels(sheet: Sheet, count: int, columns: int, size: tuple[float, float], **shared: Any) -> list[Any]:
    """So many axes of one ``size`` in inches in the place of the sheet's own."""
    rows = -(-count // columns)
    sheet.figure.clear()
    sheet.figure.set_size_inches(columns * size[0], rows * size[1])
    every = list(sheet.figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for spare in every[count:]:
        spare.remove()
    return every[:count]


def protocol_table(answer: Mapping[str, Any]) -> list[Drawing]:
    """All methods side by side, a panel for every set or batch size; one figure per protocol."""
    found = []
    methods = list(dict.fromkeys(row["method"] for row in answer["result"]["rows"]))
    for protocol in ("published", "clean"):
        rows = [row for row in answer["result"]["rows"] if row["protocol"] == protocol and "estimate" in row]
        with blank(f"{answer['reproduction']}-{protocol}") as sheet:
            if rows:
                _side_by_side(sheet, rows, methods)
        caption = "Means over seeds, bars two standard errors to each side"
        caption += "; every set has an axis of its own." if rows and rows[0]["measure"] == "rmse" else "."
        found.append(Drawing(sheet.svg, f"{answer['title']}, {protocol}", caption))
    return found + _convergence(answer)


def _side_by_side(sheet: Sheet, rows: Sequence[Mapping[str, Any]], methods: Sequence[str]) -> None:
    lower = rows[0]["measure"] == "rmse"
    places = list(dict.fromkeys((row["data"], row["batch"]) for row in rows))
    with_batch = len({batch for _, batch in places}) > 1
    columns = min(3, len(places))
    # Errors of different sets have nothing to do with each other; accuracies at several batch sizes do. A single panel
    # is wide enough for the legend.
    panels = _panels(sheet, len(places), columns, (2.1 if columns > 1 else 3.0, 2.1), sharey=not lower)
    for axes, place in zip(panels, places, strict=True):
        own = {row["method"]: row["estimate"] for row in rows if (row["data"], row["batch"]) == place}
        for number, method in enumerate(methods):
            if method in own:
                mean, error = (100 ** (not lower) * (own[method][key] or 0.0) for key in ("mean", "standard_error"))
                style: dict[str, Any] = {"marker": MARKERS[number], "linestyle": "", "markersize": 4, "capsize": 2}
                axes.errorbar([number], [mean], yerr=[2 * error], color=colour(number), label=method, **style)
        axes.set(title=f"batches of {place[1]}" if with_batch else place[0], xlim=(-0.7, len(methods) - 0.3))
        axes.set_xticks([])
    for axes in panels[::columns]:
        axes.set(ylabel="test RMSE" if lower else "test accuracy (%)")
    _one_legend(sheet, panels, 6 if columns > 1 else 3)


def _one_legend(sheet: Sheet, panels: Sequence[Any], columns: int) -> None:
    """For all panels together, above them."""
    shown = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    sheet.figure.legend(list(shown.values()), list(shown), loc="outside upper center", ncols=columns)


PANELS = (
    ("accuracy", "training accuracy (%)", 100),
    ("loss", "training loss", 1),
    ("followed_accuracy", "{} accuracy (%)", 100),
    ("followed_top5", "{} top-5 accuracy (%)", 100),
)
"""Curve, label with the name of the data followed, and factor."""


def _convergence(answer: Mapping[str, Any]) -> list[Drawing]:
    """Figure 4: a figure per protocol and batch size, with training on the left and followed data on the right."""
    rows = [row for row in answer["result"]["rows"] if "curves" in row]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    found = []
    for protocol, batch in dict.fromkeys((row["protocol"], row["batch"]) for row in rows):
        own = [row for row in rows if (row["protocol"], row["batch"]) == (protocol, batch)]
        followed = "test" if protocol == "published" else "held-out"
        with blank(f"{answer['reproduction']}-{protocol}-{batch}-epochs") as sheet:
            sheet.figure.clear()
            sheet.figure.set_size_inches(6.4, 5.0)
            panels = sheet.figure.subplots(2, 2, sharex=True).T.flat
            for axes, (key, label, factor) in zip(panels, PANELS, strict=True):
                for row in own:
                    _band(axes, methods.index(row["method"]), row["method"], row["curves"].get(key, []), factor)
                axes.set(ylabel=label.format(followed))
                axes.xaxis.get_major_locator().set_params(integer=True)
            for axes in sheet.figure.axes[2:]:
                axes.set(xlabel="epoch")
            sheet.figure.legend(*sheet.figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
        caption = (
            f"Epoch by epoch, every method at {'its published' if protocol == 'published' else 'its tuned'} rate: means "
            "over seeds, bands from the lowest to the highest. A seed that stopped early stays at its last value."
        )
        found.append(Drawing(sheet.svg, f"Convergence, {protocol}, batches of {batch}", caption))
    return found


def _band(axes: Any, number: int, label: str, curves: Sequence[Sequence[float]], factor: float) -> None:
    if not curves:
        return
    columns = factor * np.array(as_long(curves))
    epochs = range(1, columns.shape[1] + 1)
    marker = MARKERS[number] if len(epochs) == 1 else ""
    # Every other one has gaps, through which a curve below is seen.
    style: dict[str, Any] = {"linewidth": 1.2, "linestyle": (0, (4, 2)) if number % 2 else "-", "marker": marker}
    axes.plot(epochs, columns.mean(0), color=colour(number), label=label, **style)
    axes.fill_between(epochs, columns.min(0), columns.max(0), color=colour(number), alpha=0.15, linewidth=0)


def perturbation(answer: Mapping[str, Any]) -> list[Drawing]:
    """Figure 1b to 1e: a line per change, the one of before in black, and where each is nearest to the origin."""
    result, found = answer["result"], []
    for method in dict.fromkeys(row["method"] for row in result["rows"]):
        with blank(f"{answer['reproduction']}-{method}") as sheet:
            lines = [(None, result["start"]), *((r["epsilon"], r) for r in result["rows"] if r["method"] == method)]
            for number, (epsilon, row) in enumerate(lines):
                shade = "#000000" if epsilon is None else colour(number - 1)
                label = "before" if epsilon is None else f"{epsilon:g}"
                _line(sheet.axes, row["location"], row["normal"], shade, label)
            sheet.axes.set(aspect="equal", xlim=(-1.5, 1.5), ylim=(-1.5, 1.5))
            sheet.axes.legend(title="added to all")
        caption = "Boundaries before and after; dotted, the way from the origin to the nearest point of each."
        found.append(Drawing(sheet.svg, f"{method} under perturbation", caption))
    return found


def _line(axes: Any, location: Sequence[float], normal: Sequence[float], shade: str, label: str | None) -> None:
    (x, y), (u, v) = location, normal
    axes.plot([x - 4 * v, x + 4 * v], [y + 4 * u, y - 4 * u], color=shade, linewidth=1.2, label=label)
    axes.plot([0, x], [0, y], color=shade, linestyle=":", linewidth=1.2)


def boundaries(answer: Mapping[str, Any]) -> list[Drawing]:
    """Figures 5 and 6: the sets, a figure for every radius; nearest points, and arrows to the active side."""
    result, found = answer["result"], []
    for radius in dict.fromkeys(row["radius"] for row in result["rows"]):
        with blank(f"{answer['reproduction']}-{radius:g}") as sheet:
            rows = [row for row in result["rows"] if row["radius"] == radius]
            for number, row in enumerate(rows):
                label = f"angle {row['angle']:g} π"
                if result["inputs"] == 1:
                    _unit_on_a_line(sheet.axes, row, colour(number), label)
                    continue
                _line(sheet.axes, row["location"], row["normal"], colour(number), label)
                (x, y), (u, v) = row["location"], row["normal"]
                arrow = {"arrowstyle": "->", "color": colour(number)}
                sheet.axes.annotate("", (x + 0.5 * u, y + 0.5 * v), (x, y), arrowprops=arrow)
            if result["inputs"] == 2:
                sheet.axes.set(aspect="equal", xlim=(-2, 2), ylim=(-2, 2))
            else:
                sheet.axes.set(xlabel="input", ylabel="unit", xlim=(-3, 3), ylim=(-0.2, 3))
            sheet.axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        caption = (
            "Boundaries, each with its nearest point to the origin (dot, or end of the dotted line); arrows, where "
        )
        caption = caption + "there are any, point to where the unit is active."
        found.append(Drawing(sheet.svg, f"Radius {radius:g}", caption))
    return found


def _unit_on_a_line(axes: Any, row: Mapping[str, Any], shade: str, label: str | None) -> None:
    (place,), (sign,) = row["location"], row["normal"]
    x = np.linspace(-3, 3, 121)
    dashes = "-" if sign > 0 else "--"
    axes.plot(x, np.maximum(0, sign * (x - place)), color=shade, linestyle=dashes, linewidth=1.2, label=label)
    axes.plot([place], [0], color=shade, marker="o", markersize=5)


def hinge_motion(answer: Mapping[str, Any]) -> list[Drawing]:
    """Figures 2 and 3, rate by rate: motion step by step, what every method learnt, and where its units went."""
    result, found = answer["result"], []
    draw = _curves if result["inputs"] == 1 else _planes
    for rate in sorted({picture["rate"] for picture in result["pictures"]}):
        pictures = [picture for picture in result["pictures"] if picture["rate"] == rate]
        name = f"{answer['reproduction']}-{rate:g}"
        found += [_motion(name, pictures, result["inputs"]), *draw(name, pictures, result["drawn"])]
    return found


def _motion(name: str, pictures: Sequence[Mapping[str, Any]], inputs: int) -> Drawing:
    """Figures 2c and 3i."""
    key, label = ("distance", "largest shift in a step") if inputs == 1 else ("angle", "largest turn in a step (°)")
    with blank(f"{name}-motion") as sheet:
        for number, picture in enumerate(pictures):
            steps = [picture["every"] * (i + 1) for i in range(len(picture[key]))]
            # No motion at all has no place on a logarithmic axis.
            values = [value or np.nan for value in picture[key]]
            sheet.axes.plot(steps, values, color=colour(number), linewidth=0.9, label=picture["method"])
        sheet.axes.set(xlabel="step", ylabel=label)
        sheet.axes.set_yscale("log", base=2 if inputs == 1 else 10)
        (powers_of_two if inputs == 1 else plain_numbers)(sheet.axes.yaxis)
        sheet.axes.legend()
    rate = f"{pictures[0]['rate']:g}"
    caption = (
        f"The largest step of any unit, one seed of each method, all at rate {rate}; the axis is logarithmic, and the "
    )
    caption += "highest point of a curve is what is judged."
    return Drawing(sheet.svg, f"Motion, all at rate {rate}", caption)


def powers_of_two(axis: Axis) -> None:
    """``2⁻¹⁵`` at the ticks of an axis that is logarithmic to base 2."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"2{str(round(log2(value))).translate(RAISED)}"))
    axis.set_minor_formatter(NullFormatter())


def _heading(picture: Mapping[str, Any]) -> str:
    factor, unit, digits = UNITS[picture["measure"]]
    what = "RMSE" if picture["measure"] == "rmse" else "right"
    number = format(factor * picture["test"], digits) + unit
    return f"{picture['method']}: " + (f"{what} {number}" if not unit else f"{number} {what}")


def _curves(name: str, pictures: Sequence[Mapping[str, Any]], drawn: Mapping[str, Any]) -> list[Drawing]:
    """Figures 2d to 2g."""
    rate = f"{pictures[0]['rate']:g}"
    truth, points = np.array(drawn["truth"]), np.array(drawn["points"])[:, 0]
    with blank(f"{name}-curves") as sheet:
        panels = _panels(sheet, len(pictures), 2, (3.2, 2.1), sharex=True, sharey=True)
        for axes, picture in zip(panels, pictures, strict=True):
            x = np.linspace(drawn["low"][0], drawn["high"][0], len(picture["value"]))
            axes.plot(truth[:, 0], truth[:, 1], color="#888888", linewidth=1, label="truth")
            axes.plot(points, drawn["answers"], ".", color="#000000", markersize=3, label="training points")
            axes.plot(x, picture["value_at_start"], ":", color=colour(0), linewidth=1.2, label="before training")
            axes.plot(x, picture["value"], color=colour(1), linewidth=1.2, label="after training")
            axes.set(title=_heading(picture))
        _one_legend(sheet, panels, 4)
    with blank(f"{name}-points") as spots:
        panels = _panels(spots, len(pictures), 2, (3.2, 2.1), sharex=True)
        for axes, picture in zip(panels, pictures, strict=True):
            for at, places in picture["places"]:
                inside = [place[0] for place in places if abs(place[0]) <= 12]
                axes.plot(inside, [at] * len(inside), "|", color=colour(0), markersize=4, markeredgewidth=0.6)
            axes.set(title=picture["method"], xlim=(-12, 12))
        for axes in panels[-2:]:
            axes.set(xlabel="where units switch")
        for axes in panels[::2]:
            axes.set(ylabel="step")
    caption = "Where the units switch, from the start (below) to the end; those outside of the picture are left out."
    return [
        Drawing(sheet.svg, f"Predictions, all at rate {rate}", "One seed of each method, with its test RMSE."),
        Drawing(spots.svg, f"Points, all at rate {rate}", caption),
    ]


def _planes(name: str, pictures: Sequence[Mapping[str, Any]], drawn: Mapping[str, Any]) -> list[Drawing]:
    """Figures 3a to 3h (ways) and 3j to 3m (borders)."""
    rate = f"{pictures[0]['rate']:g}"
    points, answers = np.array(drawn["points"]), np.array(drawn["answers"])
    (left, bottom), (right, top) = drawn["low"], drawn["high"]
    with blank(f"{name}-ways") as ways, blank(f"{name}-borders") as borders:
        both = [_panels(one, len(pictures), 2, (3.2, 2.5), sharex=True, sharey=True) for one in (ways, borders)]
        for way, border, picture in zip(*both, pictures, strict=True):
            paths = np.array([places for _, places in picture["places"]])
            for unit in range(paths.shape[1]):
                way.plot(paths[:, unit, 0], paths[:, unit, 1], color=colour(unit), linewidth=0.8)
            way.set(title=picture["method"])
            for label in (0, 1):
                own = points[answers == label]
                border.plot(own[:, 0], own[:, 1], ".", color=colour(label), markersize=2)
            side = round(len(picture["value"]) ** 0.5)
            grid = np.linspace(left, right, side), np.linspace(bottom, top, side)
            border.contour(*grid, np.array(picture["value"]).reshape(side, side).T, levels=[0], colors="black")
            border.set(title=_heading(picture))
            for axes in (way, border):
                axes.plot(paths[-1, :, 0], paths[-1, :, 1], "*", color="#D00000", markersize=7)
                axes.set(xlim=(left, right), ylim=(bottom, top))
    outside = "what is outside of the picture is left out"
    most = max(len(picture["places"]) for picture in pictures)
    told = f"From the origin, where every unit starts, to its end (stars), up to {most} snapshots of a training"
    shown = "Training points, the border between the classes (black), and where units are at the end (stars)"
    return [
        Drawing(ways.svg, f"Ways of the units, all at rate {rate}", f"{told}, one seed of each method; {outside}."),
        Drawing(borders.svg, f"Borders, all at rate {rate}", f"{shown}, one seed of each method; {outside}."),
    ]


def learning_rates(answer: Mapping[str, Any]) -> list[Drawing]:
    found = []
    for data in dict.fromkeys(row["data"] for row in answer["result"]["rows"]):
        rows = [row for row in answer["result"]["rows"] if row["data"] == data and "estimate" in row]
        factor = 100 if rows and rows[0]["measure"] == "accuracy" else 1
        with blank(f"{answer['reproduction']}-{data}") as sheet:
            for number, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
                own = [row for row in rows if row["method"] == method]
                means = [factor * row["estimate"]["mean"] for row in own]
                errors = [2 * factor * (row["estimate"]["standard_error"] or 0.0) for row in own]
                style: dict[str, Any] = {"marker": MARKERS[number], "markersize": 4, "capsize": 2}
                rates = [row["rate"] * 1.03**number for row in own]
                sheet.axes.errorbar(rates, means, yerr=errors, color=colour(number), label=method, **style)
            sheet.axes.set(
                xscale="log", xlabel="learning rate", ylabel="test accuracy (%)" if factor > 1 else "test RMSE"
            )
            plain_numbers(sheet.axes.xaxis)
            sheet.axes.legend()
        found.append(
            Drawing(sheet.svg, f"{data}: all rates", "Means over seeds, bars two standard errors to each side.")
        )
    return found


def widths(answer: Mapping[str, Any]) -> list[Drawing]:
    found = []
    for key, label in (("signal", "signal at the start"), ("rmse", "test RMSE")):
        with blank(f"{answer['reproduction']}-{key}") as sheet:
            rows = [row for row in answer["result"]["rows"] if "estimate" in row]
            for number, start in enumerate(dict.fromkeys(row["start"] for row in rows)):
                own = [row for row in rows if row["start"] == start]
                values = [row["signal"] if key == "signal" else row["estimate"]["mean"] for row in own]
                spread = [
                    row.get("signal_error") if key == "signal" else row["estimate"]["standard_error"] for row in own
                ]
                errors = [2 * (one or 0.0) for one in spread]
                style: dict[str, Any] = {"marker": MARKERS[number], "markersize": 4, "capsize": 2}
                # A little apart, so that bars can be told apart.
                places = [row["width"] * 1.05**number for row in own]
                sheet.axes.errorbar(places, values, yerr=errors, color=colour(number), label=start, **style)
            sheet.axes.set(xscale="log", xlabel="width", ylabel=label)
            plain_numbers(sheet.axes.xaxis)
            if key == "signal":
                sheet.axes.set_yscale("log")
                plain_numbers(sheet.axes.yaxis)
            sheet.axes.legend()
        caption = "Means over seeds, bars two standard errors to each side; widths on a logarithmic axis."
        found.append(Drawing(sheet.svg, label[0].upper() + label[1:], caption))
    return found


def same_rate(answer: Mapping[str, Any]) -> list[Drawing]:
    """Seed by seed, one method against the other."""
    rows = [row for row in answer["result"]["rows"] if "values" in row]
    names = list(dict.fromkeys(row["method"] for row in rows))
    if len(names) != 2:
        return []
    factor = 1 if rows[0]["measure"] == "rmse" else 100
    with blank(f"{answer['reproduction']}-seeds") as sheet:
        for number, protocol in enumerate(("published", "clean")):
            own = {
                r["method"]: dict(zip(r["seeds"], r["values"], strict=True)) for r in rows if r["protocol"] == protocol
            }
            both = [seed for seed in own.get(names[0], {}) if seed in own.get(names[1], {})]
            across, up = ([factor * own[name][seed] for seed in both] for name in names)
            style: dict[str, Any] = {"linestyle": "", "marker": MARKERS[number], "markersize": 4, "label": protocol}
            sheet.axes.plot(across, up, color=colour(number), **style)
        low, high = sheet.axes.get_xlim()
        sheet.axes.axline(((low + high) / 2, (low + high) / 2), slope=1, color="grey", linewidth=0.8)
        unit = "RMSE" if factor == 1 else "accuracy (%)"
        sheet.axes.set(xlabel=f"{names[0]}, test {unit}", ylabel=f"{names[1]}, test {unit}")
        sheet.axes.legend()
    return [Drawing(sheet.svg, "Seed by seed", "A point is a seed; on the line both methods do as well.")]


FIGURES: dict[str, Any] = {
    "boundaries": boundaries,
    "hinge_motion": hinge_motion,
    "learning_rates": learning_rates,
    "perturbation": perturbation,
    "protocol_table": protocol_table,
    "same_rate": same_rate,
    "widths": widths,
}
"""By procedure."""
