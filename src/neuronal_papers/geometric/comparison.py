"""The methods Chen & Ge compare, as published and clean with one tuning budget: measurement, claims, tables and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from neuronal.data import DATASETS
from neuronal.experiments import Estimate, Point, Recipe, Record, Work, estimate
from neuronal.probes import Motion
from neuronal.report import Column, Figure, Table, table
from neuronal_papers.core import Measured, Options, Recipes, Reproduction, Scales, Setting, settings, title_of
from neuronal_papers.drawing import BARS, Line, bars, chart, in_panels
from neuronal_papers.judge import Above, Below, Case, Claim, Result, paired
from neuronal_papers.seeds import Row, at, at_chance, groups, rows_of, with_error
from neuronal_papers.tuning import END_OF_LIST, at_best, best_of, choices, end_of_list, runs_of

METHODS = {
    "SP": ("standard", "none", "standard units"),
    "WN": ("standard", "weight_alone", "weight norm"),
    "WN+MBN": ("standard", "weight", "weight norm with mean-only batch norm"),
    "BN": ("standard", "batch", "batch norm"),
    "GmP": ("geometric", "none", "geometric units"),
    "GmP+IMN": ("geometric", "input_mean", "geometric units with input mean norm"),
}
"""Neuron and norm of each method, and what its short name stands for."""
CONTROLS = {
    "SP+IMN": ("standard", "input_mean", "standard units with input mean norm"),
    "WN+IMN": ("standard", "weight_input_mean", "weight norm with input mean norm"),
}
"""What the paper leaves out: the norm of GmP+IMN around units of other kinds."""
EVERY = METHODS | CONTROLS
FOUR = ("SP", "WN", "BN", "GmP")
RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""For every method: the paper's list (Appendix C), and 1, as several do best at its end."""
PUBLISHED = Recipe("", holdout=0.0, protocol="published", model_options={"start": "glorot"}, probes=())
SHALLOW = replace(PUBLISHED, model="mlp1", epochs=5000, cut_after=50, stop_after=100, seeds=tuple(range(10)))
"""What the authors' networks with one hidden layer have in common."""
TUNED = "Weak: rates are tuned with some of the seeds that are reported, for every method alike, on held-out data."
"""What is weak wherever both protocols are measured."""
WEAK = (
    f"{TUNED} Units of GmP start as the authors' code has them: from Glorot's weights, with directions in the half of the "
    "space where the last coordinate is positive and their norms as scales, where Section 4.3 has scales of 1."
)
"""The same where networks start as published."""
UNITS = {"rmse": (1.0, ".3f"), "accuracy": (100.0, ".2f"), "top5": (100.0, ".2f")}
"""Factor and format a measure is written with."""
LABELS = {"rmse": "test RMSE", "accuracy": "test accuracy (%)", "top5": "test top-5 accuracy (%)"}
PROTOCOLS = ("published", "clean")
PAPERS = "published: at the paper's rate, choices while training by what its code goes by; "
BOTH = "GmP is best if it is better than every other method, seed by seed."
POWERS = "powers of ten, GmP less the other"
MEANS = f"Means over seeds, {BARS}."


def by(recipe: Recipe, *methods: str, rate: float | None = None, outside: bool = True) -> tuple[Recipe, ...]:
    """The recipe by each method.

    ``rate`` is that of all, in place of the published ones; ``outside`` is where units of GmP have their scale.
    """
    recipes = []
    for method in methods:
        neuron, norm, _ = EVERY[method]
        published = 0.1 if "GmP" in method else 0.01
        own = replace(recipe, name=f"{recipe.name} {method}", family=neuron, norm=norm, lr=rate or published)
        options = {"outside": True} if outside and "GmP" in method else {}
        recipes.append(replace(own, model_options=dict(recipe.model_options) | options))
    return tuple(recipes)


def scales_of(recipes: Recipes, smoke: Recipes, **options: object) -> Scales:
    """The scales of networks that are small in the paper: scale small only tries rates with fewer seeds."""
    options = {"rates": RATES, "holdout": 0.2, "tuning_seeds": 10, **options}
    few = options | {"rates": (0.01, 0.1), "tuning_seeds": 1}
    return settings((smoke, recipes), (few, options | {"tuning_seeds": 3}, options))


def method_of(recipe: Recipe) -> str:
    """The paper's name of the recipe's neuron and norm; the recipe's own where it is none of these methods."""
    names = {(neuron, norm): name for name, (neuron, norm, _) in EVERY.items()}
    return names.get((recipe.family, recipe.norm), recipe.name)


