"""Sections 3.5 and 5, Appendix C: every method at every learning rate, for the claim of ten times larger ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from neuronal.experiments import Work
from neuronal.report import Column, Drawing, Table, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.geometric.comparison import by_seed, leads, over, row_of
from neuronal_papers.geometric.methods import DATA, FAILED, FOUR, METHOD, RATES, TEST, UNITS, Row, by, legend, method_of
from neuronal_papers.geometric.motion import BANANA, MOONS
from neuronal_papers.geometric.uci import ONE_STEP, RECIPES
from neuronal_papers.judge import Above, Case, Claim, Result, Within
from neuronal_papers.seeds import groups, log_ratios, with_error
from neuronal_papers.tuning import best_of

OPTIONS = {"rates": RATES, "holdout": 0.2}
SMALL = by(replace(BANANA, protocol="clean", holdout=0.2), *FOUR)


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe at every one of ``rates``, with all seeds, choices on ``holdout`` of the training data."""
    tries = [
        [replace(recipe, lr=lr, holdout=setting.options["holdout"]) for lr in setting.options["rates"]]
        for recipe in setting.recipes
    ]
    chosen = [
        {
            "data": recipe.data,
            "method": method_of(recipe),
            "best": choice.best,
            "curve": list(map(asdict, choice.curve)),
        }
        for recipe, choice in zip(setting.recipes, best_of(tries, work), strict=True)
    ]
    return {"rows": [row_of(one, work) for every in tries for one in every], "chosen": chosen}


def best_rates(result: Result) -> list[Case]:
    """Powers of ten between the rates at which GmP and each other method do best, seed by seed.

    By test results: what held-out data say is kept for all seeds together, and the best rates by these are in the table.
    """
    cases = []
    for (data,), rows in groups(result["result"]["rows"], "data").items():
        best = {method: _best_by_seed(own) for (method,), own in groups(rows, "method").items()}
        own = best.pop("GmP")
        cases += [Case(f"{name}, {data}", log_ratios(own, other), rows[0]["overlap"]) for name, other in best.items()]
    return cases


def _best_by_seed(rows: Sequence[Row]) -> dict[int, float]:
    """The rate with the best test result; of equals the first."""
    found: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        for seed, value in by_seed(row).items():
            found.setdefault(seed, []).append((-value if row["measure"] == "rmse" else value, row["rate"]))
    return {seed: max(own, key=lambda pair: pair[0])[1] for seed, own in found.items()}


def at_largest(result: Result) -> list[Case]:
    """What GmP gains over each other method at the largest rate: points of accuracy, or percent of its RMSE."""
    rates, cases = groups(result["result"]["rows"], "rate"), []
    for (data,), rows in groups(rates[max(rates)], "data").items():
        errors = [row["estimate"]["mean"] for row in rows if row["method"] == "GmP" and row.get("measure") == "rmse"]
        factor = -100 / errors[0] if errors else 1.0
        for case in leads(rows, "GmP"):
            cases.append(replace(case, label=f"{case.label}, {data}", values=[factor * value for value in case.values]))
    return cases


CLAIMS = (
    Claim(
        "The best rate of GmP is ten times that of every other method",
        best_rates,
        Within(ONE_STEP, centre=1.0),
        unit="powers of ten, GmP less the other",
    ),
    Claim(
        "At the largest rate, 1, GmP does best",
        at_largest,
        Above(),
        unit="points, or percent of the RMSE, by which GmP is better",
    ),
)


def tables(result: Result) -> list[Table]:
    """One line per method and rate; the tuned rate is marked."""
    rows, chosen = result["result"]["rows"], result["result"]["chosen"]
    best = {(one["data"], one["method"]): one["best"] for one in chosen}
    held = {(one["data"], one["method"], point["value"]): point for one in chosen for point in one["curve"]}

    def rate(row: Row) -> str:
        return f"{row['rate']:g}{' (best)' * (best[row['data'], row['method']] == row['rate'])}"

    def held_out(row: Row) -> str | None:
        point = held[row["data"], row["method"], row["rate"]]
        return with_error(point["mean"], point["error"], *UNITS[row.get("measure", "accuracy")])

    def turn(row: Row) -> float | None:
        return median(row["largest_angle"]) if "largest_angle" in row else None

    columns = (
        DATA,
        METHOD,
        Column("rate", rate),
        Column("held-out data", held_out),
        TEST,
        Column("largest turn (°)", turn, ".3g"),
        FAILED,
    )
    caption = (
        "accuracies in %, or RMSE, mean ± standard error over seeds; largest turn of any unit in a step, median over seeds; "
        f"best: on held-out data; {legend(rows)}"
    )
    return [table(title_of(result), columns, rows, caption)]


def figures(result: Result) -> list[Drawing]:
    """Test results over the rates, a figure for every set."""
    rows = [{**row, "learning rate": row["rate"]} for row in result["result"]["rows"] if "estimate" in row]
    return [
        over(f"{result['reproduction']}-{data}", f"{data}: all rates", own, "method", "learning rate")
        for (data,), own in groups(rows, "data").items()
    ]


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
        "marked in the table."
    ),
    departs=(
        "Every choice is made on held-out data; the networks are those of Figure 3 (and, at paper scale, Table 3). Rates "
        "are those of the paper's list and 1. Weak: rates are chosen with the seeds that are reported."
    ),
)
