"""What the papers' procedures measured, as tables, figures and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from neuronal.experiments.procedures import PROCEDURES
from neuronal.report.figures import Drawing
from neuronal.report.papers import (
    geometric_answers,
    geometric_figures,
    geometric_tables,
)

TABLES: dict[str, Any] = geometric_tables.TABLES
"""By procedure."""
FIGURES: dict[str, Any] = geometric_figures.FIGURES
"""By procedure."""
ANSWERS: dict[str, Any] = {
    "geometric": geometric_answers.answers,
}
"""By paper: what a page answers before anything else, where somebody asked."""


def tables(answer: Mapping[str, Any]) -> list[Table]:
    """The tables of one result: reported beside measured."""
    draw = TABLES.get(answer["procedure"])
    return draw(answer) if draw else []


def drawings(answer: Mapping[str, Any]) -> list[Drawing]:
    """The figures of one result, in the order they are read."""
    draw = FIGURES.get(answer["procedure"])
    return draw(answer) if draw else []


def sentences(answer: Mapping[str, Any]) -> list[str]:
    """One sentence per claim: verdict, claim, numbers."""
    if answer["scale"] == "smoke":
        return ["Scale smoke shows that it runs; it says nothing of the paper's claims."]
    found = PROCEDURES[answer["procedure"]].findings(answer)
    return [f"{one.verdict}: {one.claim}: {one.numbers}." for one in found]
