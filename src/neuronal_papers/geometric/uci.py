"""Table 3 and Section 4.3: regression on tables of the UCI repository, and one start for layers of every size."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import log10
from statistics import fmean

from neuronal.core.records import to_json
from neuronal.data import load
from neuronal.experiments import Recipe, Work, drawn, estimate, network
from neuronal.geometry import outputs
from neuronal.report import Column, Figure
from neuronal_papers.core import Measured, Reproduction, Setting, one_table, settings
from neuronal_papers.geometric import comparison
from neuronal_papers.geometric.comparison import FOUR, POWERS, PROTOCOLS, SHALLOW, WEAK, by, by_seed, leads
from neuronal_papers.judge import Below, Case, Claim, Evidence, Fact, Pooled, Result, Within, paired
from neuronal_papers.seeds import groups, rows_of

UCI = replace(SHALLOW, scaling="standardise_inputs", redrawn=1.0, loss="absolute", batch_size=1024)
SETS = ("boston", "concrete", "energy", "power", "wine", "yacht")
RECIPES = tuple(one for data in SETS for one in by(replace(UCI, name=data, data=data), *FOUR))
LEVY = replace(UCI, name="levy", data="levy", redrawn=0.0, epochs=3, seeds=(0, 1))
# Powers of ten: the list of rates has two steps in each, so that ten times is one step too little to one too much.
TEN_TIMES = Within(0.5, centre=1.0)
# Percent of a reported error. Our splits are others than the authors', and split by split errors differ by more.
CLOSE = 10.0


def lower_errors(result: Result, protocol: str) -> list[Pooled]:
    """GmP less each other method, over all sets together in standard deviations of the differences."""
    pooled = []
    for other in FOUR[:-1]:
        rows = [row for row in rows_of(result, protocol=protocol) if row["method"] in ("GmP", other)]
        samples = leads([row for row in rows if "values" in row], "GmP")
        note = f"lower mean on {sum(fmean(one.values) < 0 for one in samples)} of {len(samples)} sets"
        failed = [f"{one.label}: {one.note}" for one in samples if one.note]
        pooled.append(Pooled(other, samples, "; ".join([note, *failed]), is_open=bool(failed)))
    return pooled


def tuned_rates(result: Result) -> list[Case]:
    """Powers of ten between the tuned rate of GmP and that of each other method, set by set."""
    rows = groups((row for row in rows_of(result, protocol="clean") if "values" in row), "method").items()
    rates = {method: {row["data"]: log10(row["rate"]) for row in own} for (method,), own in rows}
    return [Case(other, paired(rates.get("GmP", {}), rates[other])) for other in FOUR[:-1] if other in rates]


def from_reported(result: Result) -> list[Case]:
    """By how many percent errors differ from those reported, in the mean over the sets, split by split."""
    cases, reported = [], result["reported"]
    rows = [row for row in rows_of(result, protocol="published") if "values" in row and reported]
    for (method,), own in groups(rows, "method").items():
        percent = [[100 * (value / reported[row["data"]][method][0] - 1) for value in row["values"]] for row in own]
        cases.append(Case(method, [fmean(split) for split in zip(*percent, strict=False)], UCI.redrawn / 4))
    return cases


LOWER = "GmP has a lower RMSE than every other method, over all sets together"
DEVIATIONS = "standard deviations, GmP less the other"
TABLE3 = comparison.compared(
    name="geometric/uci",
    title="Regression on six tables, one hidden layer of 100 units",
    where="Table 3",
    scales=comparison.scales_of(RECIPES, by(LEVY, *FOUR)),
    claims=(
        *(Claim(f"{LOWER} ({name})", partial(lower_errors, protocol=name), Below(), DEVIATIONS) for name in PROTOCOLS),
        Claim("The best rate of GmP is ten times every other's (clean)", tuned_rates, TEN_TIMES, POWERS, per="set"),
        Claim("Errors are those reported (published)", from_reported, Within(CLOSE), "percent of the paper's", "+.0f"),
    ),
    criteria=(
        "The paper has GmP best on every set. Ten splits of one set show no difference below 1.7 standard deviations, "
        "so sets are pooled: the mean of differences, each in its own standard deviations. A run that failed leaves the "
        "claim open, as errors have no chance level. Ten times is between three and thirty times: the list has two "
        f"rates per power of ten. Errors are those reported if within {CLOSE:g} percent in the mean over the sets."
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
        "output layer is plain, theirs has weight norm with WN; batch norm is torch's (momentum 0.1, epsilon 1e-5). Clean: "
        "a fifth of the training rows decides all, and networks are not trained again on these: they see 64% of the rows, "
        "not 80%. Rates are those of the paper's list and 1, as several methods do best at its end. What is held out in "
        f"one split can be for testing in another. Small: rates are tuned on 3 splits of the ten. {WEAK}"
    ),
)

# Section 4.3

WIDE = replace(UCI, data="boston", protocol="clean", model="fcn", epochs=100, cut_after=0, stop_after=0, lr=0.01)
NORMAL = replace(WIDE, name="SP, deviation 1", model_options={"start": "normal"})
SCALE_1 = {"start": "normal", "outside": True}
GEOMETRIC = replace(WIDE, name="GmP, scale 1", family="geometric", norm="none", model_options=SCALE_1)
STARTS = (replace(WIDE, name="SP, Glorot"), NORMAL, GEOMETRIC)
ALL = {"widths": (10, 30, 100, 300, 1000)}
# A signal is steady if the largest is at most so many times the smallest.
STEADY = 1.5
# Percent of error: less than this worse is no worse.
WORSE = 20.0


def measure_starts(setting: Setting, work: Work) -> Measured:
    """Every recipe at every one of ``widths``, two hidden layers of that width: signal at the start, test result."""
    recipes = [replace(one, widths=(width, width)) for one in setting.recipes for width in setting.options["widths"]]
    rows = []
    for recipe, row in zip(recipes, comparison.rows_for(recipes, work), strict=True):
        signal = estimate([_signal(recipe, seed) for seed in recipe.seeds])
        place = {"start": recipe.name, "width": recipe.widths[0], "failed": len(row.failed)}
        rows.append(to_json(row) | place | {"signal": signal.mean, "signal_error": signal.standard_error})
    return {"rows": rows}


def _signal(recipe: Recipe, seed: int) -> float:
    """Root mean square of what the last hidden layer puts out before training."""
    data = drawn(load(recipe.data), recipe, seed)
    features = network(recipe, data, seed).features
    return float(outputs(features, data.train.x).double().square().mean().sqrt())  # type: ignore[arg-type]


def signals(result: Result) -> Evidence:
    """Whether the largest signal of geometric units is within a factor of the smallest."""
    values = {row["width"]: row["signal"] for row in rows_of(result, start=GEOMETRIC.name)}
    numbers = ", ".join(f"{value:.3g} at {width}" for width, value in values.items())
    return Evidence(len(values), int(max(values.values()) > STEADY * min(values.values())), numbers)


def widest(result: Result) -> list[Case]:
    """By how many percent of a narrower network's error the widest is worse, seed by seed."""
    *rows, own = sorted(rows_of(result, start=GEOMETRIC.name), key=lambda row: row["width"])
    cases = []
    for row in rows:
        other, failed = by_seed(row), own["failed"] + row["failed"]
        values = paired(by_seed(own), other, 100 / fmean(other.values()) if other else 1.0)
        note = f"{failed} runs failed" * bool(failed)
        cases.append(Case(f"than {row['width']}", values, own["overlap"], note, is_open=bool(failed)))
    return cases


