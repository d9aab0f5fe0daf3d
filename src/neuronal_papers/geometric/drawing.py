"""What figures of several files are drawn with: panels, one legend for all of them, means with bars, boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neuronal.report import MARKERS, Sheet, colour


def panels(sheet: Sheet, count: int, columns: int, size: tuple[float, float], **shared: Any) -> list[Any]:
    """So many axes of one ``size`` in inches in the place of the sheet's own."""
    rows = -(-count // columns)
    sheet.figure.clear()
    sheet.figure.set_size_inches(columns * size[0], rows * size[1])
    every = list(sheet.figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for spare in every[count:]:
        spare.remove()
    return every[:count]


def legend_above(sheet: Sheet, panels: Sequence[Any], columns: int) -> None:
    """One for all panels together."""
    shown = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    sheet.figure.legend(list(shown.values()), list(shown), loc="outside upper center", ncols=columns)


BARS = "bars two standard errors to each side"


def means(
    axes: Any,
    number: int,
    label: str,
    x: Sequence[float],
    estimates: Sequence[tuple[float, float | None]],
    factor: float = 1.0,
    **style: Any,
) -> None:
    """Means with bars of two standard errors to each side, the ``number``-th series of a figure."""
    y, errors = [factor * mean for mean, _ in estimates], [2 * factor * (error or 0.0) for _, error in estimates]
    style = {"marker": MARKERS[number], "markersize": 4, "capsize": 2, "color": colour(number)} | style
    axes.errorbar(x, y, yerr=errors, label=label, **style)


def boundary(axes: Any, location: Sequence[float], normal: Sequence[float], shade: str, label: str | None) -> None:
    """The boundary of a unit in the plane, and dotted the way from the origin to its nearest point."""
    (x, y), (u, v) = location, normal
    axes.plot([x - 4 * v, x + 4 * v], [y + 4 * u, y - 4 * u], color=shade, linewidth=1.2, label=label)
    axes.plot([0, x], [0, y], color=shade, linestyle=":", linewidth=1.2)
