"""Sections 3.5, 4.3 and 5, Appendix C: every method at every learning rate, and one start for layers of every size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from statistics import fmean, median
from typing import Any

from neuronal.data import load
from neuronal.experiments import Recipe, Work, drawn, estimate, network
from neuronal.geometry import outputs
from neuronal.report import Column, Drawing, Table, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.geometric import methods
from neuronal_papers.geometric.comparison import by_seed, leads, over, row_of
from neuronal_papers.geometric.methods import DATA, FAILED, FOUR, METHOD, RATES, UNITS, Row, by, mean_of, method_of
from neuronal_papers.geometric.motion import BANANA, MOONS
from neuronal_papers.geometric.uci import RECIPES, UCI
from neuronal_papers.judge import Above, Below, Case, Claim, Evidence, Fact, Result, paired
from neuronal_papers.seeds import groups, with_error
from neuronal_papers.tuning import best_of

OPTIONS = {"rates": RATES}
CLEAN: Mapping[str, Any] = {"protocol": "clean", "holdout": 0.2}
SMALL = by(replace(BANANA, **CLEAN), *FOUR)
LARGE = SMALL + tuple(replace(one, **CLEAN) for one in RECIPES if one.data != "power")


def measure_rates(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe at every one of ``rates``, with all seeds."""
    tries = [[replace(recipe, lr=lr) for lr in setting.options["rates"]] for recipe in setting.recipes]
    chosen = []
    for recipe, choice in zip(setting.recipes, best_of(tries, work), strict=True):
        curve = [asdict(point) for point in choice.curve]
        chosen.append({"data": recipe.data, "method": method_of(recipe), "best": choice.best, "curve": curve})
    return {"rows": [row_of(one, work) for every in tries for one in every], "chosen": chosen}


def at_largest(result: Result) -> list[Case]:
    """What GmP gains over each other method at the largest rate: points of accuracy, or percent of its RMSE."""
    rates, cases = groups(result["result"]["rows"], "rate"), []
    for (data,), rows in groups(rates[max(rates)], "data").items():
        errors = [row["estimate"]["mean"] for row in rows if row["method"] == "GmP" and row.get("measure") == "rmse"]
        factor = -100 / errors[0] if errors else 1.0
        for case in leads(rows, "GmP"):
            cases.append(replace(case, label=f"{case.label}, {data}", values=[factor * value for value in case.values]))
    return cases


RATE_CLAIM = Claim(
    "At the largest rate, 1, GmP does best",
    at_largest,
    Above(),
    unit="points, or percent of the RMSE, by which GmP is better",
)


def rate_tables(result: Result) -> list[Table]:
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
        methods.TEST,
        Column("largest turn (°)", turn, ".3g"),
        FAILED,
    )
    caption = (
        "accuracies in %, or RMSE, mean ± standard error over seeds; largest turn of any unit in a step, median over seeds; "
        f"best: on held-out data; {methods.legend(rows)}"
    )
    return [table(title_of(result), columns, rows, caption)]


def rate_figures(result: Result) -> list[Drawing]:
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
        "smoke": Setting(by(replace(MOONS, **CLEAN), *FOUR), {"rates": (0.01, 0.1)}),
        "small": Setting(SMALL, OPTIONS),
        "paper": Setting(LARGE, OPTIONS),
    },
    measure=measure_rates,
    claims=(RATE_CLAIM,),
    tables=rate_tables,
    figures=rate_figures,
    criteria="Whether the best rate of GmP is ten times the others' is judged over the sets of Table 3.",
    departs=(
        "Every choice is made on held-out data; the networks are those of Figure 3 (and, at paper scale, Table 3). Rates "
        "are those of the paper's list and 1. Weak: rates are chosen with the seeds that are reported."
    ),
)

# Section 4.3

WIDTHS = {"widths": (10, 30, 100, 300, 1000)}
WIDE = replace(UCI, data="boston", protocol="clean", model="fcn", epochs=100, cut_after=0, stop_after=0, lr=0.01)
GLOROT, NORMAL, GEOMETRIC = "SP, Glorot", "SP, deviation 1", "GmP, scale 1"
STARTS = (
    replace(WIDE, name=GLOROT, family="standard"),
    replace(WIDE, name=NORMAL, family="standard", model_options={"start": "normal"}),
    replace(WIDE, name=GEOMETRIC, family="geometric", norm="none", model_options={"start": "normal", "outside": True}),
)
STEADY = 1.5
"""Factor over all widths within which signals are called independent of the width."""
# Percent of the RMSE of the network compared with. A fifth separates networks that train from such that do not; a twentieth
# is less than the standard error of a mean over ten splits.
WORSE, ALIKE = 20.0, 5.0


