"""Recipes and reproductions by name: data only, one file per subject."""

from neuronal.experiments.reproduction import Reproduction
from neuronal.recipes import geometric

REPRODUCTIONS: dict[str, Reproduction] = {one.name: one for paper in (geometric,) for one in paper.REPRODUCTIONS}
PAPERS: dict[str, str] = {
    "geometric": geometric.ABOUT,
}
"""Title and source of each paper, by the first part of its reproductions' names."""
