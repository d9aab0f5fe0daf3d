"""Test errors of several networks with their sizes: measurement, claims, tables and figures of most of this paper.

A run has failed if its loss stopped being finite, or if it ends at chance. It is said to have failed, not left out, and
counts as one at chance where accuracies are compared: leaving it out would flatter its network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch

from neuronal.core.records import Json
from neuronal.data import load
from neuronal.experiments import Recipe, Work, estimate, network
from neuronal.report import COLOURS, Column, Figure, Table, blank, colour, table
from neuronal.train import SCHEDULES
from neuronal_papers.core import Measured, Reproduction, Setting, title_of
from neuronal_papers.drawing import Line, chart, every_seed, legend_below, mean_curve
from neuronal_papers.judge import Above, Case, Claim, Evidence, Fact, Result, paired
from neuronal_papers.seeds import NETWORK, NEURON, Row, at_chance, with_error
from neuronal_papers.tuning import END_OF_LIST, at_best, choices, end_of_list, what_was_tried

STUCK = 1.5
"""A network whose accuracy is below so many times chance has not learnt."""
PATIENCE = 5
"""Epochs at the first rate after which the paper calls a run without progress failed; before that it may only be slow."""
CRITERIA = (
    f"A run failed if its loss stopped being finite, or if it ends below {STUCK:g} times chance; it trains otherwise, "
    "however high its error. In differences a failed run counts as one at chance. The paper calls failed what made no "
    "progress in five epochs; a run at chance after fewer at its first rate may only be slow, and decides nothing."
)
AS_TABLE_1 = "As in Table 1."
"""Instead of ``CRITERIA``, where these have been told already."""
SINGLY = 3
"""Runs of a network that are drawn as lines of their own."""
over_epochs = partial(chart, draw=every_seed, legend=legend_below, whole=True)
"""A figure of what happens epoch by epoch."""


def measure(setting: Setting, work: Work) -> Measured:
    """Trains every recipe with every seed: error, parameters, failures, and the accuracy while training.

    ``options``: ``classes``, how many there are, for chance; those of :func:`neuronal_papers.tuning.tuned` where each
    network is to have a rate of its own: then its row names it, and has what was tried.
    """
    chance, rows = 1 / setting.options["classes"], []
    chosen = choices(setting, work)
    recipes = at_best(setting.recipes, chosen)
    records = iter(work.records(recipes))
    for recipe, choice in zip(recipes, chosen, strict=True):
        runs = {str(seed): next(records) for seed in recipe.seeds}
        ends = {seed: {"failure": run.failure.reason} if run.failure else run.metrics for seed, run in runs.items()}
        row = row_of(recipe, ends, chance)
        row["while_training"] = {seed: [epoch["accuracy"] for epoch in run.epochs] for seed, run in runs.items()}
        rows.append(row | what_was_tried(recipe, choice))
    return {"rows": rows, "chance": chance}


def row_of(recipe: Recipe, runs: Mapping[str, Row], chance: float) -> Json:
    """A network and its size, the ``accuracy`` of its runs by seed, and why runs failed: ``failure``, or at chance."""
    accuracy = {seed: run["accuracy"] for seed, run in runs.items() if "failure" not in run}
    stuck = {seed: f"stays at {100 * a:.1f}%" for seed, a in accuracy.items() if a < STUCK * chance}
    failed = {seed: run["failure"] for seed, run in runs.items() if "failure" in run} | stuck
    # Whether or not it can be trained.
    with torch.device("meta"):
        parameters = sum(parameter.numel() for parameter in network(recipe, load(recipe.data), 0).parameters())
    row = {"name": recipe.name, "neuron": recipe.family, "parameters": parameters}
    return row | {"accuracy": accuracy, "failed": failed}


def rows_of(result: Result) -> dict[str, Json]:
    """The rows of a result by name, with what is said of their runs, and how they were trained."""
    recipes, rows = {recipe["name"]: recipe for recipe in result["recipes"]}, {}
    for row in result["result"]["rows"]:
        recipe, failed = recipes[row["name"]], row["failed"]
        factor = SCHEDULES[recipe["schedule"]]
        first = recipe["epochs"] * sum(factor(step, 1000) == factor(0, 1000) for step in range(1000)) / 1000
        learnt = [accuracy for seed, accuracy in row["accuracy"].items() if seed not in failed]
        mean, stuck = estimate(learnt) if learnt else None, len(failed.keys() & row["accuracy"].keys())
        tuning, reported = row.get("tuning", ()), result["reported"].get(row["name"], {})
        values = [point["value"] for point in tuning]
        rows[row["name"]] = {
            **row,
            "learnt": learnt,
            "runs": len(learnt) + len(failed),
            "stuck": stuck,
            "slow": stuck if first < PATIENCE else 0,
            "error": mean and with_error(1 - mean.mean, mean.standard_error),
            "failures": f"{len(failed)} of {len(learnt) + len(failed)}",
            "epochs": f"{recipe['epochs']} epochs, {first:.3g} at the first rate",
            "scaling": recipe["scaling"],
            "best": f"{row['rate']:g}{end_of_list(row['rate'], values)}" if tuning else "",
            "tried": {
                f"{p['value']:g}": f"{p['failed']} broke down" if p["failed"] else f"{100 * (1 - p['mean']):.2f}"
                for p in tuning
            },
            "reported": f"{reported['error']:.2f}" if "error" in reported else "",
            "reported_parameters": f"{reported['parameters']:,}" if "parameters" in reported else "",
        }
    return rows


ERROR, FAILED = Column("error (%)", "error"), Column("failed", "failures")
"""Mean and standard error over the runs that learnt; how many did not."""

# What is claimed

Pairs = Mapping[str, tuple[str, str]]
"""Names of two networks by what a case of them is called."""


def lower_error(text: str, pairs: Pairs, *, beyond_paper: bool = False) -> Claim:
    """The claim that the first network of each pair has the lower error."""
    return Claim(text, partial(differences, pairs), Above(), beyond_paper=beyond_paper)


def differences(pairs: Pairs, result: Result) -> list[Case]:
    """Accuracy of the first network of each pair minus that of the second, in points, seed by seed."""
    rows, chance, cases = rows_of(result), result["result"]["chance"], []
    for label, names in pairs.items():
        if not set(names) <= rows.keys():
            continue
        own, other = (rows[name] for name in names)
        accuracy, others = (at_chance(row["accuracy"], row["failed"], chance) for row in (own, other))
        values = paired(accuracy, others, factor=100)
        # The worse one may only be slow.
        slow = (other if sum(values) > 0 else own)["slow"]
        note = "error " + " against ".join(f"{row['error']}%" if row["learnt"] else "none" for row in (own, other))
        if own["failed"] or other["failed"]:
            note += f", {own['failures']} against {other['failures']} runs failed"
        note += f", {slow} of them perhaps only slow" if slow else ""
        cases.append(Case(label, values, note=note, is_open=bool(slow) or not (own["learnt"] or other["learnt"])))
    return cases


def trains(text: str, *names: str, never: bool = False) -> Fact:
    """The claim that every run of these networks leaves chance, or that none ever does."""
    return Fact(text, partial(_leave_chance, names, never))


def _leave_chance(names: Sequence[str], never: bool, result: Result) -> Evidence:
    rows, said = [row for name, row in rows_of(result).items() if name in names], []
    for row in rows:
        broken = len(row["failed"]) - row["stuck"]
        text = f"{row['name']}: {len(row['learnt'])} of {row['runs']} runs train"
        text += f" (error {row['error']}%)" if row["learnt"] else ""
        text += f", {broken} broke down" if broken else ""
        text += f", {row['stuck']} stayed at chance" if row["stuck"] else ""
        said.append(f"{text}; {row['epochs']}")
    runs, slow = (sum(row[name] for row in rows) for name in ("runs", "slow"))
    left = sum(len(row["learnt"]) for row in rows)
    return Evidence(runs, left if never else runs - left - slow, "; ".join(said), slow)


# How it is shown


def tables(result: Result) -> list[Table]:
    """Errors with what is reported, and what held-out images say of every rate tried."""
    rows = rows_of(result).values()
    whole = all(recipe["epochs"] >= 200 or recipe["data"] == "imagenet" for recipe in result["recipes"])
    head = "reported (%)" if whole else "reported after 200 epochs (%)"
    optional = (("its rate", "best"), (head, "reported"), ("their parameters", "reported_parameters"))
    columns = [NETWORK, NEURON, ERROR, FAILED, Column("parameters", "parameters", ",")]
    columns += [Column(title, key) for title, key in optional if any(row[key] for row in rows)]
    caption = "mean ± standard error over the runs that learnt"
    caption += END_OF_LIST if any(row["best"].endswith(("↑", "↓")) for row in rows) else ""
    rates = dict.fromkeys(rate for row in rows for rate in row["tried"])
    tried = [NETWORK, *(Column(rate, rate) for rate in rates)]
    below = (
        "error (%) on held-out images by learning rate, mean over the seeds rates are tried with; one at which some of "
        "them broke down is not chosen"
    )
    other = [table("Rates tried", tried, [row | row["tried"] for row in rows], below)] if rates else []
    return [table(title_of(result), columns, rows, caption), *other]


def figures(result: Result, by: str = "epochs") -> list[Figure]:
    """Test errors, and training errors of networks with the same ``by`` while training.

    So few stand in one figure that each has a colour of its own; colours are counted for standard and other units apart,
    so that networks which are compared mostly share one.
    """
    followed = [row for row in rows_of(result).values() if max(map(len, row["while_training"].values())) > 1]
    singly = max((row["runs"] for row in followed), default=0) <= SINGLY
    runs = "every run a line" if singly else "means over the runs that got so far"
    caption = f"Training error, {runs}, dashed for standard units; a run that breaks down ends there."
    counts: Counter[tuple[Any, bool]] = Counter()
    parts: dict[tuple[Any, int], list[Line]] = {}
    for row in followed:
        kind = (row[by], row["neuron"] == "standard")
        curves = [[100 * (1 - a) for a in curve] for curve in row["while_training"].values() if curve]
        curves = curves if singly else [mean_curve(curves)]
        epochs = range(1, max(map(len, curves)) + 1)
        line = Line(counts[kind], row["name"], epochs, curves, "--" if row["neuron"] == "standard" else "-")
        parts.setdefault((row[by], counts[kind] // len(COLOURS)), []).append(line)
        counts[kind] += 1
    axes, name = {"xlabel": "epoch", "ylabel": "training error (%)"}, f"{result['reproduction']}-curves"
    how: Any = {"title": "While training", "axes": axes, "caption": caption}
    drawings = [over_epochs(f"{name}-{i}", lines=lines, **how) for i, lines in enumerate(parts.values())]
    return [_errors(result), *drawings]


def _errors(result: Result) -> Figure:
    """One line per network from top to bottom; as wide as the runs that learnt, with the others beside it."""
    rows = rows_of(result).values()
    with blank(f"{result['reproduction']}-errors") as sheet:
        sheet.figure.set_size_inches(5.6, 0.8 + 0.24 * len(rows))
        beside: Json = {"xycoords": sheet.axes.get_yaxis_transform(), "textcoords": "offset points"}
        beside |= {"va": "center", "fontsize": 7}
        for place, row in enumerate(rows):
            errors = [100 * (1 - accuracy) for accuracy in row["learnt"]]
            sheet.axes.plot(errors, [place] * len(errors), "o", color=colour(row["neuron"] != "standard"), markersize=4)
            if row["failed"]:
                sheet.axes.annotate("×", (1, place), (4, 0), color="#b00020", **beside)
                sheet.axes.annotate(f"{len(row['failed'])} failed", (1, place), (12, 0), **beside)
            if row["reported"]:
                reported = float(row["reported"])
                sheet.axes.plot(reported, place, "D", markerfacecolor="none", color="#666666", markersize=5)
        sheet.axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
        sheet.axes.set(xlabel="test error (%)", ylim=(len(rows) - 0.5, -0.5))
    caption = "Every dot a run; crosses beside the frame stand for runs that failed."
    caption += " Open diamonds: reported." if result["reported"] else ""
    return Figure(sheet.svg, "Test errors", caption)


error_table = partial(Reproduction, measure=measure, tables=tables, figures=figures, criteria=AS_TABLE_1)
"""A reproduction of this kind."""