def legend(rows: Iterable[Row]) -> str:
    """What the short names of the rows' methods stand for."""
    return ", ".join(f"{name} {EVERY[name][2]}" for name in dict.fromkeys(row["method"] for row in rows))


def mean_of(row: Row) -> str | None:
    """The mean of a row with its standard error; nothing where all seeds failed."""
    over_seeds = row.get("estimate", {})
    return with_error(over_seeds.get("mean"), over_seeds.get("standard_error"), *UNITS[row.get("measure", "rmse")])


DATA, METHOD = Column("data", "data", is_text=True), Column("method", "method", is_text=True)
RATE, TEST = Column("rate", "rate", "g"), Column("test", mean_of)
FAILED = Column("failed", lambda row: len(row["failed"]))


def measure(setting: Setting, work: Work) -> Measured:
    """Every recipe by both protocols: one row each, test results seed by seed and as a mean with its error.

    ``published`` is the recipe as it is, with the paper's rate. ``clean`` holds ``holdout`` of the training data back for
    every choice while training, tries all ``rates`` with the first ``tuning_seeds`` seeds, and trains all seeds with the
    rate that was best on the held-out data; the test data are looked at once, at the end. With ``tuning_batch`` rates
    are tried with batches of that size alone, and the best is taken for all sizes. With ``clean_seeds`` it has so many
    seeds, from 0 on, in the place of the recipe's.
    """
    options, recipes = setting.options, setting.recipes
    seeds = tuple(range(options.get("clean_seeds", 0)))
    clean = [replace(r, protocol="clean", holdout=options["holdout"], seeds=seeds or r.seeds) for r in recipes]
    tries = []
    for one in clean:
        size, few = options.get("tuning_batch", one.batch_size), one.seeds[: options["tuning_seeds"]]
        tries.append([replace(one, batch_size=size, seeds=few, lr=lr) for lr in options["rates"]])
    work.say("as published, and rates on held-out data")
    # All at once first: there is more to divide. What differs in its name alone is tried once.
    work.records([*recipes, *{one.fingerprint(): one for every in tries for one in every}.values()])
    chosen = best_of(tries, work)
    best = at_best(clean, chosen)
    work.say("with the rates chosen")
    rows = []
    for published, own, choice in zip(rows_for(recipes, work), rows_for(best, work), chosen, strict=True):
        rows += [published, replace(own, tuning=choice.curve)]
    return {"rows": rows}


def measure_clean(setting: Setting, work: Work) -> Measured:
    """Recipes of the clean protocol alone, each at a rate chosen as :func:`neuronal_papers.tuning.tuned` says."""
    chosen = choices(setting, work)
    best = at_best(setting.recipes, chosen)
    rows = zip(rows_for(best, work), chosen, strict=True)
    return {"rows": [replace(row, tuning=choice.curve) if choice else row for row, choice in rows]}


@dataclass(frozen=True)
class Values:
    """Test results seed by seed, and their mean."""

    measure: str
    values: Sequence[float]
    estimate: Estimate


@dataclass(frozen=True, kw_only=True)
class Method:
    """One recipe with all its seeds: why some failed, and what came of the others."""

    data: str
    batch: int
    method: str
    protocol: str
    rate: float
    seeds: Sequence[int]
    failed: Mapping[str, str]
    overlap: float
    """Test rows per training row where seeds split the same rows; draws of a part of them have less in common."""
    largest_angle: Sequence[float] | None = None
    """Largest turn of any unit in any step, in degrees, seed by seed; and its largest shift."""
    largest_distance: Sequence[float] | None = None
    curves: Mapping[str, Sequence[Sequence[float]]] | None = None
    """Epoch by epoch, seed by seed; followed are the test data where a recipe is as published, else held-out data."""
    top5: Values | None = None
    measure: str | None = None
    values: Sequence[float] | None = None
    estimate: Estimate | None = None
    tuning: Sequence[Point] | None = None


def rows_for(recipes: Sequence[Recipe], work: Work) -> list[Method]:
    """A row for each recipe, with all its seeds."""
    return [_row(*run) for run in runs_of(recipes, work)]


