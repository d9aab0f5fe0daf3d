"""Figures of the geometric paper's reproductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuronal.experiments.procedures.geometric.protocol_table import as_long
from neuronal.report.figures import MARKERS, Drawing, blank, colour, plain_numbers


def protocol_table(answer: Mapping[str, Any]) -> list[Drawing]:
    """Every method beside the standard one, set by set; one figure per protocol."""
    found = []
    for protocol in ("published", "clean"):
        rows = [row for row in answer["result"]["rows"] if row["protocol"] == protocol and "estimate" in row]
        places = list(dict.fromkeys((row["data"], row["batch"]) for row in rows))
        lower = bool(rows) and rows[0]["measure"] == "rmse"
        with blank(f"{answer['reproduction']}-{protocol}") as sheet:
            methods = list(dict.fromkeys(row["method"] for row in rows))
            for number, method in enumerate(methods):
                x, y, error = [], [], []
                for place, (data, batch) in enumerate(places):
                    own = {r["method"]: r["estimate"] for r in rows if (r["data"], r["batch"]) == (data, batch)}
                    base = own.get(methods[0], {}).get("mean") if lower else 0.01
                    if method in own and base:
                        x.append(place + 0.14 * (number - (len(methods) - 1) / 2))
                        y.append(own[method]["mean"] / base)
                        error.append(2 * (own[method]["standard_error"] or 0.0) / base)
                style: dict[str, Any] = {"marker": MARKERS[number], "linestyle": "", "markersize": 4, "capsize": 2}
                sheet.axes.errorbar(x, y, yerr=error, color=colour(number), label=method, **style)
            with_batch = len({batch for _, batch in places}) > 1
            sheet.axes.set_xticks(range(len(places)), [str(batch) if with_batch else data for data, batch in places])
            sheet.axes.set(ylabel=f"test RMSE, {methods[0]} = 1" if lower and methods else "test accuracy (%)")
            if with_batch:
                sheet.axes.set(xlabel="batch size")
            sheet.axes.legend(ncols=2)
        caption = "Means over seeds, bars two standard errors to each side."
        found.append(Drawing(sheet.svg, f"{answer['title']}, {protocol}", caption))
    return found + _convergence(answer)


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
    axes.plot(epochs, columns.mean(0), color=colour(number), linewidth=1.2, marker=marker, label=label)
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
    """Figures 2 and 3: motion step by step, then for every method what it learnt and where its units went."""
    result = answer["result"]
    key, label = ("distance", "largest shift in a step") if result["inputs"] == 1 else ("angle", "largest turn (°)")
    with blank(f"{answer['reproduction']}-motion") as sheet:
        for number, picture in enumerate(result["pictures"]):
            steps = [picture["every"] * (i + 1) for i in range(len(picture[key]))]
            values = [max(value, 1e-6) for value in picture[key]]
            name = f"{picture['method']}, rate {picture['rate']:g}"
            sheet.axes.plot(steps, values, color=colour(number), linewidth=0.9, label=name)
        sheet.axes.set(xlabel="step", ylabel=label, yscale="log")
        sheet.axes.set_yscale("log", base=2 if result["inputs"] == 1 else 10)
        plain_numbers(sheet.axes.yaxis)
        sheet.axes.legend()
    found = [
        Drawing(sheet.svg, "Motion", "The largest step of any unit, one seed of each, each at its published rate.")
    ]
    draw = _curve if result["inputs"] == 1 else _plane
    return found + [one for picture in result["pictures"] for one in draw(answer["reproduction"], picture)]


def _curve(name: str, picture: Mapping[str, Any]) -> list[Drawing]:
    title = f"{picture['method']}, rate {picture['rate']:g}"
    with blank(f"{name}-{picture['method']}-curve") as sheet:
        truth, points = np.array(picture["truth"]), np.array(picture["points"])[:, 0]
        x = np.linspace(picture["low"][0], picture["high"][0], len(picture["value"]))
        sheet.axes.plot(truth[:, 0], truth[:, 1], color="#888888", linewidth=1, label="truth")
        sheet.axes.plot(points, picture["answers"], ".", color="#000000", markersize=3, label="training points")
        sheet.axes.plot(x, picture["value"], color=colour(1), label="network")
        sheet.axes.legend()
    with blank(f"{name}-{picture['method']}-points") as spots:
        for at, places in picture["places"]:
            inside = [place[0] for place in places if abs(place[0]) <= 12]
            spots.axes.plot(inside, [at] * len(inside), "|", color=colour(0), markersize=3, markeredgewidth=0.6)
        spots.axes.set(xlabel="where units switch", ylabel="step", xlim=(-12, 12))
    caption = "Where the units switch, from the start (below) to the end; those outside of the picture are left out."
    return [
        Drawing(sheet.svg, f"Prediction, {title}", "After training, one seed."),
        Drawing(spots.svg, f"Points, {title}", caption),
    ]


def _plane(name: str, picture: Mapping[str, Any]) -> list[Drawing]:
    title = f"{picture['method']}, rate {picture['rate']:g}"
    side = round(len(picture["value"]) ** 0.5)
    xs, ys = (np.linspace(picture["low"][i], picture["high"][i], side) for i in (0, 1))
    with blank(f"{name}-{picture['method']}-plane") as sheet:
        points, answers = np.array(picture["points"]), np.array(picture["answers"])
        for label in (0, 1):
            own = points[answers == label]
            sheet.axes.plot(own[:, 0], own[:, 1], ".", color=colour(label), markersize=2)
        sheet.axes.contour(xs, ys, np.array(picture["value"]).reshape(side, side).T, levels=[0], colors="black")
        paths = np.array([places for _, places in picture["places"]])
        for unit in range(paths.shape[1]):
            sheet.axes.plot(paths[:, unit, 0], paths[:, unit, 1], color=colour(unit), linewidth=0.7, alpha=0.8)
        sheet.axes.plot(paths[-1, :, 0], paths[-1, :, 1], "*", color="#D00000", markersize=7)
        sheet.axes.set(xlim=(xs[0], xs[-1]), ylim=(ys[0], ys[-1]))
    caption = "Points, the border between the classes (black), the way of every unit's location, and its end (stars)."
    return [Drawing(sheet.svg, title, caption)]


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
                style: dict[str, Any] = {"marker": MARKERS[number], "markersize": 4}
                sheet.axes.plot([row["width"] for row in own], values, color=colour(number), label=start, **style)
            sheet.axes.set(xscale="log", xlabel="width", ylabel=label)
            plain_numbers(sheet.axes.xaxis)
            if key == "signal":
                sheet.axes.set_yscale("log")
                plain_numbers(sheet.axes.yaxis)
            sheet.axes.legend()
        found.append(Drawing(sheet.svg, label[0].upper() + label[1:], "Widths on a logarithmic axis."))
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