COLUMNS = (
    Column("start", "start", is_text=True),
    Column("width", "width"),
    Column("signal at the start", "signal", ".3g"),
    Column("test RMSE", comparison.mean_of),
    Column("failed", "failed"),
)


def start_figures(result: Result) -> list[Figure]:
    name, rows = result["reproduction"], [row for row in result["result"]["rows"] if "estimate" in row]
    signals = [{**row, "estimate": {"mean": row["signal"], "standard_error": row["signal_error"]}} for row in rows]
    labels = {"ylabel": "signal at the start", "yscale": "log"}
    return [
        comparison.over(f"{name}-signal", "Signal at the start", signals, "start", "width", **labels),
        comparison.over(f"{name}-rmse", "Test RMSE", rows, "start", "width"),
    ]


UNIT = "percent of the other's RMSE"
ON_LEVY = tuple(replace(one, data="levy", redrawn=0.0, epochs=2, seeds=(0,)) for one in STARTS)
INITIALISATION = Reproduction(
    name="geometric/initialisation",
    title="One start for layers of every size",
    where="Section 4.3",
    scales=settings((ON_LEVY, STARTS), ({"widths": (4, 8)}, ALL)),
    measure=measure_starts,
    claims=(
        Fact("GmP, scale 1: the signal at the start does not depend on the width", signals),
        Claim("GmP, scale 1: the widest network trains as well as narrower ones", widest, Below(WORSE), UNIT, "+.0f"),
    ),
    tables=one_table(COLUMNS, "signal: root mean square of what the last hidden layer puts out before training"),
    figures=start_figures,
    criteria=(
        f"A signal does not depend on the width if the largest is at most {STEADY:g} times the smallest. The widest network "
        f"trains as well if no run failed and its error is less than {WORSE:g} percent above that of every narrower one."
    ),
    departs=(
        "The paper argues and shows no numbers; other starts are ours. Two hidden layers, so that the second has as many "
        "inputs as units; 100 epochs of Adam at 0.01 for all; the output layer starts as Glorot's everywhere."
    ),
)
