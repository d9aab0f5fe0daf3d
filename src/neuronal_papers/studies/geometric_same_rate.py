"""Figure 3 with both methods at rate 0.1 and fifty seeds: the paper has two rates there, and ten seeds do not tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from neuronal.experiments import Work
from neuronal.report import Column, Drawing, Table, blank, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.drawing import dots
from neuronal_papers.geometric.comparison import by_seed, is_best_by_both, row_of
from neuronal_papers.geometric.methods import FAILED, METHOD, RATE, TEST, by
from neuronal_papers.geometric.motion import BANANA, MOONS
from neuronal_papers.judge import Result
from neuronal_papers.seeds import groups

RECIPES = by(replace(BANANA, probes=(), seeds=tuple(range(50))), "SP", "GmP", rates=(0.1, 0.1))
OPTIONS = {"holdout": 0.2}


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe as published, and with ``holdout`` of the training data deciding when to stop; at its own rate."""
    clean = [replace(one, protocol="clean", holdout=setting.options["holdout"]) for one in setting.recipes]
    return {"rows": [row_of(one, work) for pair in zip(setting.recipes, clean, strict=True) for one in pair]}


CLAIMS = is_best_by_both("GmP", "Banana: GmP does better than SP at the same rate, 0.1", beyond_paper=True)


def tables(result: Result) -> list[Table]:
    protocol, seeds = Column("protocol", "protocol", is_text=True), Column("seeds", lambda row: len(row["seeds"]))
    columns = (METHOD, protocol, RATE, TEST, seeds, FAILED)
    caption = "mean ± standard error over seeds; protocols as in Table 3, but the rate is given and not tuned"
    return [table(title_of(result), columns, result["result"]["rows"], caption)]


def figures(result: Result) -> list[Drawing]:
    """Seed by seed, one method against the other."""
    with blank(f"{result['reproduction']}-seeds") as sheet:
        for number, ((protocol,), rows) in enumerate(groups(result["result"]["rows"], "protocol").items()):
            across, up = map(by_seed, rows)
            both = across.keys() & up.keys()
            x, y = ([100 * values[seed] for seed in both] for values in (across, up))
            dots(sheet.axes, number, x, y, protocol)
        low, high = sheet.axes.get_xlim()
        sheet.axes.axline(((low + high) / 2, (low + high) / 2), slope=1, color="grey", linewidth=0.8)
        sheet.axes.set(xlabel="SP, test accuracy (%)", ylabel="GmP, test accuracy (%)")
        sheet.axes.legend()
    return [Drawing(sheet.svg, "Seed by seed", "A point is a seed; on the line both methods do as well.")]


SAME_RATE = Reproduction(
    name="geometric/same_rate",
    title="Classification in the plane, both methods at rate 0.1",
    where="Figure 3",
    scales={
        "smoke": Setting(by(replace(MOONS, probes=()), "SP", "GmP", rates=(0.1, 0.1)), OPTIONS),
        "small": Setting(RECIPES, OPTIONS),
        "paper": Setting(RECIPES, OPTIONS),
    },
    measure=measure,
    claims=CLAIMS,
    tables=tables,
    figures=figures,
    criteria="GmP less SP, seed by seed. The paper compares no two methods at one rate.",
    departs="The paper trains SP at a tenth of GmP's rate; 50 seeds, since ten do not tell the two apart.",
)