def _row(recipe: Recipe, sound: Sequence[Record], failed: Mapping[str, str]) -> Method:
    row = Method(
        data=recipe.data,
        batch=recipe.batch_size,
        method=method_of(recipe),
        protocol="clean" if recipe.protocol == "clean" else "published",
        rate=recipe.lr,
        seeds=[record.seed for record in sound],
        failed=failed,
        overlap=recipe.redrawn / 4,
    )
    if not sound:
        return row
    if "hinge_motion" in sound[0].probes:
        found = [record.probe(Motion) for record in sound]
        turns, shifts = [one.largest_angle for one in found], [one.largest_distance for one in found]
        row = replace(row, largest_angle=turns, largest_distance=shifts)
    if "top5" in sound[0].metrics:
        followed = "holdout" if recipe.protocol == "clean" else "test"
        columns = ("loss", "accuracy", f"{followed}_accuracy", f"{followed}_top5")
        curves = {
            column.replace(followed, "followed"): [[float(f"{e[column]:.4g}") for e in one.epochs] for one in sound]
            for column in columns
        }
        row = replace(row, curves=curves, top5=_results(sound, "top5"))
    return replace(row, **vars(_results(sound, "rmse" if "rmse" in sound[0].metrics else "accuracy")))


def _results(records: Sequence[Record], measure: str) -> Values:
    values = [record.metrics[measure] for record in records]
    return Values(measure, values, estimate(values))


def by_seed(row: Row, key: str = "values") -> dict[int, Any]:
    """What a row has of each seed that did not fail."""
    return dict(zip(row["seeds"], row.get(key, ()), strict=True))


def sample(own: Row, other: Row, label: str) -> Case:
    """The first method less the second, seed by seed, in the unit of the measure; a run that failed counts as one at chance.

    Errors have no chance level: where a run failed, such a sample decides nothing.
    """
    failed = [f"{row['method']} failed with seeds {', '.join(row['failed'])}" for row in (own, other) if row["failed"]]
    measure, classes = own.get("measure") or other.get("measure"), DATASETS[own["data"]].num_classes

    def values(row: Row) -> dict[int, float]:
        guesses = at_chance({}, map(int, row["failed"]), 1 / classes) if classes else {}
        return dict(sorted((by_seed(row) | guesses).items()))

    differences = paired(values(own), values(other), UNITS[measure][0]) if measure else ()
    note, is_open = "; ".join(failed), measure == "rmse" and bool(failed)
    return Case(label, differences, own.get("overlap", 0.0), note, is_open=is_open)


def leads(rows: Sequence[Row], best: str, *keys: str) -> list[Case]:
    """A sample for every set, batch size (and more ``keys``) and other method: the paper's method less the other."""
    places, cases = groups(rows, "data", "batch", *keys), []
    for place, group in places.items():
        # Only what tells the groups apart is named.
        told = [str(one) for one, every in zip(place, zip(*places, strict=True), strict=True) if len(set(every)) > 1]
        methods = {row["method"]: row for row in group}
        if own := methods.pop(best, None):
            cases += [sample(own, row, ", ".join([name, *told])) for name, row in methods.items()]
    return cases


def is_best(
    best: str,
    text: str,
    *,
    errors: bool = False,
    protocols: Sequence[str] = PROTOCOLS,
    of_controls: bool = False,
    **how: Any,
) -> tuple[Claim, ...]:
    """The claims that a method is better than every other of the paper, or than the controls, one for each protocol."""

    def cases(result: Result, protocol: str) -> list[Case]:
        rows = rows_of(result, protocol=protocol)
        return leads([row for row in rows if row["method"] == best or (row["method"] in CONTROLS) == of_controls], best)

    side, unit, digits = (Below(), "RMSE", "+.3f") if errors else (Above(), "points", "+.2f")
    claim = partial(Claim, side=side, unit=f"{unit}, {best} less the other", digits=digits, **how)
    return tuple(claim(text=f"{text} ({name})", cases=partial(cases, protocol=name)) for name in protocols)


def tables(result: Result) -> list[Table]:
    """One line per set, batch and method: reported, published and clean; others for top-5 accuracies and rates tried."""
    rows, reported = result["result"]["rows"], result["reported"]
    found = [_protocols(title_of(result), rows, reported)]
    if any("top5" in row for row in rows):
        five = [{**row, **row.get("top5", {}), "measure": "top5"} for row in rows]
        found += [_protocols("Top-5 accuracy", five, reported.get("top5", {})), _tried(rows, result["options"])]
    return found


