"""A table or figure of a paper as a value: what to run at which scale, how it is measured, claimed, and shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from neuronal.experiments import Recipe, Work
from neuronal.report import Column, Figure, Table, table
from neuronal_papers.judge import Claim, Fact, Finding, Result, judge
from neuronal_papers.seeds import Rows, rows_of

SCALES = {
    "smoke": "seconds, on data everybody has: shows that it runs, and nothing else",
    "small": "minutes, on data of ordinary size: what our results are from",
    "paper": "the paper's own setting, for whoever has its data and GPUs",
}


Recipes = tuple[Recipe, ...]
Options = Mapping[str, Any]
"""What a measurement goes by, by name: plain values, which stand in its result."""
Measured = Mapping[str, object]
"""What is measured: tables by name, each a list of frozen records, which :mod:`neuronal.core.records` writes and reads."""


@dataclass(frozen=True)
class Setting:
    """What one scale runs: networks to train, and options of the measurement."""

    recipes: Recipes = ()
    options: Options = field(default_factory=dict)


Scales = dict[str, Setting]


def settings(recipes: Sequence[Recipes] = ((),), options: Sequence[Options] = ({},)) -> Scales:
    """What smoke, small and paper run, in this order; the last recipes, and options, are those of all scales after it."""
    every = zip(SCALES, (*recipes, *[recipes[-1]] * 2), (*options, *[options[-1]] * 2), strict=False)
    return {scale: Setting(own, how) for scale, own, how in every}


@dataclass(frozen=True)
class Reproduction:
    """One table or figure.

    Args:
        name: ``paper/name``.
        title: What it is about, in a few words.
        where: Its place in the paper.
        scales: A setting for each scale there is; the names are in ``SCALES``.
        measure: A setting and the :class:`Work` that trains and keeps networks, to the ``result`` of a result file.
        claims: What is claimed of the result; or a function that takes the result, where claims depend on its rows.
        tables: A result file to its tables, reported beside measured.
        figures: A result file to its figures.
        criteria: How this table is measured and judged, besides the rules of :mod:`neuronal_papers.judge`.
        reported: The paper's numbers, by the names the measurement gives its own.
        comparable: The scales whose results may stand beside them.
        departs: What we do differently, and why.
        takes_models: Models can be named on the command line, in place of its own.
    """

    name: str
    title: str
    where: str
    scales: Mapping[str, Setting]
    measure: Callable[[Setting, Work], Measured]
    claims: Sequence[Claim | Fact] | Callable[[Result], Sequence[Claim | Fact]]
    tables: Callable[[Result], Sequence[Table]]
    figures: Callable[[Result], Sequence[Figure]] = lambda result: ()
    criteria: str = ""
    reported: Options = field(default_factory=dict)
    comparable: tuple[str, ...] = ("small", "paper")
    departs: str = ""
    takes_models: bool = False

    def findings(self, result: Result) -> list[Finding]:
        """What the result says of the claims."""
        return judge(self.claims(result) if callable(self.claims) else self.claims, result)

    def current(self, result: Result) -> Result:
        """The result with the reported numbers and deviations of today: they may have got better words, or a correction."""
        reported = self.reported if result["scale"] in self.comparable else {}
        return {**result, "reported": reported, "departs": self.departs}


def title_of(result: Result) -> str:
    """Title of the first table of a result."""
    return f"{result['title']} ({result['where']}; scale {result['scale']})"


def one_table(
    columns: Sequence[Column] | Callable[[Result], Sequence[Column]], caption: str = "", *, rows: Rows = rows_of
) -> Callable[[Result], list[Table]]:
    """Tables of a reproduction that has one: a line for each of the ``rows`` of a result.

    ``columns`` are a function of the result, too, where they go by its options.
    """

    def tables(result: Result) -> list[Table]:
        every = columns(result) if callable(columns) else columns
        return [table(title_of(result), every, rows(result), caption)]

    return tables
