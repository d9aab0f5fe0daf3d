"""Figure 3 with both methods at rate 0.1 and fifty seeds: the paper has two rates there, and ten seeds do not tell."""

from __future__ import annotations

from dataclasses import replace

from neuronal.report import Column, Figure, blank
from neuronal_papers.core import Reproduction, one_table, settings
from neuronal_papers.drawing import dots
from neuronal_papers.geometric.comparison import FAILED, METHOD, RATE, TEST, by, by_seed, is_best, measure
from neuronal_papers.geometric.motion import BANANA, MOONS, SHOWN
from neuronal_papers.judge import Result
from neuronal_papers.seeds import groups

FIFTY = by(replace(BANANA, probes=(), seeds=tuple(range(50))), "SP", "GmP", rate=SHOWN)
SMOKE = by(replace(MOONS, probes=()), "SP", "GmP", rate=SHOWN)
# One rate is given, so there is none to try.
OPTIONS = {"rates": (SHOWN,), "holdout": 0.2, "tuning_seeds": 1}
PROTOCOL, SEEDS = Column("protocol", "protocol", is_text=True), Column("seeds", lambda row: len(row["seeds"]))


def figures(result: Result) -> list[Figure]:
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
    return [Figure(sheet.svg, "Seed by seed", "A point is a seed; on the line both methods do as well.")]


CAPTION = "mean ± standard error over seeds; protocols as in Table 3, but the rate is given and not tuned"
SAME_RATE = Reproduction(
    name="geometric/same_rate",
    title="Classification in the plane, both methods at rate 0.1",
    where="Figure 3",
    scales=settings((SMOKE, FIFTY), (OPTIONS,)),
    measure=measure,
    claims=is_best("GmP", "Banana: GmP does better than SP at the same rate, 0.1", beyond_paper=True),
    tables=one_table((METHOD, PROTOCOL, RATE, TEST, SEEDS, FAILED), CAPTION),
    figures=figures,
    criteria="GmP less SP, seed by seed. The paper compares no two methods at one rate.",
    departs="The paper trains SP at a tenth of GmP's rate; 50 seeds, since ten do not tell the two apart.",
)
