"""Figure 3 with both methods at rate 0.1 and fifty seeds: the paper has two rates there, and ten seeds do not tell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from neuronal.experiments import Work
from neuronal.report import MARKERS, Column, Drawing, Table, blank, colour, table
from neuronal_papers.core import Reproduction, Setting, title_of
from neuronal_papers.geometric.comparison import is_best
from neuronal_papers.geometric.methods import FAILED, METHOD, RATE, TEST, by
from neuronal_papers.geometric.motion import BANANA, MOONS
from neuronal_papers.geometric.protocols import by_seed, differences, row_of
from neuronal_papers.judge import Result

RECIPES = by(replace(BANANA, probes=(), seeds=tuple(range(50))), "SP", "GmP", rates=(0.1, 0.1))
OPTIONS = {"best": "GmP", "holdout": 0.2}


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe as published, and with ``holdout`` of the training data deciding when to stop; at its own rate.

    ``options``: ``holdout``; ``best``, the method that is better according to the paper.
    """
    rows = []
    for recipe in setting.recipes:
        work.say(recipe.name)
        clean = replace(recipe, protocol="clean", holdout=setting.options["holdout"])
        rows += [row_of(recipe, work), row_of(clean, work)]
    return {"rows": rows, "differences": differences(rows, setting.options["best"])}


CLAIMS = tuple(
    replace(is_best("GmP", "Banana: GmP does better than SP at the same rate, 0.1", protocol), beyond_paper=True)
    for protocol in ("published", "clean")
)


def tables(result: Result) -> list[Table]:
    columns = (
        METHOD,
        Column("protocol", "protocol", is_text=True),
        RATE,
        TEST,
        Column("seeds", lambda row: len(row["seeds"])),
        FAILED,
    )
    caption = "mean ± standard error over seeds; protocols as in Table 3, but the rate is given and not tuned"
    rows = [row for row in result["result"]["rows"] if "estimate" in row]
    return [table(title_of(result), columns, rows, caption)]


def figures(result: Result) -> list[Drawing]:
    """Seed by seed, one method against the other."""
    rows = [row for row in result["result"]["rows"] if "values" in row]
    names = list(dict.fromkeys(row["method"] for row in rows))
    if len(names) != 2:
        return []
    factor, unit = (1, "RMSE") if rows[0]["measure"] == "rmse" else (100, "accuracy (%)")
    with blank(f"{result['reproduction']}-seeds") as sheet:
        for number, protocol in enumerate(("published", "clean")):
            own = {row["method"]: by_seed(row) for row in rows if row["protocol"] == protocol}
            both = [seed for seed in own.get(names[0], {}) if seed in own.get(names[1], {})]
            across, up = ([factor * own[name][seed] for seed in both] for name in names)
            style: dict[str, Any] = {"linestyle": "", "marker": MARKERS[number], "markersize": 4, "label": protocol}
            sheet.axes.plot(across, up, color=colour(number), **style)
        low, high = sheet.axes.get_xlim()
        sheet.axes.axline(((low + high) / 2, (low + high) / 2), slope=1, color="grey", linewidth=0.8)
        sheet.axes.set(xlabel=f"{names[0]}, test {unit}", ylabel=f"{names[1]}, test {unit}")
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
