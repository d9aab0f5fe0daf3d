"""One start for layers of every size: signals at the start, and what training makes of it (Section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from neuronal.data.catalogue import load
from neuronal.experiments.compare import difference, estimate
from neuronal.experiments.procedures.finding import Finding, all_or_some, ours
from neuronal.experiments.protocols import overlap
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.run import drawn, network
from neuronal.geometry.trace import outputs

if TYPE_CHECKING:
    from neuronal.experiments.work import Work

STEADY = 1.5
"""Factor over all widths within which signals are called independent of the width."""
WORSE = 1.2
"""Factor over the least error from which on a network is said to train worse."""
ALIKE = 1.05
"""Factor over the other's error up to which a start does as well as the other."""


JUDGED = (
    "A signal does not depend on the width if the largest is at most 1.5 times the smallest; the widest network trains as "
    "well if its error is at most 1.2 times the least and no seed fails. A start does as well as another at a width if "
    "the paired 95% interval of the difference, corrected for the number of widths and for splits of the same rows, ends "
    "at no more than 5% of the other's error; shown if so at every width. The paper compares with no start of deviation "
    "1, nor GmP's start with Glorot's: that is ours."
)


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


def findings(answer: Mapping[str, Any]) -> list[Finding]:
    """Of every start: whether signals know the width, and whether the widest network trains as well as any other.

    And of ours, whether the start that knows no width does as well as Glorot's, which does.
    """
    rows = [row for row in answer["result"]["rows"] if "estimate" in row]
    found = []
    for start in dict.fromkeys(row["start"] for row in rows):
        own = [row for row in rows if row["start"] == start]
        # Glorot's start knows the size of the layers; the paper claims that geometric units need not.
        if "Glorot" in start or len(own) < 2:
            continue
        signals, errors = [row["signal"] for row in own], [row["estimate"]["mean"] for row in own]
        does = start.startswith("GmP")
        same = max(signals) <= STEADY * min(signals)
        trains = errors[-1] <= WORSE * min(errors) and not any(row["failed"] for row in own)
        widest = [f"{row['start']} {row['estimate']['mean']:.3g}" for row in rows if row["width"] == own[-1]["width"]]
        both = [
            Finding(
                f"{start}: the signal at the start {'does not depend' if does else 'depends'} on the width",
                "reproduced" if same == does else "not reproduced",
                f"{min(signals):.2g} to {max(signals):.2g} over widths {own[0]['width']} to {own[-1]['width']}",
            ),
            Finding(
                f"{start}: the widest network {'trains as well as' if does else 'trains worse than'} narrower ones",
                "reproduced" if trains == does else "not reproduced",
                f"test RMSE {errors[-1]:.3g} at {own[-1]['width']}, least {min(errors):.3g}; all at that width: "
                f"{', '.join(widest)}",
            ),
        ]
        # The paper says of others that they are sensitive, not that anybody starts them with deviation 1.
        found += both if does else [ours(one) for one in both]
    return found + _against_glorot(rows)


def _against_glorot(rows: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """GmP less Glorot's start, seed by seed, width by width."""
    glorot, geometric = (
        {row["width"]: row for row in rows if is_it(row["start"])}
        for is_it in (lambda start: "Glorot" in start, lambda start: start.startswith("GmP"))
    )
    widths = [width for width in glorot if width in geometric]
    texts, good, worse = [], 0, []
    for width in widths:
        one, other = (_by_seed(every[width]) for every in (geometric, glorot))
        if not one.keys() & other.keys():
            continue
        gap = difference(one, other, comparisons=len(widths), overlap=glorot[width]["overlap"])
        good += gap.high is not None and gap.high <= (ALIKE - 1) * fmean(other.values())
        worse += [str(width)] if gap.is_shown and gap.mean > 0 else []
        interval = "no interval" if gap.low is None else f"{gap.low:+.2f} to {gap.high:+.2f}"
        texts.append(f"{gap.mean:+.2f} ({interval}) at {width}")
    if not texts:
        return []
    start, reference = geometric[widths[0]]["start"], glorot[widths[0]]["start"]
    claim = f"{start}, does as well as {reference}, at every width"
    numbers = f"difference of the test RMSE, seed by seed: {', '.join(texts)}"
    numbers += f"; ends within 5% at {good} of {len(texts)} widths"
    numbers += f"; larger beyond chance at {', '.join(worse)}" if worse else ""
    return [ours(Finding(claim, all_or_some(good, len(texts)), numbers))]


def _by_seed(row: Mapping[str, Any]) -> dict[int, float]:
    return dict(zip(row["seeds"], row["values"], strict=True))
