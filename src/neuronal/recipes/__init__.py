"""Recipes and reproductions by name: data only, one file per subject."""

from neuronal.experiments.reproduction import Reproduction
from neuronal.recipes import geometric, zero_bias

REPRODUCTIONS: dict[str, Reproduction] = {
    one.name: one for paper in (zero_bias, geometric) for one in paper.REPRODUCTIONS
}
PAPERS: dict[str, str] = {
    "zero_bias": zero_bias.ABOUT,
    "geometric": geometric.ABOUT,
}
"""Title and source of each paper, by the first part of its reproductions' names."""
