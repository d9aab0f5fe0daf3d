"""The characteristic activation set of one unit for chosen radius and angle (Figures 5 and 6 of the geometric paper)."""

from __future__ import annotations

from collections.abc import Mapping
from math import pi
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from neuronal.experiments.procedures.finding import Finding
from neuronal.experiments.reproduction import Setting
from neuronal.geometry.boundary import boundaries
from neuronal.nn.geometric import GeometricLinear

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

REACH = 2.0
"""Length, to each side of the location, of the piece of a boundary that is drawn."""


JUDGED = (
    "Pre-activations on the set are zero to 1e-5, their signs on either side are right, and the radius is the "
    "distance to 1e-5."
)


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
    found = boundaries(nn.Sequential(unit, nn.ReLU()), "0")
    normal, location = found.normal[0], found.location[0]
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


def _space(inputs: int) -> str:
    return {1: "on a line", 2: "in the plane"}[inputs]


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Zero on the set, positive on the side the direction points to, and the radius is the distance."""
    rows = answer["result"]["rows"]
    off = max(row["on_it"] for row in rows)
    sides = all(row["active"] > 0 > row["inactive"] for row in rows)
    far = max(abs(row["distance"] - abs(row["radius"])) for row in rows)
    holds = off < 1e-5 and sides and far < 1e-5
    return [
        Finding(
            f"radius and angle place the boundary of a unit {_space(answer['result']['inputs'])}",
            "reproduced" if holds else "not reproduced",
            f"{len(rows)} units: largest pre-activation on the set {off:.1g}, largest error of its distance {far:.1g}",
        )
    ]