def measure_starts(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe at every one of ``widths``, two hidden layers of that width: signal at the start, test result."""
    recipes = [replace(one, widths=(width, width)) for one in setting.recipes for width in setting.options["widths"]]
    # All at once first: there is more to divide.
    work.records(recipes)
    rows = []
    for recipe in recipes:
        row, signal = row_of(recipe, work), estimate([_signal(recipe, seed) for seed in recipe.seeds])
        place = {"start": recipe.name, "width": recipe.widths[0], "failed": len(row["failed"])}
        rows.append(row | place | {"signal": signal.mean, "signal_error": signal.standard_error})
    return {"rows": rows}


def _signal(recipe: Recipe, seed: int) -> float:
    """Root mean square of what the last hidden layer puts out before training."""
    data = drawn(load(recipe.data), recipe, seed)
    features = network(recipe, data, seed).features
    return float(outputs(features, data.train.x).double().square().mean().sqrt())  # type: ignore[arg-type]


def _of(result: Result, start: str) -> dict[int, Row]:
    """The rows of a start by width."""
    return {row["width"]: row for row in result["result"]["rows"] if row["start"] == start}


def signals(result: Result) -> Evidence:
    """Whether the largest signal of geometric units is within a factor of the smallest."""
    values = {width: row["signal"] for width, row in _of(result, GEOMETRIC).items()}
    numbers = ", ".join(f"{value:.3g} at {width}" for width, value in values.items())
    return Evidence(len(values), int(max(values.values()) > STEADY * min(values.values())), numbers)


def _worse(own: Row, other: Row, label: str) -> Case:
    """By how many percent of the other's error the first is worse, seed by seed."""
    one, two = by_seed(own), by_seed(other)
    failed = own["failed"] + other["failed"]
    factor = 100 / fmean(two.values()) if two else 1.0
    note = f"{failed} runs failed" if failed else ""
    return Case(label, paired(one, two, factor), own["overlap"], note, is_open=bool(failed))


def widest(result: Result) -> list[Case]:
    """The widest network against every narrower one."""
    rows = _of(result, GEOMETRIC)
    return [_worse(rows[max(rows)], row, f"than {width}") for width, row in rows.items() if width != max(rows)]


def against_glorot(result: Result) -> list[Case]:
    """Geometric units with scale 1 against Glorot's start, width by width."""
    own, other = _of(result, GEOMETRIC), _of(result, GLOROT)
    return [_worse(own[width], other[width], f"at {width}") for width in own if width in other]


_percent = partial(Claim, unit="percent of the other's RMSE", digits="+.0f")
START_CLAIMS = (
    Fact(f"{GEOMETRIC}: the signal at the start does not depend on the width", signals),
    _percent(f"{GEOMETRIC}: the widest network trains as well as narrower ones", widest, Below(WORSE)),
    _percent(f"{GEOMETRIC}, does as well as {GLOROT}, at every width", against_glorot, Below(ALIKE), beyond_paper=True),
)


def start_tables(result: Result) -> list[Table]:
    columns = (
        Column("start", "start", is_text=True),
        Column("width", "width"),
        Column("signal at the start", "signal", ".3g"),
        Column("test RMSE", mean_of),
        Column("failed", "failed"),
    )
    caption = "signal: root mean square of what the last hidden layer puts out before training"
    return [table(title_of(result), columns, result["result"]["rows"], caption)]


def start_figures(result: Result) -> list[Drawing]:
    name, rows = result["reproduction"], [row for row in result["result"]["rows"] if "estimate" in row]
    labels = {"ylabel": "signal at the start", "yscale": "log"}
    signals = [{**row, "estimate": {"mean": row["signal"], "standard_error": row["signal_error"]}} for row in rows]
    return [
        over(f"{name}-signal", "Signal at the start", signals, "start", "width", **labels),
        over(f"{name}-rmse", "Test RMSE", rows, "start", "width"),
    ]


INITIALISATION = Reproduction(
    name="geometric/initialisation",
    title="One start for layers of every size",
    where="Section 4.3",
    scales={
        "smoke": Setting(
            tuple(replace(one, data="levy", redrawn=0.0, epochs=2, seeds=(0,)) for one in STARTS), {"widths": (4, 8)}
        ),
        "small": Setting(STARTS, WIDTHS),
        "paper": Setting(STARTS, WIDTHS),
    },
    measure=measure_starts,
    claims=START_CLAIMS,
    tables=start_tables,
    figures=start_figures,
    criteria=(
        f"A signal does not depend on the width if the largest is at most {STEADY:g} times the smallest. The widest network "
        f"trains as well if its error is less than {WORSE:g} percent above that of every narrower one, and a start does as "
        f"well as another if it is less than {ALIKE:g} percent above. Where a run failed nothing is decided. The paper "
        "compares GmP's start with no other: that is ours."
    ),
    departs=(
        "The paper argues and shows no numbers. Two hidden layers, so that the second has as many inputs as units; 100 "
        "epochs of Adam at 0.01 for all; the output layer starts as Glorot's everywhere."
    ),
)