def _protocols(title: str, rows: Sequence[Row], reported: Options) -> Table:
    measure = next((row["measure"] for row in rows if "measure" in row), "rmse")
    # A line is a clean row, with the published one, where there are such.
    published, clean = ([row for row in rows if row["protocol"] == name] for name in PROTOCOLS)
    lines = [
        {**own, "published": other, "end": end_of_list(own["rate"], [one["value"] for one in own["tuning"]])}
        for own, other in zip(clean, published or [{"failed": ()}] * len(clean), strict=True)
    ]

    def in_paper(line: Row) -> str | None:
        mean, error = (reported.get(line["data"]) or reported[str(line["batch"])])[line["method"]]
        return with_error(mean, error, *UNITS[measure])

    columns = [
        Column("data", lambda line: line["data"] + f", {line['batch']}" * (measure != "rmse"), is_text=True),
        METHOD,
        # Without numbers of the same data there is nothing to put beside ours.
        *([Column("reported", in_paper)] if reported else []),
        *([Column("published", lambda line: mean_of(line["published"]))] if published else []),
        *([Column("its rate", lambda line: f"{line['published']['rate']:g}")] if published else []),
        Column("clean", mean_of),
        Column("its rate", lambda line: f"{line['rate']:g}{line['end']}"),
        Column("failed", lambda line: len(line["failed"]) + len(line["published"]["failed"])),
    ]
    caption = (
        f"{LABELS[measure]}, mean ± standard error over seeds; {PAPERS if published else ''}"
        f"clean: the rate is tuned, and all is chosen, on held-out data; {legend(rows)}"
        f"{END_OF_LIST if any(line['end'] for line in lines) else ''}"
    )
    return table(title, columns, lines, caption)


def _tried(rows: Sequence[Row], options: Options) -> Table:
    """What held-out data say of every rate tried: one line per method, and per batch size where each has its own."""
    lines, is_one_size = {}, "tuning_batch" in options or "batch_size" in options.get("tuned_at", ())
    for row in filter(at("tuning"), rows):
        place = row["data"] if is_one_size else f"{row['data']}, {row['batch']}"
        lines[place, row["method"]] = {"data": place, "method": row["method"]} | {
            f"{one['value']:g}": "failed" if one["failed"] else with_error(one["mean"], None) for one in row["tuning"]
        }
    rates = [f"{rate:g}" for rate in options["rates"]]
    caption = "accuracy (%) on held-out data; clean takes the rate with the highest; failed: the loss was not finite"
    return table("Rates tried", [DATA, METHOD, *(Column(rate, rate) for rate in rates)], lines.values(), caption)


def figures(result: Result) -> list[Figure]:
    """All methods side by side, a panel for every set or batch size; one figure per protocol."""
    drawings, rows = [], [row for row in result["result"]["rows"] if "estimate" in row]
    with_batch = len({row["batch"] for row in rows}) > 1
    for (protocol,), own in groups(rows, "protocol").items():
        places = groups(own, "data", "batch").items()
        panels = [(f"batches of {batch}" if with_batch else data, group) for (data, batch), group in places]
        # A single panel is wide enough for the legend.
        size, columns, names = ((2.1, 2.1), 3, 6) if len(panels) > 1 else ((3.0, 2.1), 1, 3)
        # Errors of different sets have nothing to do with each other; accuracies at several batch sizes do.
        shared = {"columns": columns, "legend": names, "sharey": own[0]["measure"] != "rmse"}
        name, title = f"{result['reproduction']}-{protocol}", f"{result['title']}, {protocol}"
        drawings.append(in_panels(name, title, MEANS, panels, _side_by_side, size, **shared))
    return drawings


def _side_by_side(axes: Any, panel: tuple[str, Sequence[Row]]) -> None:
    title, rows = panel
    for number, row in enumerate(rows):
        bars(axes, Line(list(EVERY).index(row["method"]), row["method"], [number], _estimates([row]), ""))
    label = LABELS[rows[0]["measure"]] * axes.get_subplotspec().is_first_col()
    axes.set(title=title, xlim=(-0.7, len(rows) - 0.3), xticks=[], ylabel=label)


def _estimates(rows: Sequence[Row]) -> list[list[float]]:
    """Means of rows, and their errors."""
    factor = UNITS[rows[0].get("measure", "rmse")][0]
    return [[factor * (row["estimate"][key] or 0) for row in rows] for key in ("mean", "standard_error")]


def over(name: str, title: str, rows: Sequence[Row], series: str, x: str, **settings: Any) -> Figure:
    """Means over a number of theirs, a line for each of a ``series``; the lines a little apart, to tell bars apart."""
    lines = [
        Line(number, label, [row[x] * 1.04**number for row in own], _estimates(own))
        for number, ((label,), own) in enumerate(groups(rows, series).items())
    ]
    settings = {"xscale": "log", "xlabel": x, "ylabel": LABELS[rows[0].get("measure", "rmse")], **settings}
    return chart(name, title, lines, settings, MEANS, draw=bars)


compared = partial(Reproduction, measure=measure, tables=tables, figures=figures)
"""A table or figure of methods side by side."""
