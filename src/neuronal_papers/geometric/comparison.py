"""Methods side by side, as published and clean with one tuning budget: measurement, claims, tables and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from neuronal.data import DATASETS
from neuronal.experiments import Recipe, Record, Work, estimate
from neuronal.report import Column, Drawing, Table, table
from neuronal_papers.core import Setting, title_of
from neuronal_papers.drawing import BARS, Line, bars, chart, in_panels
from neuronal_papers.geometric.methods import DATA, METHOD, METHODS, UNITS, Row, legend, mean_of, method_of
from neuronal_papers.judge import Above, Below, Case, Claim, Result, paired
from neuronal_papers.seeds import at_chance, groups, with_error
from neuronal_papers.tuning import END_OF_LIST, at_best, best_of, end_of_list

Reported = Mapping[str, Mapping[str, tuple[float, float | None]]]
BOTH = (
    "Published: at the paper's rate, and what is chosen while training is chosen by what its code goes by. Clean: the rate "
    "is tuned, and all is chosen, on held-out data. GmP is best if it is better than every other method, seed by seed."
)


LABELS = {"rmse": "test RMSE", "accuracy": "test accuracy (%)"}
MEANS = f"Means over seeds, {BARS}."


def measure(setting: Setting, work: Work) -> dict[str, Any]:
    """Every recipe by both protocols: one row each, test results seed by seed and as a mean with its error.

    ``published`` is the recipe as it is, with the paper's rate. ``clean`` holds ``holdout`` of the training data back for
    every choice while training, tries all ``rates`` with the first ``tuning_seeds`` seeds, and trains all seeds with the
    rate that was best on the held-out data; the test data are looked at once, at the end. With ``tuning_batch`` rates
    are tried with batches of that size alone, and the best is taken for all sizes. With ``clean_seeds`` it has so many
    seeds, from 0 on, in the place of the recipe's. With ``curves`` rows have :func:`curves_of`.
    """
    options, recipes = setting.options, setting.recipes
    seeds = tuple(range(options.get("clean_seeds", 0)))
    clean = [replace(r, protocol="clean", holdout=options["holdout"], seeds=seeds or r.seeds) for r in recipes]
    tries = [_tries(one, options) for one in clean]
    work.say("as published, and rates on held-out data")
    # All at once first: there is more to divide. What differs in its name alone is tried once.
    work.records([*recipes, *{one.fingerprint(): one for every in tries for one in every}.values()])
    choices = best_of(tries, work)
    best = at_best(clean, choices)
    work.say("with the rates chosen")
    work.records(best)
    rows = []
    for recipe, own, choice in zip(recipes, best, choices, strict=True):
        as_published, tuned = (row_of(one, work, curves=options.get("curves", False)) for one in (recipe, own))
        rows += [as_published, tuned | {"tuning": [asdict(point) for point in choice.curve]}]
    return {"rows": rows}


def _tries(clean: Recipe, options: Mapping[str, Any]) -> list[Recipe]:
    """The recipe at every rate."""
    batch, seeds = options.get("tuning_batch", clean.batch_size), clean.seeds[: options["tuning_seeds"]]
    return [replace(clean, lr=lr, batch_size=batch, seeds=seeds) for lr in options["rates"]]


def row_of(recipe: Recipe, work: Work, *, curves: bool = False) -> dict[str, Any]:
    """One recipe, with all its seeds, as a row."""
    records = work.records([recipe])
    sound = [record for record in records if record.failure is None]
    row: dict[str, Any] = {
        "name": recipe.name,
        "data": recipe.data,
        "batch": recipe.batch_size,
        "method": method_of(recipe),
        "protocol": "clean" if recipe.protocol == "clean" else "published",
        "rate": recipe.lr,
        "seeds": [record.seed for record in sound],
        "failed": {str(r.seed): r.failure.reason for r in records if r.failure},
        "overlap": overlap(recipe),
    }
    if not sound:
        return row
    if "hinge_motion" in sound[0].probes:
        # Largest turn (degrees) and shift of any unit in any step, seed by seed.
        for key in ("largest_angle", "largest_distance"):
            row[key] = [record.probes["hinge_motion"][key] for record in sound]
    if "top5" in sound[0].metrics:
        row["top5"] = _results(sound, "top5")
    if curves:
        row["curves"] = curves_of(sound)
    return row | _results(sound, "rmse" if "rmse" in sound[0].metrics else "accuracy")


def _results(records: Sequence[Record], measure: str) -> dict[str, Any]:
    """Test results seed by seed, and their mean."""
    values = [record.metrics[measure] for record in records]
    return {"measure": measure, "values": values, "estimate": asdict(estimate(values))}


def overlap(recipe: Recipe) -> float:
    """Test rows per training row where seeds split the same rows; draws of a part of them have as much less in common."""
    return 0.25 * recipe.redrawn


def curves_of(records: Sequence[Record]) -> dict[str, list[list[float]]]:
    """Epoch by epoch, seed by seed: ``loss`` and ``accuracy`` of training, and those (and ``top5``) of followed data.

    Followed are the test data where a recipe is as published, and held-out data where it is clean: ``followed_loss``.
    """
    before = "holdout" if records[0].recipe.protocol == "clean" else "test"
    columns = {"loss": "loss", "accuracy": "accuracy"}
    columns |= {f"followed_{name}": f"{before}_{name}" for name in ("loss", "accuracy", "top5")}
    return {
        name: [[float(f"{epoch[column]:.4g}") for epoch in record.epochs] for record in records]
        for name, column in columns.items()
        if all(column in epoch for record in records for epoch in record.epochs)
    }


def by_seed(row: Row, key: str = "values") -> dict[int, Any]:
    """What a row has of each seed that did not fail."""
    return dict(zip(row["seeds"], row.get(key, ()), strict=True))


def sample(own: Row, other: Row, label: str) -> Case:
    """The first method less the second, seed by seed, in the unit of the measure; a run that failed counts as one at chance.

    Errors have no chance level: where a run failed, such a sample decides nothing.
    """
    failed = [f"{row['method']} failed with seeds {', '.join(row['failed'])}" for row in (own, other) if row["failed"]]
    measure = own.get("measure") or other.get("measure")
    values = paired(_values(own), _values(other), UNITS[measure][0]) if measure else ()
    return Case(label, values, own.get("overlap", 0.0), "; ".join(failed), is_open=measure == "rmse" and bool(failed))


def _values(row: Row) -> dict[int, float]:
    """Results by seed, in their order; an accuracy of a run that failed is that of guessing."""
    values, classes = by_seed(row), DATASETS[row["data"]].num_classes
    if classes and row["failed"]:
        values = at_chance(values, map(int, row["failed"]), 1 / classes)
    return dict(sorted(values.items()))


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
    best: str, text: str, protocol: str, *keys: str, of: str = "rows", errors: bool = False, beyond_paper: bool = False
) -> Claim:
    """The claim that a method is better than every other by one protocol."""

    def cases(result: Result) -> list[Case]:
        return leads([row for row in result["result"][of] if row["protocol"] == protocol], best, *keys)

    side, unit, digits = (Below(), "RMSE", "+.3f") if errors else (Above(), "points", "+.2f")
    unit = f"{unit}, {best} less the other"
    return Claim(f"{text} ({protocol})", cases, side, unit, digits, beyond_paper=beyond_paper)


def is_best_by_both(best: str, text: str, **options: Any) -> tuple[Claim, Claim]:
    """The same by either protocol."""
    return is_best(best, text, "published", **options), is_best(best, text, "clean", **options)


def tables(result: Result) -> list[Table]:
    """One line per set, batch and method: reported, published and clean; others for top-5 accuracies and rates tried."""
    rows, reported = result["result"]["rows"], result["reported"]
    found = [_protocols(title_of(result), rows, reported)]
    if any("top5" in row for row in rows):
        five = [{**row, **row.get("top5", {}), "measure": "top5"} for row in rows]
        found += [_protocols("Top-5 accuracy", five, reported.get("top5", {})), _tried(rows, result["options"])]
    return found


def _protocols(title: str, rows: Sequence[Row], reported: Reported) -> Table:
    measure = next((row["measure"] for row in rows if "measure" in row), "rmse")
    lines = [{row["protocol"]: row for row in own} for own in groups(rows, "data", "batch", "method").values()]

    def in_paper(line: Row) -> str:
        row = line["published"]
        of = reported[row["data"]] if row["data"] in reported else reported[str(row["batch"])]
        return with_error(*of[row["method"]], *UNITS[measure]) or ""

    def place(line: Row) -> str:
        return f"{line['clean']['data']}" + f", {line['clean']['batch']}" * (measure != "rmse")

    columns = [
        Column("data", place, is_text=True),
        Column("method", lambda line: line["clean"]["method"], is_text=True),
        # Without numbers of the same data there is nothing to put beside ours.
        *([Column("reported", in_paper)] if reported else []),
        Column("published", lambda line: mean_of(line["published"])),
        Column("its rate", lambda line: format(line["published"]["rate"], "g")),
        Column("clean", lambda line: mean_of(line["clean"])),
        Column("its rate", lambda line: format(line["clean"]["rate"], "g") + _end(line["clean"])),
        Column("failed", lambda line: sum(len(row["failed"]) for row in line.values())),
    ]
    what = {"accuracy": "accuracy (%)", "top5": "top-5 accuracy (%)"}.get(measure, "RMSE")
    caption = (
        f"test {what}, mean ± standard error over seeds; published: at the paper's rate, choices while training by what its "
        f"code goes by; clean: the rate is tuned, and all is chosen, on held-out data; {legend(rows)}"
        f"{END_OF_LIST if any(_end(line['clean']) for line in lines) else ''}"
    )
    return table(title, columns, lines, caption)


def _end(row: Row) -> str:
    return end_of_list(row["rate"], [point["value"] for point in row["tuning"]])


def _tried(rows: Sequence[Row], options: Mapping[str, Any]) -> Table:
    """What held-out data say of every rate tried: one line per method, and per batch size where each has its own."""
    lines = {}
    for row in (row for row in rows if row["protocol"] == "clean"):
        place = row["data"] + f", {row['batch']}" * ("tuning_batch" not in options)
        line = {"data": place, "method": row["method"]}
        for point in row["tuning"]:
            line[f"{point['value']:g}"] = "failed" if point["failed"] else with_error(point["mean"], None)
        lines[place, row["method"]] = line
    rates = [f"{rate:g}" for rate in options["rates"]]
    caption = (
        "accuracy (%) on held-out data by learning rate, the highest of which is taken for clean; failed: the loss became "
        "infinite or no number"
    )
    return table("Rates tried", [DATA, METHOD, *(Column(rate, rate) for rate in rates)], lines.values(), caption)


def figures(result: Result) -> list[Drawing]:
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
        bars(axes, Line(list(METHODS).index(row["method"]), row["method"], [number], _estimates([row]), ""))
    axes.set(title=title, xlim=(-0.7, len(rows) - 0.3), xticks=[])
    if axes.get_subplotspec().is_first_col():
        axes.set(ylabel=LABELS[rows[0]["measure"]])


def _estimates(rows: Sequence[Row]) -> list[list[float]]:
    """Means of rows, and their errors."""
    factor, of = UNITS[rows[0].get("measure", "rmse")][0], [row["estimate"] for row in rows]
    return [[factor * one["mean"] for one in of], [factor * (one["standard_error"] or 0) for one in of]]


def over(name: str, title: str, rows: Sequence[Row], series: str, x: str, **settings: Any) -> Drawing:
    """Means over a number of theirs, a line for each of a ``series``; the lines a little apart, to tell bars apart."""
    lines = [
        Line(number, label, [row[x] * 1.04**number for row in own], _estimates(own))
        for number, ((label,), own) in enumerate(groups(rows, series).items())
    ]
    settings = {"xscale": "log", "xlabel": x, "ylabel": LABELS[rows[0].get("measure", "rmse")], **settings}
    return chart(name, title, lines, settings, MEANS, draw=bars)
