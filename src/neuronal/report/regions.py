"""The linear regions of a network on a plane, drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import Patch
from numpy.typing import NDArray

from neuronal.geometry.regions import Regions
from neuronal.report.figures import Figure, blank, colour

# The three inputs as corners of a triangle with equal sides.
LAYOUT = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 3**0.5 / 2]])
# More polygons than this are one picture inside the drawing.
VECTORS = 3000


def regions_drawing(
    regions: Regions, *, names: Sequence[str] = ("p", "q", "r"), classes: Sequence[str] | None = None
) -> Figure:
    """Regions with thin edges, coloured by the predicted class, and the decision boundary as a thick line.

    Args:
        names: Of the three inputs.
        classes: Names of the classes; their numbers without.
    """
    with blank("regions") as sheet:
        found = _draw(sheet.axes, regions)
        _name_corners(sheet.axes, regions, names)
        labels = [
            Patch(color=colour(number), alpha=0.45, label=classes[c] if classes else f"class {c}")
            for number, c in enumerate(found)
        ]
        sheet.axes.legend(handles=labels, loc="center left", bbox_to_anchor=(1, 0.5))
    return Figure(
        sheet.svg,
        "Linear regions",
        f"The plane through three inputs: {regions.count:,} linear regions, on each of which the network is one affine "
        f"map. Colours are the {len(found)} predicted classes, the thick line is the decision boundary.",
    )


def _draw(axes: Axes, regions: Regions) -> list[int]:
    """Draws, and returns the classes there are."""
    parts = regions.classes()
    found = sorted({part.predicted for part in parts})
    as_picture = regions.count > VECTORS
    fills = [colour(found.index(part.predicted)) for part in parts]
    axes.add_collection(
        PolyCollection(
            [_flat(part.corners) for part in parts], facecolors=fills, alpha=0.45, linewidths=0, rasterized=as_picture
        )
    )
    edges = PolyCollection(
        [_flat(polygon) for polygon in regions.polygons],
        facecolors="none",
        edgecolors="#ffffff",
        linewidths=0.4,
        rasterized=as_picture,
    )
    axes.add_collection(edges)
    boundary = [_flat(line) for line in regions.decision_boundary()]
    axes.add_collection(LineCollection(boundary, colors="#111111", linewidths=1.4, capstyle="round"))
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.axis("off")
    return found


def _name_corners(axes: Axes, regions: Regions, names: Sequence[str]) -> None:
    middle = np.concatenate([_flat(polygon) for polygon in regions.polygons]).mean(0)
    for name, corner in zip(names, LAYOUT, strict=True):
        x, y = corner + 0.07 * (corner - middle) / np.linalg.norm(corner - middle)
        axes.plot(*corner, "o", color="#111111", markersize=3)
        axes.text(x, y, name, ha="center", va="center")


def _flat(places: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(places @ LAYOUT)
