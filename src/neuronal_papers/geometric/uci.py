"""Table 3: regression on six tables of the UCI repository with one hidden layer."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import log10
from statistics import fmean

from neuronal_papers.core import Reproduction, Setting
from neuronal_papers.geometric.comparison import figures, measure, sample, tables
from neuronal_papers.geometric.methods import FOUR, HALF, SHALLOW, SMOKE, TUNED, TUNING, Row, by
from neuronal_papers.judge import Below, Case, Claim, Pooled, Result, Within

UCI = replace(SHALLOW, scaling="standardise_inputs", redrawn=1.0, loss="absolute", batch_size=1024)
SETS = ("boston", "concrete", "energy", "power", "wine", "yacht")
RECIPES = tuple(one for data in SETS for one in by(replace(UCI, name=data, data=data), *FOUR))
LEVY = replace(UCI, name="levy", data="levy", redrawn=0.0, epochs=3, seeds=(0, 1))
# Powers of ten: the list of rates has two steps in each, so that ten times is one step too little to one too much.
ONE_STEP = 0.5
# Percent of a reported error. Our splits are others than the authors', and split by split errors differ by more.
CLOSE = 10.0


def _by_set(result: Result, protocol: str, *methods: str) -> dict[str, list[Row]]:
    """Set by set the rows of methods that all have results there."""
    rows = {
        (row["data"], row["method"]): row
        for row in result["result"]["rows"]
        if row["protocol"] == protocol and "values" in row
    }
    sets = {data: [rows[data, name] for name in methods if (data, name) in rows] for data, _ in rows}
    return {data: own for data, own in sets.items() if len(own) == len(methods)}


def lower_errors(result: Result, protocol: str) -> list[Pooled]:
    """GmP less each other method, over all sets together in standard deviations of the differences."""
    pooled = []
    for other in FOUR[:-1]:
        samples = [sample(own, row, data) for data, (own, row) in _by_set(result, protocol, "GmP", other).items()]
        note = f"lower mean on {sum(fmean(one.values) < 0 for one in samples)} of {len(samples)} sets"
        failed = [f"{one.label}: {one.note}" for one in samples if one.note]
        pooled.append(Pooled(other, samples, "; ".join([note, *failed]), is_open=bool(failed)))
    return pooled


def tuned_rates(result: Result) -> list[Case]:
    """Powers of ten between the tuned rate of GmP and that of each other method, set by set."""
    pairs = {other: _by_set(result, "clean", "GmP", other).values() for other in FOUR[:-1]}
    return [Case(other, [log10(a["rate"] / b["rate"]) for a, b in sets]) for other, sets in pairs.items()]


def from_reported(result: Result) -> list[Case]:
    """By how many percent errors differ from those reported, in the mean over the sets, split by split."""
    cases = []
    for method in FOUR if result["reported"] else ():
        percent = {
            data: [100 * (value / result["reported"][data][method][0] - 1) for value in row["values"]]
            for data, (row,) in _by_set(result, "published", method).items()
        }
        furthest = max(percent, key=lambda name: abs(fmean(percent[name])))
        note = f"furthest {furthest} {fmean(percent[furthest]):+.0f}"
        cases.append(Case(method, [fmean(one) for one in zip(*percent.values(), strict=False)], UCI.redrawn / 4, note))
    return cases


_lower = partial(Claim, side=Below(), unit="standard deviations, GmP less the other")
CLAIMS = (
    *(
        _lower(
            f"GmP has a lower RMSE than every other method, over all sets together ({protocol})",
            partial(lower_errors, protocol=protocol),
        )
        for protocol in ("published", "clean")
    ),
    Claim(
        "The best rate of GmP is ten times that of every other method (clean)",
        tuned_rates,
        Within(ONE_STEP, centre=1.0),
        unit="powers of ten, GmP less the other",
        per="set",
    ),
    Claim(
        "Errors are those reported (published)",
        from_reported,
        Within(CLOSE),
        unit="percent of the reported RMSE",
        digits="+.0f",
    ),
)

TABLE3 = Reproduction(
    name="geometric/uci",
    title="Regression on six tables, one hidden layer of 100 units",
    where="Table 3",
    scales={
        "smoke": Setting(by(LEVY, *FOUR), SMOKE),
        "small": Setting(RECIPES, TUNING | {"tuning_seeds": 3}),
        "paper": Setting(RECIPES, TUNING),
    },
    measure=measure,
    claims=CLAIMS,
    tables=tables,
    figures=figures,
    criteria=(
        "The paper has GmP best on every set. Ten splits of one set can show no difference below 1.7 standard deviations, "
        "so the sets are pooled: the mean of the differences, each in its own standard deviations. Where a run failed the "
        "claim stays open, as errors have no chance level. Ten times is between three and thirty times: half a power of ten "
        "to either side, as the list of rates has two in each power. Errors are those reported if, in the mean over the "
        f"sets, they lie within {CLOSE:g} percent."
    ),
    reported={
        "boston": {"SP": (3.370, 0.145), "WN": (3.459, 0.156), "BN": (3.469, 0.153), "GmP": (3.057, 0.144)},
        "concrete": {"SP": (5.472, 0.144), "WN": (5.952, 0.148), "BN": (5.695, 0.160), "GmP": (5.153, 0.098)},
        "energy": {"SP": (0.898, 0.274), "WN": (2.093, 0.789), "BN": (1.648, 0.302), "GmP": (0.474, 0.013)},
        "power": {"SP": (4.065, 0.029), "WN": (4.073, 0.026), "BN": (4.164, 0.026), "GmP": (4.022, 0.025)},
        "wine": {"SP": (0.623, 0.008), "WN": (0.632, 0.008), "BN": (0.622, 0.011), "GmP": (0.613, 0.006)},
        "yacht": {"SP": (0.639, 0.063), "WN": (0.624, 0.076), "BN": (0.777, 0.055), "GmP": (0.584, 0.046)},
    },
    departs=(
        "Published: early stopping and rate cuts by the test set, as in the authors' code, and its batches of 1,024, which "
        "are not full for power and wine. Splits are drawn by our seeds 0 to 9; numbers are of 32 bits, theirs of 64; the "
        "output layer is plain for every method, theirs has weight norm with WN; batch norm is torch's (momentum 0.1, "
        "epsilon 1e-5). Clean: a fifth of the training rows decides all, so that networks see 64% of the rows and not 80%, "
        "and are not trained again on all of these; every method's rate is tuned, on the paper's list and 1, as several do "
        "best at its end. What is held out in one split can be for testing in another. Small: all of it, but rates tuned on "
        f"3 splits of the ten. {TUNED} {HALF}"
    ),
)
