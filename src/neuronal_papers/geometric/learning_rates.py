"""Sections 3.5 and 5, Appendix C: every method at every learning rate, for the claim of ten times larger ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from math import log10
from statistics import median
from typing import Any

from neuronal.experiments import Work, choose
from neuronal.report import Column, Drawing, Table, blank, plain_numbers, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.geometric.comparison import leads, powers
from neuronal_papers.geometric.drawing import BARS, means
from neuronal_papers.geometric.methods import (
    DATA,
    FAILED,
    FOUR,
    METHOD,
    RATES,
    TEST,
    Row,
    by,
    legend,
    method_of,
    written,
)
from neuronal_papers.geometric.motion import BANANA, MOONS
from neuronal_papers.geometric.protocols import by_seed, groups_of, row_of
from neuronal_papers.geometric.uci import ONE_STEP, RECIPES
from neuronal_papers.judge import Above, Below, Case, Claim, Result, Within

OPTIONS = {"rates": RATES, "holdout": 0.2}
SMALL = by(replace(BANANA, protocol="clean", holdout=0.2), *FOUR)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe at every one of ``rates``, with all seeds, choices on ``holdout`` of the training data."""
    rows, chosen = [], []
    tried = [
        [replace(recipe, lr=lr, holdout=setting.options["holdout"]) for lr in setting.options["rates"]]
        for recipe in setting.recipes
    ]
    # All at once first: there is more to divide.
    work.records([one for every in tried for one in every])
    for recipe, every in zip(setting.recipes, tried, strict=True):
        rows += [row_of(one, work) for one in every]
        choice = choose(work.records(every), "lr")[0]
        curve = [asdict(point) for point in choice.curve]
        chosen.append({"data": recipe.data, "method": method_of(recipe), "best": choice.best, "curve": curve})
    return {"rows": rows, "chosen": chosen}


def best_rates(result: Result) -> list[Case]:
    """Powers of ten between the rates at which GmP and each other method do best, seed by seed.

    By test results: what held-out data say is kept for all seeds together, and the best rates by these are in the table.
    """
    cases = []
    for data in dict.fromkeys(row["data"] for row in result["result"]["rows"]):
        rows = [row for row in result["result"]["rows"] if row["data"] == data]
        best = {method: _best_by_seed([row for row in rows if row["method"] == method]) for method in FOUR}
        for other in FOUR[:-1]:
            ratios = [log10(best["GmP"][seed] / rate) for seed, rate in best[other].items() if seed in best["GmP"]]
            cases.append(Case(f"{other}, {data}", ratios, rows[0].get("overlap", 0.0)))
    return cases


def _best_by_seed(rows: Sequence[Row]) -> dict[int, float]:
    """The rate with the best test result; of equals the first."""
    best: dict[int, tuple[float, float]] = {}
    for row in rows:
        for seed, value in by_seed(row).items():
            score = -value if row["measure"] == "rmse" else value
            if seed not in best or score > best[seed][0]:
                best[seed] = score, row["rate"]
    return {seed: rate for seed, (_, rate) in best.items()}


def at_own_best(result: Result) -> list[Case]:
    """GmP less each other method, each at the rate that held-out data chose for it."""
    best = {(one["data"], one["method"]): one["best"] for one in result["result"]["chosen"]}
    rows = [row for row in result["result"]["rows"] if row["rate"] == best[row["data"], row["method"]]]
    return _gains(rows)


def at_largest(result: Result) -> list[Case]:
    """The same at the largest rate of the list."""
    return _gains(_largest(result))


def turns(result: Result) -> list[Case]:
    """The largest turns of any unit with GmP and with each other method, at the largest rate."""
    return powers(_largest(result), "GmP", "largest_angle")


def _largest(result: Result) -> list[Row]:
    rows: list[Row] = result["result"]["rows"]
    return [row for row in rows if row["rate"] == max(one["rate"] for one in rows)]


def _gains(rows: Sequence[Row]) -> list[Case]:
    """What GmP gains over each other method: points of accuracy, or percent of its RMSE."""
    cases = []
    for group in groups_of(rows):
        own = next((row for row in group if "estimate" in row and row["method"] == "GmP"), None)
        is_error = own is not None and own["measure"] == "rmse"
        factor = -100 / own["estimate"]["mean"] if own and is_error else 1.0
        for case in leads(group, "GmP"):
            values = [factor * value for value in case.values]
            cases.append(replace(case, label=f"{case.label}, {group[0]['data']}", values=values))
    return cases


