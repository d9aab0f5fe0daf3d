"""Figures that explain a neuron; the pages under ``docs/`` show them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import torch
from torch import Tensor

from neuronal.ops.mean_field import solve
from neuronal.report.figures import Drawing, blank, colour

_UNITS = 2000


def coupling_and_distribution(couplings: Sequence[float], slope: float = 10.0) -> Drawing:
    """How units that are normally distributed lie after the coupling."""
    units = _normal(0.0, 0.5, _UNITS)
    return _densities("coupling", units, couplings, slope, "One group of units")


def coupling_and_two_groups(couplings: Sequence[float], slope: float = 10.0) -> Drawing:
    """The same for two groups, one of them twice as large."""
    units = torch.cat([_normal(-1.0, 0.3, 2 * _UNITS // 3), _normal(1.0, 0.3, _UNITS // 3)]).sort().values
    return _densities("groups", units, couplings, slope, "Two groups of units")


def _normal(mean: float, deviation: float, count: int) -> Tensor:
    """Evenly spaced quantiles: a sample without noise."""
    normal = NormalDist(mean, deviation)
    return torch.tensor([normal.inv_cdf((k + 0.5) / count) for k in range(count)], dtype=torch.float64)


def _densities(name: str, units: Tensor, couplings: Sequence[float], slope: float, title: str) -> Drawing:
    rows = units.repeat(len(couplings), 1)
    solution = solve(rows, torch.tensor(couplings, dtype=rows.dtype), slope, tolerance=1e-10)
    with blank(name) as sheet:
        for number, (coupling, z) in enumerate(zip(couplings, solution.value, strict=True)):
            # Over so many units at a time, one over the distance is the density.
            share = max(2, len(z) // 200)
            density = share / len(z) / (z[share:] - z[:-share])
            middle = (z[share:] + z[:-share]) / 2
            sheet.axes.plot(middle.tolist(), density.tolist(), color=colour(number), label=f"λ = {coupling:g}")
        sheet.axes.set(xlabel="z", ylabel="density of units", xlim=(-2, 2), ylim=(0, None))
        sheet.axes.legend()
    return Drawing(
        sheet.svg,
        title,
        f"Density of the units after the coupling, slope {slope:g}; λ = 0 is the density before. Negative couplings draw "
        "units together, positive ones push apart those that are close.",
    )
