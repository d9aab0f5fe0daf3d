"""Figures of the results of the implicit-bias paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from neuronal.data.generated import arrows
from neuronal.experiments.procedures.implicit_bias.accuracy_curve import by_data, curves
from neuronal.experiments.procedures.implicit_bias.robustness import networks
from neuronal.experiments.procedures.implicit_bias.transfer import by_coupling
from neuronal.report.figures import MARKERS, Drawing, blank, colour, plain_numbers

BAND = "Lines are medians over seeds, bands reach from the lowest to the highest seed."


def _band(
    axes: Any, number: int, label: str, x: Sequence[float], rows: Sequence[Sequence[float]], **style: Any
) -> None:
    """One line with its band; ``rows`` are the curves of the seeds."""
    columns = list(zip(*rows, strict=True))
    marker = MARKERS[number % len(MARKERS)]
    axes.plot(x, list(map(median, columns)), color=colour(number), marker=marker, markersize=4, label=label, **style)
    low, high = list(map(min, columns)), list(map(max, columns))
    axes.fill_between(x, low, high, color=colour(number), alpha=0.18, linewidth=0)


def _percent(values: Sequence[float]) -> list[float]:
    return [100 * value for value in values]


def _boundary(answer: Mapping[str, Any]) -> list[Drawing]:
    shown = [row for row in answer["result"]["rows"] if "boundary" in row]
    options, points = answer["options"], arrows().train
    found = []
    for title, key, fixed, value in (
        ("Couplings", "coupling", "slope", options["slope"]),
        ("Slopes", "slope", "coupling", options["coupling"]),
    ):
        rows = [row for row in shown if row["neuron"] == "standard" or row[fixed] == value]
        with blank(f"{answer['reproduction']}-{key}") as sheet:
            for label, shade in ((0, "#f2e3a0"), (1, "#c4d8ee")):
                chosen = points.x[points.y == label]
                sheet.axes.scatter(chosen[:, 0], chosen[:, 1], s=3, color=shade, linewidths=0)
            for number, row in enumerate(rows):
                text = "standard" if row["neuron"] == "standard" else f"{key} {row[key]:g}"
                x, y = zip(*row["boundary"], strict=True) if row["boundary"] else ((), ())
                sheet.axes.scatter(x, y, s=2, color=colour(number), label=text, linewidths=0, zorder=3)
            sheet.axes.set(aspect="equal")
            sheet.axes.grid(visible=False)
            sheet.axes.legend(markerscale=3, fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
        caption = (
            f"Boundaries of networks of {options['units']} units between the arrows, first seed; {fixed} {value:g}."
        )
        found.append(Drawing(sheet.svg, title, caption))
    return found


def _energy(answer: Mapping[str, Any]) -> list[Drawing]:
    rows = answer["result"]["rows"]
    with blank(f"{answer['reproduction']}-solutions") as sheet:
        for number, slope in enumerate(sorted({row["slope"] for row in rows})):
            own = sorted((row for row in rows if row["slope"] == slope), key=lambda row: row["product"])
            x, y = [row["product"] for row in own], [max(row["solutions"]) for row in own]
            marker = MARKERS[number % len(MARKERS)]
            sheet.axes.plot(x, y, color=colour(number), marker=marker, markersize=4, label=f"slope {slope:g}")
        sheet.axes.axvline(0.5, color="#444444", linewidth=1, linestyle=":", label="the paper's bound")
        sheet.axes.axvline(1, color="#444444", linewidth=1, linestyle="--", label="the layers' bound")
        sheet.axes.set(xscale="symlog", yscale="log", xlabel="coupling times slope", ylabel="solutions found")
        plain_numbers(sheet.axes.xaxis)
        plain_numbers(sheet.axes.yaxis)
        sheet.axes.legend()
    caption = "The most solutions any row has, by descents of the energy from many places."
    return [Drawing(sheet.svg, "Where solutions are unique", caption)]


def _robustness(answer: Mapping[str, Any]) -> list[Drawing]:
    result = answer["result"]
    groups = networks(result["rows"])
    data = [group[0]["name"] for group in groups if group[0]["neuron"] == "standard"]
    found = []
    for name in data:
        with blank(f"{answer['reproduction']}-{name}") as sheet:
            own = [group for group in groups if group[0]["name"].startswith(name)]
            for number, group in enumerate(own):
                kind = group[0]["neuron"] + group[0]["name"].removeprefix(name)
                for attack, style in (("white_box", "-"), ("transfer", ":")):
                    curves = [_percent(row["accuracy"][attack]) for row in group]
                    label = f"{kind}, {attack.replace('_', '-')}"
                    _band(sheet.axes, number, label, result["epsilons"], curves, linestyle=style)
            sheet.axes.set(xlabel="epsilon", ylabel="accuracy (%)", ylim=(0, 100))
            sheet.axes.legend(fontsize=6)
        found.append(Drawing(sheet.svg, name, f"{BAND} Dotted: the paper's protocol."))
    return found


def _pixels(answer: Mapping[str, Any]) -> list[Drawing]:
    with blank(f"{answer['reproduction']}-queries") as sheet:
        for number, group in enumerate(networks(answer["result"]["rows"])):
            rows = [_percent(row["accuracy"]) for row in group]
            label = f"{group[0]['name']}, {group[0]['neuron']}"
            _band(sheet.axes, number, label, answer["result"]["queries"], rows)
        sheet.axes.set(xlabel="queries", ylabel="accuracy (%)", ylim=(0, 100))
        sheet.axes.legend(fontsize=6)
    return [Drawing(sheet.svg, "Pixle", BAND)]


def _transfer(answer: Mapping[str, Any]) -> list[Drawing]:
    kinds = by_coupling(answer["result"]["rows"])
    with blank(f"{answer['reproduction']}-jacobian") as sheet:
        for number, name in enumerate(dict.fromkeys(kind["name"] for kind in kinds)):
            own = sorted((kind for kind in kinds if kind["name"] == name), key=lambda kind: kind["coupling"])
            x = [kind["coupling"] for kind in own]
            for key, style in (("jacobian", "-"), ("accuracy", ":")):
                plus = 0 if key == "jacobian" else 1
                rows = list(zip(*([value + plus for value in kind[key]] for kind in own), strict=True))
                _band(sheet.axes, number, f"{name}, {key}", x, rows, linestyle=style)
        sheet.axes.axhline(1, color="#444444", linewidth=1)
        sheet.axes.set(xlabel="coupling that is added", ylabel="against coupling 0")
        sheet.axes.legend()
    return [Drawing(sheet.svg, "A coupling added", f"Norm of the Jacobian, and 1 plus the change of accuracy. {BAND}")]


def _sensitivity(answer: Mapping[str, Any]) -> list[Drawing]:
    groups = networks(answer["result"]["rows"])
    with blank(f"{answer['reproduction']}-norms") as sheet:
        for place, group in enumerate(groups):
            for which, number in (("with", 0), ("without", 1)):
                norms = [row[which]["frobenius"] for row in group if which in row]
                label = ("as trained" if which == "with" else "its couplings at 0") if place == 1 else None
                style: dict[str, Any] = {"color": colour(number), "marker": MARKERS[number], "s": 18}
                sheet.axes.scatter([place] * len(norms), norms, label=label, **style)
        names = [f"{group[0]['name']}\n{group[0]['neuron']}" for group in groups]
        sheet.axes.set_xticks(range(len(groups)), names, fontsize=5)
        sheet.axes.set(ylabel="norm of the Jacobian", yscale="log")
        plain_numbers(sheet.axes.yaxis)
        sheet.axes.legend()
    return [Drawing(sheet.svg, "Jacobians", "Mean Frobenius norm over test images; every seed a point.")]


def _stealth(answer: Mapping[str, Any]) -> list[Drawing]:
    groups = networks(answer["result"]["rows"])
    with blank(f"{answer['reproduction']}-logits") as sheet:
        for place, group in enumerate(groups):
            changes = [100 * max(value, 1e-7) for row in group for value in row["logits"]]
            sheet.axes.scatter([place] * len(changes), changes, s=8, color=colour(place))
        names = [f"{group[0]['name']}\n{group[0]['neuron']}" for group in groups]
        sheet.axes.set_xticks(range(len(groups)), names, fontsize=5)
        sheet.axes.set(ylabel="largest change of a logit (% of their spread)", yscale="log")
        plain_numbers(sheet.axes.yaxis)
    caption = "On images the attacker has not seen; every trigger a point. No change is drawn as 0.00001%."
    return [Drawing(sheet.svg, "What the new unit changes", caption)]


def _variants(answer: Mapping[str, Any]) -> list[Drawing]:
    found = []
    groups = networks(answer["result"]["rows"])
    for name in [group[0]["name"] for group in groups if group[0]["neuron"] == "standard"]:
        with blank(f"{answer['reproduction']}-{name}-kinds") as sheet:
            for number, group in enumerate(one for one in groups if one[0]["name"].startswith(name)):
                x, y = ([100 * row[key] for row in group] for key in ("robust", "accuracy"))
                plain = "standard" if group[0]["neuron"] == "standard" else "coupling learnt"
                label = group[0]["name"].removeprefix(name).removeprefix(", ") or plain
                style: dict[str, Any] = {"color": colour(number), "marker": MARKERS[number % len(MARKERS)], "s": 18}
                sheet.axes.scatter(x, y, label=label, **style)
            attacked = f"accuracy under attack, epsilon {answer['result']['epsilon']:g} (%)"
            sheet.axes.set(xlabel=attacked, ylabel="test accuracy (%)")
            # Points are everywhere, so the names are below.
            sheet.axes.legend(fontsize=6, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.2))
        found.append(Drawing(sheet.svg, name, "Accuracy with and without attack. Every seed a point."))
    return found


def _accuracy_curve(answer: Mapping[str, Any]) -> list[Drawing]:
    axis, found = answer["result"]["axis"], []
    for data, own in by_data(answer).items():
        with blank(f"{answer['reproduction']}-{data}") as sheet:
            if axis == "epoch":
                for number, neuron in enumerate(dict.fromkeys(row["neuron"] for row in own)):
                    every = [_percent(row["epochs"]) for row in own if row["neuron"] == neuron]
                    _band(sheet.axes, number, neuron, range(1, len(every[0]) + 1), every)
            else:
                best = axis == "share of wrong labels"
                by_neuron = curves(own, lambda row: max(row["epochs"]) if best else row["accuracy"])  # noqa: B023
                for number, (neuron, curve) in enumerate(by_neuron.items()):
                    seeds = list(zip(*(_percent(values) for values in curve.values()), strict=True))
                    _band(sheet.axes, number, neuron, list(curve), seeds)
            sheet.axes.set(xlabel=axis, ylabel="accuracy (%)")
            sheet.axes.legend()
        found.append(Drawing(sheet.svg, data, BAND))
        if all("curvature" in row for row in own):
            found.append(_curvatures(answer, data, own))
    return found


def _curvatures(answer: Mapping[str, Any], data: str, rows: Sequence[Mapping[str, Any]]) -> Drawing:
    with blank(f"{answer['reproduction']}-{data}-curvature") as sheet:
        for kind, style in (("right", "-"), ("wrong", ":")):
            labelled = [row for row in rows if row["curvature"][kind] is not None]
            by_neuron = curves(labelled, lambda row: row["curvature"][kind])  # noqa: B023
            for number, (neuron, curve) in enumerate(by_neuron.items()):
                seeds = list(zip(*curve.values(), strict=True))
                _band(sheet.axes, number, f"{neuron}, {kind} labels", list(curve), seeds, linestyle=style)
        sheet.axes.set(xlabel=answer["result"]["axis"], ylabel="curvature of the loss", yscale="log")
        plain_numbers(sheet.axes.yaxis)
        sheet.axes.legend(fontsize=6)
    return Drawing(sheet.svg, f"{data}: curvature", f"At training images, by how they were labelled. {BAND}")


FIGURES: dict[str, Any] = {
    "accuracy_curve": _accuracy_curve,
    "boundary_2d": _boundary,
    "energy": _energy,
    "pixels_moved": _pixels,
    "robustness": _robustness,
    "sensitivity": _sensitivity,
    "stealth": _stealth,
    "transfer": _transfer,
    "variants": _variants,
}
"""By procedure."""