_gain = partial(Claim, side=Above(), unit="points, or percent of the RMSE, by which GmP is better")
CLAIMS = (
    Claim(
        "The best rate of GmP is ten times that of every other method",
        best_rates,
        Within(ONE_STEP, centre=1.0),
        unit="powers of ten, GmP less the other",
    ),
    _gain("At each one's own best rate GmP does best", at_own_best),
    _gain("At the largest rate, 1, GmP does best", at_largest),
    Claim(
        "At the largest rate, 1, units of GmP turn least in a step", turns, Below(), "powers of ten, GmP less the other"
    ),
)


def tables(result: Result) -> list[Table]:
    """One line per method and rate; the tuned rate is marked."""
    values = result["result"]
    best = {(one["data"], one["method"]): one["best"] for one in values["chosen"]}
    held = {(one["data"], one["method"], point["value"]): point for one in values["chosen"] for point in one["curve"]}

    def rate(row: Row) -> str:
        return f"{row['rate']:g}{' (best)' * (best[row['data'], row['method']] == row['rate'])}"

    def held_out(row: Row) -> str | None:
        point = held[row["data"], row["method"], row["rate"]]
        return written(point["mean"], point["error"], row.get("measure", "accuracy"))

    columns = (
        DATA,
        METHOD,
        Column("rate", rate),
        Column("held-out data", held_out),
        TEST,
        Column(
            "largest turn (°)", lambda row: f"{median(row['largest_angle']):.3g}" if "largest_angle" in row else None
        ),
        FAILED,
    )
    caption = (
        "accuracies in %, or RMSE, mean ± standard error over seeds; largest turn of any unit in a step, median over seeds; "
        f"best: on held-out data; {legend(row['method'] for row in values['rows'])}"
    )
    return [table(title_of(result), columns, values["rows"], caption)]


def figures(result: Result) -> list[Drawing]:
    """Test results over the rates, a figure for every set."""
    drawings = []
    every = [row for row in result["result"]["rows"] if "estimate" in row]
    for data in dict.fromkeys(row["data"] for row in every):
        rows = [row for row in every if row["data"] == data]
        factor = 100 if rows[0]["measure"] == "accuracy" else 1
        with blank(f"{result['reproduction']}-{data}") as sheet:
            for number, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
                own = [row for row in rows if row["method"] == method]
                values = [(row["estimate"]["mean"], row["estimate"]["standard_error"]) for row in own]
                means(sheet.axes, number, method, [row["rate"] * 1.03**number for row in own], values, factor)
            label = "test accuracy (%)" if factor > 1 else "test RMSE"
            sheet.axes.set(xscale="log", xlabel="learning rate", ylabel=label)
            plain_numbers(sheet.axes.xaxis)
            sheet.axes.legend()
        drawings.append(Drawing(sheet.svg, f"{data}: all rates", f"Means over seeds, {BARS}."))
    return drawings


LEARNING_RATE = Reproduction(
    name="geometric/learning_rate",
    title="All methods at all learning rates",
    where="Sections 3.5 and 5, Appendix C",
    scales={
        "smoke": Setting(by(replace(MOONS, protocol="clean", holdout=0.2), *FOUR), OPTIONS | {"rates": (0.01, 0.1)}),
        "small": Setting(SMALL, OPTIONS),
        "paper": Setting(
            SMALL + tuple(replace(one, protocol="clean", holdout=0.2) for one in RECIPES if one.data != "power"),
            OPTIONS,
        ),
    },
    measure=measure,
    claims=CLAIMS,
    tables=tables,
    figures=figures,
    criteria=(
        "Ten times is between three and thirty times, in the mean over seeds of the rates at which each seed does best: by "
        "test results, as these are kept seed by seed; the rates chosen on held-out data, over all seeds together, are "
        "marked in the table. The largest turn of a training is compared in powers of ten, seed by seed."
    ),
    departs=(
        "Every choice is made on held-out data; the networks are those of Figure 3 (and, at paper scale, Table 3). Rates "
        "are those of the paper's list and 1. Weak: rates are chosen with the seeds that are reported."
    ),
)
