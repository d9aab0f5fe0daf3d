"""Draws the figures of the pages in this folder: ``python docs/figures.py``."""

from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist

import torch
from torch import Tensor, nn

from neuronal.data import load
from neuronal.geometry import regions_2d
from neuronal.ops.mean_field import solve
from neuronal.report import Figure, blank, colour
from neuronal.report.regions import regions_drawing

COUPLINGS = (0.0, -0.2, -0.5, 0.09)
UNITS = 2000


def coupling_and_distribution(couplings: Sequence[float], slope: float = 10.0) -> Figure:
    """How units that are normally distributed lie after the coupling."""
    units = normal(0.0, 0.5, UNITS)
    return densities("coupling", units, couplings, slope, "One group of units")


def coupling_and_two_groups(couplings: Sequence[float], slope: float = 10.0) -> Figure:
    """The same for two groups, one of them twice as large."""
    units = torch.cat([normal(-1.0, 0.3, 2 * UNITS // 3), normal(1.0, 0.3, UNITS // 3)]).sort().values
    return densities("groups", units, couplings, slope, "Two groups of units")


def normal(mean: float, deviation: float, count: int) -> Tensor:
    """Evenly spaced quantiles: a sample without noise."""
    normal = NormalDist(mean, deviation)
    return torch.tensor([normal.inv_cdf((k + 0.5) / count) for k in range(count)], dtype=torch.float64)


def densities(name: str, units: Tensor, couplings: Sequence[float], slope: float, title: str) -> Figure:
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
    return Figure(
        sheet.svg,
        title,
        f"Density of the units after the coupling, slope {slope:g}; λ = 0 is the density before. Negative couplings draw "
        "units together, positive ones push apart those that are close.",
    )


def regions_of_digits() -> Figure:
    """The network of geometry.md on the plane through three of its images."""
    torch.manual_seed(0)
    digits = load("digits").train
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(100):
        loss = nn.functional.cross_entropy(model(digits.x), digits.y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    images = (digits.x[digits.y == c][0] for c in (4, 7, 9))
    return regions_drawing(regions_2d(model, *images, domain="parallelogram"), names=("a 4", "a 7", "a 9"))


def main(folder: Path = Path(__file__).parent) -> None:
    drawings = {
        "implicit_bias_distribution": coupling_and_distribution(COUPLINGS),
        "implicit_bias_groups": coupling_and_two_groups(COUPLINGS),
        "geometry_regions": regions_of_digits(),
    }
    for name, drawing in drawings.items():
        # Readable on dark pages too.
        svg = drawing.svg.replace("<svg ", '<svg style="background: white" ', 1)
        (folder / f"{name}.svg").write_text(svg + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
