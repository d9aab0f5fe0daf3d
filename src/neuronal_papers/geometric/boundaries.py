"""Figures 2a, 2b, 5 and 6: the characteristic activation set of one unit for chosen radius and angle."""

from __future__ import annotations

from collections.abc import Mapping
from math import pi
from typing import Any

import numpy as np
import torch
from torch import nn

from neuronal.experiments import Work
from neuronal.geometry import boundaries
from neuronal.nn import GeometricLinear
from neuronal.report import Column, Drawing, Table, blank, colour, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.geometric.drawing import boundary
from neuronal_papers.judge import Evidence, Fact, Result

REACH = 2.0
"""Length, to each side of the location, of the piece of a boundary that is drawn."""
ROUNDING = 1e-5
"""What numbers of 32 bits leave of zero."""


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """The set of a geometric unit with every radius and angle, and what the unit puts out there.

    ``options``: ``inputs``, 1 or 2; ``radii``; ``angles`` in parts of pi (0 and 1 with one input).
    """
    inputs = setting.options["inputs"]
    return {
        "inputs": inputs,
        "rows": [_row(inputs, r, a) for r in setting.options["radii"] for a in setting.options["angles"]],
    }


def _row(inputs: int, radius: float, angle: float) -> dict[str, Any]:
    unit = _unit(inputs, radius, angle * pi)
    hinge = boundaries(nn.Sequential(unit, nn.ReLU()), "0")
    normal, location = hinge.normal[0], hinge.location[0]
    along = torch.zeros(1, inputs) if inputs == 1 else torch.stack([-normal[1], normal[0]]).view(1, 2)
    piece = location + torch.linspace(-REACH, REACH, 9).view(-1, 1) * along
    with torch.no_grad():
        on_it = unit(piece).abs().max().item()
        active, inactive = unit(location + normal).item(), unit(location - normal).item()
    return {
        "radius": radius,
        "angle": angle,
        "normal": normal.tolist(),
        "location": location.tolist(),
        "ends": piece[[0, -1]].tolist(),
        "on_it": on_it,
        "active": active,
        "inactive": inactive,
        "distance": location.norm().item(),
    }


@torch.no_grad()
def _unit(inputs: int, radius: float, angle: float) -> GeometricLinear:
    """One unit with this radius and angle, and scale 1."""
    unit = GeometricLinear(inputs, 1)
    unit.scale.fill_(1)
    assert unit.offset is not None
    unit.offset.fill_(radius)
    if unit.delta is None:
        unit.sign.fill_(1.0 if angle < pi / 2 else -1.0)
    else:
        unit.delta.fill_(angle - pi / 2)
    return unit


def placed(result: Result) -> Evidence:
    """Zero on the set, positive on the side the direction points to, and the radius is the distance."""
    rows = result["result"]["rows"]
    off = [row["on_it"] for row in rows]
    far = [abs(row["distance"] - abs(row["radius"])) for row in rows]
    sides = [row["active"] > 0 > row["inactive"] for row in rows]
    wrong = [not side or max(errors) >= ROUNDING for side, *errors in zip(sides, off, far, strict=True)]
    numbers = f"largest pre-activation on the set {max(off):.1g}, largest error of its distance {max(far):.1g}"
    return Evidence(len(rows), sum(wrong), f"{len(rows)} units: {numbers}")


def tables(result: Result) -> list[Table]:
    def place(row: Mapping[str, Any]) -> str:
        return f"({', '.join(f'{round(value, 2) + 0.0:.2f}' for value in row['location'])})"

    columns = (
        Column("radius", "radius", "g"),
        Column("angle (π)", "angle", "g"),
        Column("location", place),
        Column("pre-activation on the set", "on_it", ".1g"),
        Column("at the active side", "active", ".3g"),
        Column("at the other", "inactive", ".3g"),
    )
    return [table(title_of(result), columns, result["result"]["rows"])]


def figures(result: Result) -> list[Drawing]:
    """The sets, a figure for every radius; nearest points, and arrows to the active side."""
    values, drawings = result["result"], []
    for radius in dict.fromkeys(row["radius"] for row in values["rows"]):
        with blank(f"{result['reproduction']}-{radius:g}") as sheet:
            for number, row in enumerate(row for row in values["rows"] if row["radius"] == radius):
                draw = _on_a_line if values["inputs"] == 1 else _in_the_plane
                draw(sheet.axes, row, colour(number), f"angle {row['angle']:g} π")
            if values["inputs"] == 2:
                sheet.axes.set(aspect="equal", xlim=(-2, 2), ylim=(-2, 2))
            else:
                sheet.axes.set(xlabel="input", ylabel="unit", xlim=(-3, 3), ylim=(-0.2, 3))
            sheet.axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        caption = (
            "Boundaries, each with its nearest point to the origin (dot, or end of the dotted line); arrows, where "
            "there are any, point to where the unit is active."
        )
        drawings.append(Drawing(sheet.svg, f"Radius {radius:g}", caption))
    return drawings


def _on_a_line(axes: Any, row: Mapping[str, Any], shade: str, label: str) -> None:
    (place,), (sign,) = row["location"], row["normal"]
    x = np.linspace(-3, 3, 121)
    dashes = "-" if sign > 0 else "--"
    axes.plot(x, np.maximum(0, sign * (x - place)), color=shade, linestyle=dashes, linewidth=1.2, label=label)
    axes.plot([place], [0], color=shade, marker="o", markersize=5)


def _in_the_plane(axes: Any, row: Mapping[str, Any], shade: str, label: str) -> None:
    boundary(axes, row["location"], row["normal"], shade, label)
    (x, y), (u, v) = row["location"], row["normal"]
    axes.annotate("", (x + 0.5 * u, y + 0.5 * v), (x, y), arrowprops={"arrowstyle": "->", "color": shade})


def _reproduction(name: str, space: str, where: str, options: Mapping[str, Any]) -> Reproduction:
    return Reproduction(
        name=f"geometric/{name}",
        title=f"The characteristic activation set of a unit {space}",
        where=where,
        scales={scale: Setting(options=options) for scale in ("smoke", "small", "paper")},
        measure=measure,
        claims=(Fact(f"Radius and angle place the boundary of a unit {space}", placed),),
        tables=tables,
        figures=figures,
        criteria="Pre-activations on the set are zero to 1e-5, their signs on either side are right, and the radius is the "
        "distance to 1e-5.",
        departs="Radii and angles are our choice: the text names none.",
    )


BOUNDARY_1D = _reproduction(
    "boundary_1d", "on a line", "Figures 2a, 2b and 5", {"inputs": 1, "radii": (-1.0, 0.0, 1.0), "angles": (0.0, 1.0)}
)
BOUNDARY_2D = _reproduction(
    "boundary_2d",
    "in the plane",
    "Figures 1a and 6",
    {"inputs": 2, "radii": (-1.0, 0.5, 1.0), "angles": (0.0, 0.25, 0.5, 0.75, 1.25)},
)
