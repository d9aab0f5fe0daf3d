"""Draws the figures of the pages in this folder: ``python docs/figures.py``."""

from pathlib import Path

import torch
from torch import nn

from neuronal.data import load
from neuronal.geometry import regions_2d
from neuronal.report.explain import coupling_and_distribution, coupling_and_two_groups
from neuronal.report.figures import Drawing
from neuronal.report.regions import regions_drawing

COUPLINGS = (0.0, -0.2, -0.5, 0.09)


def regions_of_digits() -> Drawing:
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
