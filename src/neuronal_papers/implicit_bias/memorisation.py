"""Best validation accuracy when labels are wrong, and how curved the loss is around what is learnt by heart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log10
from typing import Any

from neuronal.experiments import Recipe
from neuronal.report import Drawing
from neuronal_papers.core import Reproduction, Setting
from neuronal_papers.implicit_bias import accuracy_curve
from neuronal_papers.implicit_bias.accuracy_curve import best, both, lines, measure, sorted_networks, tables
from neuronal_papers.implicit_bias.compared import BAND, SMALLEST, Row, at, bands
from neuronal_papers.implicit_bias.networks import ALL_DIGITS, CHOSEN, CIFAR, FASHION, LEARNT_ALONE, RATES, pair
from neuronal_papers.judge import Above, Below, Case, Claim, Result, paired


def _mislabelled(recipe: Recipe, *shares: float) -> tuple[Recipe, ...]:
    return pair(*(replace(recipe, name=f"{recipe.name}, {100 * s:g}% wrong", wrong_labels=s) for s in shares))


def gains(result: Result) -> list[Case]:
    """By how much the lead in the best validation accuracy is larger than the same seed's with right labels, in points."""
    found = [
        (one, {seed: own - one.standard[seed] for seed, own in one.own.items() if seed in one.standard})
        for one in both(result, best, "wrong_labels")
    ]
    right = {one.data: leads for one, leads in found if not one.x}
    return [
        Case(one.label, paired(leads, right[one.data], 100), note=one.note)
        for one, leads in found
        if one.x and one.data in right
    ]


def _bend(row: Row) -> float:
    """log10 of the curvature at wrongly labelled images; at rightly labelled ones where no label is wrong."""
    curved = row.get("curvature")
    return log10(max(curved["wrong" if row["x"] else "right"], SMALLEST)) if curved else float("nan")


def log_ratios(result: Result) -> list[Case]:
    """log10 of the curvature over the standard network's; a failed run has none, and its pair is left out."""
    cases = []
    for one in both(result, _bend, failed=float("nan")):
        values = [value for value in paired(one.own, one.standard) if value == value]
        cases.append(Case(one.label, values, note=one.note))
    return cases


def figures(result: Result) -> list[Drawing]:
    """The best held-out accuracy, and after each figure its curvatures where they were measured."""
    found = []
    for drawing in accuracy_curve.figures(result, best):
        own = [one for one in sorted_networks(result) if one["data"] == drawing.title]
        found.append(drawing)
        if all("curvature" in run for one in own for run in one["runs"]):
            found.append(_curvatures(result, drawing.title, own))
    return found


def _curvatures(result: Result, data: str, networks: Sequence[Row]) -> Drawing:
    drawn = []
    for kind, style in (("right", "-"), ("wrong", ":")):
        labelled = [one for one in networks if one["runs"][0]["curvature"][kind] is not None]
        drawn += lines(labelled, at("curvature", kind), 1, f", {kind} labels", style)
    labels = {"xlabel": result["result"]["axis"], "ylabel": "curvature of the loss", "yscale": "log"}
    caption = f"At training images, by how they were labelled. {BAND}"
    name = f"{result['reproduction']}-{data}-curvature"
    return bands(name, f"{data}: curvature", drawn, labels, caption, size=6)


WRONG = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
LONGER = replace(FASHION, epochs=32)
# As many steps as all the others, over fewer images more often: what is wrong can be learnt by heart.
LONGER_FEW = replace(LONGER, fraction=0.2)
AXIS: Mapping[str, Any] = {"axis": "share of wrong labels", "curvature": 256}
MEMORISATION = Reproduction(
    name="implicit_bias/memorisation",
    title="Best validation accuracy when labels are wrong",
    where="Figure 8",
    scales={
        "smoke": Setting(_mislabelled(ALL_DIGITS, 0.0, 0.5), {**AXIS, "curvature": 4}),
        "small": Setting(_mislabelled(LONGER_FEW, *WRONG), {**AXIS, **RATES, "tuned_at": {"wrong_labels": 0.0}}),
        "paper": Setting(
            (*_mislabelled(LONGER, *WRONG), *_mislabelled(replace(CIFAR, epochs=32), *WRONG)), {**AXIS, **RATES}
        ),
    },
    measure=measure,
    claims=(
        Claim("Its lead in the best validation accuracy is larger when labels are wrong", gains, Above()),
        Claim(
            "The loss is less curved around what it learns by heart (Eq. 62)", log_ratios, Below(), unit="powers of ten"
        ),
    ),
    tables=tables,
    figures=figures,
    criteria=(
        "The lead with wrong labels is compared with the same seed's with right ones; the curvature with the standard "
        "network's, by the logarithm of their ratio (+0.3 is twice), at wrongly labelled training images, or at rightly "
        "labelled ones where none is wrong."
    ),
    departs=(
        f"{CHOSEN} Wrong labels are never the right one by chance; held-out labels are right. 32 epochs. Beside the "
        "accuracies stands the curvature of the loss at training images, with the labels they were given, when training "
        "ends. Small: Fashion-MNIST alone and a fifth of its training images; the rate is chosen with right labels "
        f"and used with every share of wrong ones. {LEARNT_ALONE}"
    ),
)
