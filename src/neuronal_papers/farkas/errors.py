"""Test errors of several networks with their sizes: measurement, tables and figures of most of this paper.

Runs that fail are said to have failed, not left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

from neuronal.data import load
from neuronal.experiments import Recipe, Work, network
from neuronal.report import COLOURS, Column, Drawing, Table, blank, colour, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.drawing import Line, chart, every_seed, legend_below, mean_curve
from neuronal_papers.farkas.runs import AS_TABLE_1, error_of, failed_of, learnt, rows_of
from neuronal_papers.judge import Result
from neuronal_papers.seeds import NETWORK, NEURON, Row, groups
from neuronal_papers.tuning import END_OF_LIST, at_best, choices, end_of_list

SINGLY = 3
"""Runs of a network that are drawn as lines of their own."""


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Trains every recipe with every seed: error, parameters, failures, and the accuracy while training.

    ``options``: ``classes``, how many there are, for chance; those of :func:`neuronal_papers.tuning.tuned` where each
    network is to have a rate of its own: then its row names it, and has what was tried.
    """
    chance = 1 / setting.options["classes"]
    chosen = choices(setting, work)
    recipes = at_best(setting.recipes, chosen)
    records = work.records(recipes)
    rows = []
    for recipe, choice in zip(recipes, chosen, strict=True):
        own = [r for r in records if (r.recipe.name, r.recipe.family) == (recipe.name, recipe.family)]
        accuracy = {str(r.seed): r.metrics["accuracy"] for r in own if r.failure is None}
        rows.append(
            {
                "name": recipe.name,
                "neuron": recipe.family,
                "parameters": parameters(recipe),
                **({} if choice is None else {"rate": recipe.lr, "tuning": [asdict(point) for point in choice.curve]}),
                **learnt(accuracy, {str(r.seed): r.failure.reason for r in own if r.failure}, chance),
                "while_training": {str(r.seed): [row["accuracy"] for row in r.epochs] for r in own},
                "seconds": sum(r.seconds for r in own),
            }
        )
    return {"rows": rows, "chance": chance}


