"""Section 4.3: one start for layers of every size; signals at the start, and what training makes of it."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from statistics import fmean
from typing import Any

from neuronal.data import load
from neuronal.experiments import Recipe, Work, drawn, estimate, network
from neuronal.geometry import outputs
from neuronal.report import Column, Drawing, Table, blank, plain_numbers, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.geometric.drawing import BARS, means
from neuronal_papers.geometric.methods import Row, mean_of
from neuronal_papers.geometric.protocols import by_seed, overlap
from neuronal_papers.geometric.uci import UCI
from neuronal_papers.judge import Above, Below, Case, Claim, Evidence, Fact, Result, paired

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
    widths = setting.options["widths"]
    # All at once first: there is more to divide.
    work.records([replace(recipe, widths=(width, width)) for recipe in setting.recipes for width in widths])
    rows = []
    for recipe in setting.recipes:
        for width in widths:
            one = replace(recipe, widths=(width, width))
            records = [record for record in work.records([one]) if record.failure is None]
            values = [record.metrics["rmse"] for record in records]
            signal = estimate([_signal(one, seed) for seed in one.seeds])
            rows.append(
                {"start": recipe.name, "width": width}
                | {"signal": signal.mean, "signal_error": signal.standard_error}
                | {"seeds": [record.seed for record in records], "values": values}
                | {"failed": len(one.seeds) - len(values), "overlap": overlap(one)}
                | ({"estimate": asdict(estimate(values))} if values else {})
            )
    return {"rows": rows}


def _signal(recipe: Recipe, seed: int) -> float:
    """Root mean square of what the last hidden layer puts out before training."""
    data = drawn(load(recipe.data), recipe, seed)
    features = network(recipe, data, seed).features
    return float(outputs(features, data.train.x).double().square().mean().sqrt())  # type: ignore[arg-type]


def _of(result: Result, start: str) -> dict[int, Row]:
    """The rows of a start by width."""
    return {row["width"]: row for row in result["result"]["rows"] if row["start"] == start}


def signals(result: Result, start: str, *, depends: bool) -> Evidence:
    """Whether the signal of the widest network is within a factor of that of the narrowest, or is not."""
    values = {width: row["signal"] for width, row in _of(result, start).items()}
    steady = max(values.values()) <= STEADY * min(values.values())
    numbers = ", ".join(f"{value:.3g} at {width}" for width, value in values.items())
    return Evidence(len(values), int(steady == depends), numbers)


def _worse(own: Row, other: Row, label: str) -> Case:
    """By how many percent of the other's error the first is worse, seed by seed."""
    one, two = by_seed(own), by_seed(other)
    failed = own["failed"] + other["failed"]
    factor = 100 / fmean(two.values()) if two else 1.0
    note = f"{failed} runs failed" if failed else ""
    return Case(label, paired(one, two, factor), own["overlap"], note, is_open=bool(failed))


def widest(result: Result, start: str) -> list[Case]:
    """The widest network against every narrower one."""
    rows = _of(result, start)
    return [_worse(rows[max(rows)], row, f"than {width}") for width, row in rows.items() if width != max(rows)]


def against_glorot(result: Result) -> list[Case]:
    """Geometric units with scale 1 against Glorot's start, width by width."""
    own, other = _of(result, GEOMETRIC), _of(result, GLOROT)
    return [_worse(own[width], other[width], f"at {width}") for width in own if width in other]


_percent = partial(Claim, unit="percent of the other's RMSE", digits="+.0f")
CLAIMS = (
    Fact(
        f"{GEOMETRIC}: the signal at the start does not depend on the width",
        lambda result: signals(result, GEOMETRIC, depends=False),
    ),
    _percent(
        f"{GEOMETRIC}: the widest network trains as well as narrower ones",
        lambda result: widest(result, GEOMETRIC),
        Below(WORSE),
    ),
    Fact(
        f"{NORMAL}: the signal at the start depends on the width",
        lambda result: signals(result, NORMAL, depends=True),
        beyond_paper=True,
    ),
    _percent(
        f"{NORMAL}: the widest network trains worse than some narrower one",
        lambda result: widest(result, NORMAL),
        Above(),
        needs="some",
        beyond_paper=True,
    ),
    _percent(
        f"{GEOMETRIC}, does as well as {GLOROT}, at every width",
        against_glorot,
        Below(ALIKE),
        beyond_paper=True,
    ),
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
    drawings = []
    rows = [row for row in result["result"]["rows"] if "estimate" in row]
    for key, label in (("signal", "signal at the start"), ("rmse", "test RMSE")):
        with blank(f"{result['reproduction']}-{key}") as sheet:
            for number, start in enumerate(dict.fromkeys(row["start"] for row in rows)):
                own = [row for row in rows if row["start"] == start]
                values = [(row["signal"], row.get("signal_error")) for row in own]
                if key == "rmse":
                    values = [(row["estimate"]["mean"], row["estimate"]["standard_error"]) for row in own]
                # A little apart, so that bars can be told apart.
                means(sheet.axes, number, start, [row["width"] * 1.05**number for row in own], values)
            sheet.axes.set(xscale="log", xlabel="width", ylabel=label)
            plain_numbers(sheet.axes.xaxis)
            if key == "signal":
                sheet.axes.set_yscale("log")
                plain_numbers(sheet.axes.yaxis)
            sheet.axes.legend()
        caption = f"Means over seeds, {BARS}; widths on a logarithmic axis."
        drawings.append(Drawing(sheet.svg, label[0].upper() + label[1:], caption))
    return drawings


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
        "compares with no start of deviation 1, nor GmP's start with Glorot's: that is ours."
    ),
    departs=(
        "The paper argues and shows no numbers. Two hidden layers, so that the second has as many inputs as units; 100 "
        "epochs of Adam at 0.01 for all; the output layer starts as Glorot's everywhere."
    ),
)
