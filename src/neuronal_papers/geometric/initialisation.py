"""Section 4.3: one start for layers of every size; signals at the start, and what training makes of it."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from statistics import fmean
from typing import Any

from neuronal.data import load
from neuronal.experiments import Recipe, Work, drawn, estimate, network
from neuronal.geometry import outputs
from neuronal.report import Column, Drawing, Table, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.geometric.comparison import by_seed, over, overlap
from neuronal_papers.geometric.methods import Row, mean_of
from neuronal_papers.geometric.uci import UCI
from neuronal_papers.judge import Below, Case, Claim, Evidence, Fact, Result, paired

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


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe at every one of ``widths``, two hidden layers of that width: signal at the start, test result."""
    recipes = [replace(one, widths=(width, width)) for one in setting.recipes for width in setting.options["widths"]]
    # All at once first: there is more to divide.
    work.records(recipes)
    return {"rows": [_row(recipe, work) for recipe in recipes]}


def _row(recipe: Recipe, work: Work) -> dict[str, Any]:
    records = [record for record in work.records([recipe]) if record.failure is None]
    values = [record.metrics["rmse"] for record in records]
    signal = estimate([_signal(recipe, seed) for seed in recipe.seeds])
    row = {
        "start": recipe.name,
        "width": recipe.widths[0],
        "signal": signal.mean,
        "signal_error": signal.standard_error,
        "seeds": [record.seed for record in records],
        "values": values,
        "failed": len(recipe.seeds) - len(values),
        "overlap": overlap(recipe),
    }
    return row | ({"estimate": asdict(estimate(values))} if values else {})


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
CLAIMS = (
    Fact(f"{GEOMETRIC}: the signal at the start does not depend on the width", signals),
    _percent(f"{GEOMETRIC}: the widest network trains as well as narrower ones", widest, Below(WORSE)),
    _percent(f"{GEOMETRIC}, does as well as {GLOROT}, at every width", against_glorot, Below(ALIKE), beyond_paper=True),
)


def tables(result: Result) -> list[Table]:
    columns = (
        Column("start", "start", is_text=True),
        Column("width", "width"),
        Column("signal at the start", "signal", ".3g"),
        Column("test RMSE", lambda row: mean_of({**row, "measure": "rmse"})),
        Column("failed", "failed"),
    )
    caption = "signal: root mean square of what the last hidden layer puts out before training"
    return [table(title_of(result), columns, result["result"]["rows"], caption)]


def figures(result: Result) -> list[Drawing]:
    name, rows = result["reproduction"], [row for row in result["result"]["rows"] if "estimate" in row]
    errors, signals = [{**row, "measure": "rmse"} for row in rows], []
    for row in errors:
        signals.append({**row, "estimate": {"mean": row["signal"], "standard_error": row["signal_error"]}})
    title = "Signal at the start"
    return [
        over(f"{name}-signal", title, signals, "start", "width", ylabel="signal at the start", yscale="log"),
        over(f"{name}-rmse", "Test RMSE", errors, "start", "width"),
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
    measure=measure,
    claims=CLAIMS,
    tables=tables,
    figures=figures,
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
