"""Figures of the zero-bias paper's measurements."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import numpy as np

from neuronal.report.figures import MARKERS, Drawing, blank, colour, plain_numbers


def _contrast(answer: Mapping[str, Any]) -> list[Drawing]:
    rows = [row for row in answer["result"]["rows"] if "estimates" in row]
    shown = set()
    with blank(f"{answer['reproduction']}-contrast") as sheet:
        for number, row in enumerate(rows):
            curves = np.array(row["accuracy"]) * 100
            label = f"{row['name']}, {row['neuron']}"
            sheet.axes.plot(
                row["multipliers"],
                curves.mean(0),
                color=colour(number),
                marker=MARKERS[number],
                markersize=4,
                label=label,
            )
            sheet.axes.fill_between(
                row["multipliers"], curves.min(0), curves.max(0), color=colour(number), alpha=0.18, linewidth=0
            )
            reported = answer["reported"].get(row["neuron"], {}).get("curve")
            if reported and row["neuron"] not in shown:
                shown.add(row["neuron"])
                values = [100 * value for value in reported]
                sheet.axes.plot(
                    row["multipliers"], values, color=colour(number), linestyle=":", label=f"reported, {row['neuron']}"
                )
        sheet.axes.set(xscale="log", xlabel="contrast multiplier", ylabel="test accuracy (%)", ylim=(0, 102))
        plain_numbers(sheet.axes.xaxis)
        sheet.axes.invert_xaxis()
        # Below: lines are everywhere between nothing and everything right.
        entries = len(sheet.axes.get_legend_handles_labels()[0])
        sheet.figure.set_size_inches(4.6, 3.0 + 0.2 * entries)
        sheet.axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2))
    caption = "Full contrast on the left. Lines are means over seeds, bands reach from the lowest to the highest seed."
    return [Drawing(sheet.svg, answer["title"], caption)]


def _curves(answer: Mapping[str, Any]) -> list[Drawing]:
    found = []
    for network in answer["result"]["networks"]:
        with blank(f"{answer['reproduction']}-{network['name']}") as sheet:
            for number, (neuron, curves) in enumerate(network["curves"].items()):
                for place, curve in enumerate(curves.values()):
                    label = neuron if place == 0 else None
                    sheet.axes.plot(range(1, len(curve) + 1), curve, color=colour(number), linewidth=1, label=label)
            sheet.axes.set(xlabel="epoch", ylabel="training loss", yscale="log")
            plain_numbers(sheet.axes.yaxis)
            sheet.axes.legend()
        found.append(Drawing(sheet.svg, network["name"], "Training loss, every seed a line."))
    return found


def _pictures(answer: Mapping[str, Any]) -> list[Drawing]:
    """The picture grid of the paper: the outer images are real, those between are mixtures."""
    found = []
    for picture in answer["result"]["pictures"]:
        rows = np.stack([_decoded(row) for row in picture["rows"]])
        pairs, steps = rows.shape[:2]
        images = rows.transpose(0, 1, 3, 4, 2)
        side = images.shape[2]
        grid = np.full((pairs * (side + 1) - 1, steps * (side + 1) - 1, images.shape[-1]), 255, dtype=np.uint8)
        for i in range(pairs):
            for j in range(steps):
                top, left = i * (side + 1), j * (side + 1)
                grid[top : top + side, left : left + side] = images[i, j]
        kind = {True: ", right", False: ", wrong", None: ""}[picture.get("right")]
        with blank(f"{answer['reproduction']}-{picture['name']}{kind}") as sheet:
            sheet.axes.imshow(grid.squeeze(-1) if grid.shape[-1] == 1 else grid, cmap="gray", interpolation="nearest")
            sheet.axes.axis("off")
        truth = {True: ", classified right", False: ", classified wrong", None: ""}[picture.get("right")]
        caption = (
            f"Left and right: test images with one activation pattern and one predicted class{truth}. "
            "Between: their mixtures, all of that class."
        )
        found.append(Drawing(sheet.svg, f"{picture['name']}{truth}", caption))
    return found


def _decoded(row: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(b64decode(row["base64"]), dtype=np.uint8).reshape(row["shape"])


def _rays(answer: Mapping[str, Any]) -> list[Drawing]:
    found = []
    for picture in answer["result"]["pictures"]:
        with blank(f"{answer['reproduction']}-{picture['task']}-{picture['neuron']}") as sheet:
            for corners in picture["regions"]:
                closed = np.array([*corners, corners[0]])
                sheet.axes.plot(closed[:, 0], closed[:, 1], color="#b8c0ca", linewidth=0.7)
            points, labels = np.array(picture["points"]), np.array(picture["labels"])
            for label, marker in ((0, "o"), (1, "P")):
                chosen = points[labels == label]
                style: dict[str, Any] = {"color": colour(label), "marker": marker, "s": 18, "zorder": 3}
                sheet.axes.scatter(chosen[:, 0], chosen[:, 1], label=f"class {label}", **style)
            sheet.axes.set(aspect="equal")
            sheet.axes.grid(visible=False)
            # Beside, and not where there is room: there is none, and to look for it takes long.
            sheet.axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
        title = f"{picture['task']}, {picture['neuron']}"
        seed = f" (seed {picture['seed']}, the first that fits most)" if "seed" in picture else ""
        caption = f"Linear regions of a trained network{seed} and the points it was to fit."
        found.append(Drawing(sheet.svg, title, caption))
    with blank(f"{answer['reproduction']}-along") as sheet:
        # The first seed that fits most, as in the pictures.
        rows = {
            (row["task"], row["neuron"]): row
            for row in sorted(answer["result"]["rows"], key=lambda row: (row["fitted"], -row["seed"]))
        }
        for number, ((task, neuron), row) in enumerate(sorted(rows.items())):
            along = row["along"]
            sheet.axes.plot(along["radius"], along["score"], color=colour(number), label=f"{task}, {neuron}")
        sheet.axes.axhline(0, color="#444444", linewidth=1)
        sheet.axes.set(xlabel="distance from the origin along the first ray", ylabel="score of class 1 less class 0")
        sheet.axes.legend()
    found.append(Drawing(sheet.svg, "Along a ray", "Without biases the score is a straight line through the origin."))
    return found


def _ntk(answer: Mapping[str, Any]) -> list[Drawing]:
    found = []
    for table, key, title, label in (
        ("approach", "to_own_limit", "Wide networks approach their limit", "distance to the limit (%)"),
        ("training", "change", "Training changes the kernel less and less", "change of the kernel (%)"),
    ):
        rows = answer["result"][table]
        with blank(f"{answer['reproduction']}-{table}") as sheet:
            for number, beta in enumerate(sorted({row["beta"] for row in rows})):
                own = [row for row in rows if row["beta"] == beta]
                widths = [row["width"] for row in own]
                means = [100 * row[key]["mean"] for row in own]
                sheet.axes.plot(widths, means, color=colour(number), marker=MARKERS[number], label=f"beta {beta:g}")
            sheet.axes.set(xscale="log", yscale="log", xlabel="width", ylabel=label)
            plain_numbers(sheet.axes.xaxis)
            plain_numbers(sheet.axes.yaxis)
            sheet.axes.legend()
        found.append(Drawing(sheet.svg, title, "Means over seeds; both axes logarithmic."))
    return found


def _zero_image(answer: Mapping[str, Any]) -> list[Drawing]:
    with blank(f"{answer['reproduction']}-zero") as sheet:
        seen: dict[tuple[str, str], Mapping[str, Any]] = {}
        for row in answer["result"]["rows"]:
            seen.setdefault((row["name"], row["neuron"]), row)
        for number, ((name, neuron), row) in enumerate(seen.items()):
            label = f"{name}, {neuron}" if neuron else name
            sheet.axes.plot(
                range(1, len(row["probabilities"]) + 1),
                row["probabilities"],
                color=colour(number),
                marker=".",
                label=label,
            )
        sheet.axes.set(xlabel="classes, the likeliest first", ylabel="probability", yscale="log")
        plain_numbers(sheet.axes.yaxis)
        sheet.axes.legend()
    return [Drawing(sheet.svg, "Zero image", "Probabilities at the image that is zero everywhere; one seed of each.")]


FIGURES: dict[str, Any] = {
    "contrast_table": _contrast,
    "expressiveness": _rays,
    "interpolation": _pictures,
    "ntk": _ntk,
    "training_curves": _curves,
    "zero_image": _zero_image,
}