def parameters(recipe: Recipe) -> int:
    """How many the network has, whether or not it can be trained."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in network(recipe, load(recipe.data), 0).parameters())


def tables(result: Result) -> list[Table]:
    """Errors with what is reported, and the rates tried."""
    reported, rows = result["reported"], result["result"]["rows"]
    columns = [
        NETWORK,
        NEURON,
        Column("error (%)", error_of),
        Column("failed", failed_of),
        Column("parameters", "parameters", ","),
    ]
    caption = "mean ± standard error over the runs that learnt"
    tuned = [row for row in rows if "tuning" in row]
    if tuned:
        columns.append(Column("its rate", _rate))
        caption += END_OF_LIST if any(_rate(row)[-1] in "↑↓" for row in tuned) else ""
    if reported:
        head = "reported (%)" if result["scale"] == "paper" else "reported after 200 epochs (%)"
        columns.append(_given(head, "error", ".2f", reported))
    if any("parameters" in given for given in reported.values()):
        columns.append(_given("their parameters", "parameters", ",", reported))
    return [table(title_of(result), columns, rows, caption), *([_tried(tuned)] if tuned else [])]


def _given(head: str, key: str, style: str, reported: Mapping[str, Mapping[str, float]]) -> Column:
    """A number of the paper; empty where it has none."""
    cells = {name: format(given[key], style) for name, given in reported.items() if key in given}
    return Column(head, lambda row: cells.get(row["name"], ""))


def _rate(row: Row) -> str:
    return f"{row['rate']:g}{end_of_list(row['rate'], [point['value'] for point in row['tuning']])}"


def _tried(rows: Sequence[Row]) -> Table:
    """What held-out images say of every rate."""
    rates = dict.fromkeys(point["value"] for row in rows for point in row["tuning"])
    columns = [NETWORK, *(Column(f"{rate:g}", partial(_held_out, rate=rate)) for rate in rates)]
    caption = (
        "error (%) on held-out images by learning rate, mean over the seeds rates are tried with; one at which some of them "
        "broke down is not chosen"
    )
    return table("Rates tried", columns, rows, caption)


def _held_out(row: Row, rate: float) -> str:
    point = next(point for point in row["tuning"] if point["value"] == rate)
    return f"{point['failed']} broke down" if point["failed"] else f"{100 * (1 - point['mean']):.2f}"


def figures(result: Result, by: str = "epochs") -> list[Drawing]:
    """Test errors, and training errors of networks with the same ``by`` while training."""
    followed = [row for row in rows_of(result).values() if max(map(len, row["while_training"].values())) > 1]
    parts = [rows for together in groups(followed, by).values() for rows in _parts(together)]
    name = f"{result['reproduction']}-curves"
    return [_errors(result), *(_training(f"{name}-{number}", rows) for number, rows in enumerate(parts))]


def _errors(result: Result) -> Drawing:
    """One line per network from top to bottom; as wide as the runs that learnt, with the others beside it."""
    rows = result["result"]["rows"]
    with blank(f"{result['reproduction']}-errors") as sheet:
        sheet.figure.set_size_inches(5.6, 0.8 + 0.24 * len(rows))
        beside: dict[str, Any] = {"xycoords": sheet.axes.get_yaxis_transform(), "textcoords": "offset points"}
        beside |= {"va": "center", "fontsize": 7}
        for place, row in enumerate(rows):
            good = [100 * (1 - a) for seed, a in row["accuracy"].items() if seed not in row["failed"]]
            sheet.axes.plot(good, [place] * len(good), "o", color=colour(not _is_standard(row)), markersize=4)
            if row["failed"]:
                sheet.axes.annotate("×", (1, place), (4, 0), color="#b00020", **beside)
                sheet.axes.annotate(f"{len(row['failed'])} failed", (1, place), (12, 0), **beside)
            if given := result["reported"].get(row["name"], {}).get("error"):
                sheet.axes.plot(given, place, "D", markerfacecolor="none", color="#666666", markersize=5)
        sheet.axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
        sheet.axes.set(xlabel="test error (%)", ylim=(len(rows) - 0.5, -0.5))
    caption = "Every dot a run; crosses beside the frame stand for runs that failed."
    caption += " Open diamonds: reported." if result["reported"] else ""
    return Drawing(sheet.svg, "Test errors", caption)


def _parts(rows: Sequence[Row]) -> list[list[Row]]:
    """In their order, so few that each has a colour of its own, among those with standard units or among the others."""
    parts: list[list[Row]] = [[]]
    for row in rows:
        if [_is_standard(one) for one in parts[-1]].count(_is_standard(row)) == len(COLOURS):
            parts.append([])
        parts[-1].append(row)
    return parts


def _is_standard(row: Row) -> bool:
    return bool(row["neuron"] == "standard")


def _training(name: str, rows: Sequence[Row]) -> Drawing:
    """Colours are counted for standard and other units apart, so that networks which are compared mostly share one."""
    counts: Counter[bool] = Counter()
    singly = max(len(row["while_training"]) for row in rows) <= SINGLY
    lines = []
    for row in rows:
        runs = [[100 * (1 - a) for a in curve] for curve in row["while_training"].values() if curve]
        curves = runs if singly else [mean_curve(runs)]
        style = "--" if _is_standard(row) else "-"
        lines.append(
            Line(counts[_is_standard(row)], row["name"], range(1, len(max(curves, key=len)) + 1), curves, style)
        )
        counts[_is_standard(row)] += 1
    caption = (
        "Training error, every run a line, dashed for standard units; one that breaks down ends, and is not there if it did "
        "in the first epoch."
    )
    if not singly:
        caption = "Training error, means over the runs that got so far, dashed for standard units."
    labels = {"xlabel": "epoch", "ylabel": "training error (%)"}
    return chart(name, "While training", lines, labels, caption, draw=every_seed, legend=legend_below, whole=True)


error_table = partial(Reproduction, measure=measure, tables=tables, figures=figures, criteria=AS_TABLE_1)
"""A reproduction of this kind."""
