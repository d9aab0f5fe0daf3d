"""Figures 2a, 2b, 5 and 6: the characteristic activation set of one unit for chosen radius and angle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import cos, pi
from typing import Any

import torch
from torch import nn

from neuronal.experiments import Work
from neuronal.geometry import boundaries
from neuronal.nn import GeometricLinear
from neuronal.report import Column, Drawing, Table, blank, colour, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.judge import Evidence, Fact, Result
from neuronal_papers.seeds import groups

REACH = 2.0
"""Length, to each side of the location, of the piece of a boundary on which it is checked."""
ROUNDING = 1e-5
"""What numbers of 32 bits leave of zero."""


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """The set of a geometric unit with every radius and angle, and what the unit puts out there.

    ``options``: ``inputs``, 1 or 2; ``radii``; ``angles`` in parts of pi (0 and 1 with one input).
    """
    inputs, angles = setting.options["inputs"], setting.options["angles"]
    rows = [_row(inputs, radius, angle) for radius in setting.options["radii"] for angle in angles]
    return {"inputs": inputs, "rows": rows}


@torch.no_grad()
def _row(inputs: int, radius: float, angle: float) -> dict[str, Any]:
    unit = GeometricLinear(inputs, 1)
    assert unit.offset is not None
    unit.scale.fill_(1)
    unit.offset.fill_(radius)
    if unit.delta is None:
        unit.sign.fill_(cos(angle * pi))
    else:
        unit.delta.fill_((angle - 0.5) * pi)
    hinge = boundaries(nn.Sequential(unit, nn.ReLU()), "0")
    normal, location = hinge.normal[0], hinge.location[0]
    along = torch.zeros(1) if inputs == 1 else torch.stack([-normal[1], normal[0]])
    piece = location + torch.linspace(-REACH, REACH, 9).view(-1, 1) * along
    return {
        "radius": radius,
        "angle": angle,
        "normal": normal.tolist(),
        "location": location.tolist(),
        "on_it": unit(piece).abs().max().item(),
        "active": unit(location + normal).item(),
        "inactive": unit(location - normal).item(),
        "distance": location.norm().item(),
    }


def placed(result: Result) -> Evidence:
    """Zero on the set, positive on the side the direction points to, and the radius is the distance."""
    rows = result["result"]["rows"]
    errors = [(row["on_it"], abs(row["distance"] - abs(row["radius"]))) for row in rows]
    sides = [row["active"] > 0 > row["inactive"] for row in rows]
    wrong = sum(not side or max(error) >= ROUNDING for side, error in zip(sides, errors, strict=True))
    off, far = (max(column) for column in zip(*errors, strict=True))
    numbers = f"{len(rows)} units: largest pre-activation on the set {off:.1g}, largest error of its distance {far:.1g}"
    return Evidence(len(rows), wrong, numbers)


def tables(result: Result) -> list[Table]:
    columns = (
        Column("radius", "radius", "g"),
        Column("angle (π)", "angle", "g"),
        Column("location", lambda row: f"({', '.join(f'{round(value, 2) + 0.0:.2f}' for value in row['location'])})"),
        Column("pre-activation on the set", "on_it", ".1g"),
        Column("at the active side", "active", ".3g"),
        Column("at the other", "inactive", ".3g"),
    )
    return [table(title_of(result), columns, result["result"]["rows"])]


def figures(result: Result) -> list[Drawing]:
    """The sets, a figure for every radius; nearest points, and arrows to the active side."""
    drawings, draw = [], _on_a_line if result["result"]["inputs"] == 1 else _in_the_plane
    for (radius,), rows in groups(result["result"]["rows"], "radius").items():
        with blank(f"{result['reproduction']}-{radius:g}") as sheet:
            for number, row in enumerate(rows):
                draw(sheet.axes, row, colour(number), f"angle {row['angle']:g} π")
            sheet.axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        caption = (
            "Boundaries, each with its nearest point to the origin (dot, or end of the dotted line); arrows, where "
            "there are any, point to where the unit is active."
        )
        drawings.append(Drawing(sheet.svg, f"Radius {radius:g}", caption))
    return drawings


def _on_a_line(axes: Any, row: Mapping[str, Any], shade: str, label: str) -> None:
    (place,), (sign,) = row["location"], row["normal"]
    x = (-3, place, 3)
    axes.plot(x, [max(0, sign * (value - place)) for value in x], color=shade, label=label)
    axes.plot([place], [0], color=shade, marker="o", markersize=5)
    axes.set(xlabel="input", ylabel="unit", xlim=(-3, 3), ylim=(-0.2, 3))


def _in_the_plane(axes: Any, row: Mapping[str, Any], shade: str, label: str) -> None:
    boundary(axes, row, shade, label)
    (x, y), (u, v) = row["location"], row["normal"]
    axes.annotate("", (x + 0.5 * u, y + 0.5 * v), (x, y), arrowprops={"arrowstyle": "->", "color": shade})
    axes.set(aspect="equal", xlim=(-2, 2), ylim=(-2, 2))


def boundary(axes: Any, unit: Mapping[str, Sequence[float]], shade: str, label: str) -> None:
    """The boundary of a unit in the plane, and dotted the way from the origin to its nearest point."""
    (x, y), (u, v) = unit["location"], unit["normal"]
    axes.plot([x - 4 * v, x + 4 * v], [y + 4 * u, y - 4 * u], color=shade, linewidth=1.2, label=label)
    axes.plot([0, x], [0, y], color=shade, linestyle=":", linewidth=1.2)


def _reproduction(name: str, space: str, where: str, **options: Any) -> Reproduction:
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
    "boundary_1d", "on a line", "Figures 2a, 2b and 5", inputs=1, radii=(-1.0, 0.0, 1.0), angles=(0.0, 1.0)
)
BOUNDARY_2D = _reproduction(
    "boundary_2d",
    "in the plane",
    "Figures 1a and 6",
    inputs=2,
    radii=(-1.0, 0.5, 1.0),
    angles=(0.0, 0.25, 0.5, 0.75, 1.25),
)
