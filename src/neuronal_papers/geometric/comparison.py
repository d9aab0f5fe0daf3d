"""Methods side by side, as published and clean: samples for claims, table and figure of all who compare them so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log10
from statistics import median
from typing import Any

from neuronal.data import DATASETS
from neuronal.report import Column, Drawing, Table, blank, table
from neuronal_papers.core import title_of
from neuronal_papers.geometric.drawing import BARS, legend_above, means, panels
from neuronal_papers.geometric.methods import DATA, METHOD, UNITS, Row, legend, mean_of, written
from neuronal_papers.geometric.protocols import by_seed, groups_of, in_top5
from neuronal_papers.judge import Above, Below, Case, Claim, Fact, Result, Within, paired
from neuronal_papers.tuning import END_OF_LIST, end_of_list

Reported = Mapping[str, Mapping[str, tuple[float, float | None]]]
CLOSE = 1.0
"""Points of accuracy; several standard errors of the means reported for images, which are of three seeds."""

BOTH = (
    "Published: at the paper's rate, and what is chosen while training is chosen by what its code goes by. Clean: the rate "
    "is tuned, and all is chosen, on held-out data. GmP is best if it is better than every other method, seed by seed."
)


def sample(own: Row, other: Row, label: str) -> Case:
    """The first method less the second, seed by seed, in the unit of the measure; a run that failed counts as one at chance.

    Errors have no chance level: where a run failed, such a sample decides nothing.
    """
    failed = "; ".join(
        f"{row['method']} failed with seeds {', '.join(row['failed'])}" for row in (own, other) if row["failed"]
    )
    measure = own.get("measure") or other.get("measure")
    if measure is None:
        return Case(label, (), note=failed)
    values = paired(_at_chance(own, measure), _at_chance(other, measure), UNITS[measure].factor)
    return Case(label, values, own.get("overlap", 0.0), failed, is_open=measure == "rmse" and bool(failed))


def _at_chance(row: Row, measure: str) -> dict[int, float]:
    """Results by seed, in their order; an accuracy of a run that failed is that of guessing."""
    values = by_seed(row)
    if measure != "rmse" and row["failed"]:
        guess = (5 if measure == "top5" else 1) / DATASETS[row["data"]].num_classes
        values |= {int(seed): min(1.0, guess) for seed in row["failed"]}
    return dict(sorted(values.items()))


def powers(rows: Sequence[Row], best: str, key: str) -> list[Case]:
    """Powers of ten between the numbers called ``key`` of the paper's method and of each other, seed by seed."""
    values = {row["method"]: by_seed(row, key) for row in rows if key in row}
    own = values.pop(best, {})
    return [
        Case(
            name,
            [log10(own[seed] / value) for seed, value in other.items() if seed in own],
            note=f"medians {median(own.values()):.3g} and {median(other.values()):.3g}",
        )
        for name, other in values.items()
        if own
    ]


def leads(rows: Sequence[Row], best: str) -> list[Case]:
    """A sample for every set, batch size and other method: the paper's method less the other."""
    groups, cases = groups_of(rows), []
    for group in groups:
        # Only what tells the groups apart is named.
        place = [str(group[0][key]) for key in ("data", "batch") if len({one[0][key] for one in groups}) > 1]
        for own in (row for row in group if row["method"] == best):
            others = [row for row in group if row["method"] != best]
            cases += [sample(own, row, ", ".join([row["method"], *place])) for row in others]
    return cases


def is_best(best: str, text: str, protocol: str, *, errors: bool = False, five: bool = False) -> Claim:
    """The claim that a method is better than every other by one protocol."""

    def cases(result: Result) -> list[Case]:
        rows = [row for row in result["result"]["rows"] if row["protocol"] == protocol]
        return leads(in_top5(rows) if five else rows, best)

    unit, digits = ("RMSE", "+.3f") if errors else ("points", "+.2f")
    return Claim(
        f"{text} ({protocol})", cases, Below() if errors else Above(), f"{unit}, {best} less the other", digits
    )


def as_reported(margin: float, text: str) -> Claim:
    """The claim that accuracies are those the paper reports, by its own protocol, within ``margin`` points."""

    def cases(result: Result) -> list[Case]:
        found = []
        for row in result["result"]["rows"]:
            given = reported_for(row, result["reported"])
            if given and row["protocol"] == "published":
                values = _at_chance(row, "accuracy").values()
                label = row["method"] + f", {row['batch']}" * (str(row["batch"]) in result["reported"])
                found.append(Case(label, [100 * (value - given[0]) for value in values], row.get("overlap", 0.0)))
        return found

    return Claim(text, cases, Within(margin))


def where_reported(claims: Sequence[Claim], text: str) -> Callable[[Result], Sequence[Claim | Fact]]:
    """The claims, and for results on the paper's data that accuracies are those reported."""
    return lambda result: (*claims, as_reported(CLOSE, text)) if result["reported"] else claims


def reported_for(row: Row, reported: Reported) -> tuple[float, float | None] | None:
    """The paper's mean and error for the row, by data or batch, then method; no error where it is one run."""
    places = (row["data"], str(row["batch"]))
    return next((reported[one][row["method"]] for one in places if row["method"] in reported.get(one, {})), None)


def tables(result: Result) -> list[Table]:
    """One line per set, batch and method: reported, published and clean; others for top-5 accuracies and rates tried."""
    rows, reported = result["result"]["rows"], result["reported"]
    five = in_top5(rows)
    drawn = [_protocols(title_of(result), rows, reported)]
    if five:
        drawn += [_protocols("Top-5 accuracy", five, reported.get("top5", {})), _tried(rows, result.get("options", {}))]
    return drawn


def _protocols(title: str, rows: Sequence[Row], reported: Reported) -> Table:
    measure = next((row["measure"] for row in rows if "measure" in row), "rmse")
    lines: dict[tuple[str, int, str], dict[str, Row]] = {}
    for row in rows:
        lines.setdefault((row["data"], row["batch"], row["method"]), {})[row["protocol"]] = row

    def cells(own: Mapping[str, Row]) -> dict[str, Any]:
        first = next(iter(own.values()))
        given = reported_for(first, reported)
        line = {"data": first["data"] + f", {first['batch']}" * (measure != "rmse"), "method": first["method"]}
        line["reported"] = "" if given is None else written(*given, measure)
        for protocol, row in own.items():
            line |= {protocol: mean_of(row), f"{protocol} rate": f"{row['rate']:g}{_end(row)}"}
        return line | {"failed": sum(len(row["failed"]) for row in own.values())}

    columns = [
        DATA,
        METHOD,
        Column("reported", "reported"),
        Column("published", "published"),
        Column("its rate", "published rate"),
        Column("clean", "clean"),
        Column("its rate", "clean rate"),
        Column("failed", "failed"),
    ]
    # Without numbers of the same data there is nothing to put beside ours.
    if not any(reported_for(row, reported) for row in rows):
        del columns[2]
    what = {"accuracy": "accuracy (%)", "top5": "top-5 accuracy (%)"}.get(measure, "RMSE")
    caption = (
        f"test {what}, mean ± standard error over {_seeds(rows)}; published: at the paper's rate, choices while training by "
        "what its code goes by; clean: the rate is tuned, and all is chosen, on held-out data; "
        f"{legend(row['method'] for row in rows)}{END_OF_LIST if any(map(_end, rows)) else ''}"
    )
    return table(title, columns, [cells(own) for own in lines.values()], caption)


def _end(row: Row) -> str:
    return end_of_list(row["rate"], [point["value"] for point in row.get("tuning", ())])


def _seeds(rows: Sequence[Row]) -> str:
    """How many seeds there were: of each protocol, where one had more than the other."""
    counts = {row["protocol"]: 0 for row in rows}
    for row in rows:
        counts[row["protocol"]] = max(counts[row["protocol"]], len(row["seeds"]) + len(row["failed"]))
    if len(set(counts.values())) == 1:
        return f"{next(iter(counts.values()))} seeds"
    return "seeds (" + ", ".join(f"{protocol} {number}" for protocol, number in counts.items()) + ")"


def _tried(rows: Sequence[Row], options: Mapping[str, Any]) -> Table:
    """What held-out data say of every rate tried: one line per method, and per batch size where each has its own."""
    once, seeds = "tuning_batch" in options, options.get("tuning_seeds", 1)
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        place = row["data"] if once else f"{row['data']}, {row['batch']}"
        for point in row.get("tuning", ()):
            line = lines.setdefault((place, row["method"]), {"data": place, "method": row["method"]})
            text = "failed" if point["failed"] else written(point["mean"], None, "accuracy")
            line.setdefault(f"{point['value']:g}", text)
    rates = dict.fromkeys(rate for line in lines.values() for rate in line if rate not in ("data", "method"))
    caption = (
        "accuracy (%) on held-out data by learning rate, the highest of which is taken for clean; tried with "
        f"{'one seed' if seeds == 1 else f'{seeds} seeds'}"
        + (f" and batches of {options['tuning_batch']}, for all batch sizes" if once else "")
        + "; failed: the loss became infinite or no number"
    )
    return table("Rates tried", [DATA, METHOD, *(Column(rate, rate) for rate in rates)], lines.values(), caption)


def figures(result: Result) -> list[Drawing]:
    """All methods side by side, a panel for every set or batch size; one figure per protocol."""
    drawings = []
    methods = list(dict.fromkeys(row["method"] for row in result["result"]["rows"]))
    for protocol in ("published", "clean"):
        rows = [row for row in result["result"]["rows"] if row["protocol"] == protocol and "estimate" in row]
        with blank(f"{result['reproduction']}-{protocol}") as sheet:
            if rows:
                _side_by_side(sheet, rows, methods)
        own = "; every set has an axis of its own" if rows and rows[0]["measure"] == "rmse" else ""
        drawings.append(Drawing(sheet.svg, f"{result['title']}, {protocol}", f"Means over seeds, {BARS}{own}."))
    return drawings


def _side_by_side(sheet: Any, rows: Sequence[Row], methods: Sequence[str]) -> None:
    lower = rows[0]["measure"] == "rmse"
    groups = groups_of(rows)
    with_batch = len({group[0]["batch"] for group in groups}) > 1
    columns = min(3, len(groups))
    # Errors of different sets have nothing to do with each other; accuracies at several batch sizes do. A single panel
    # is wide enough for the legend.
    every = panels(sheet, len(groups), columns, (2.1 if columns > 1 else 3.0, 2.1), sharey=not lower)
    for axes, group in zip(every, groups, strict=True):
        for row in group:
            number = methods.index(row["method"])
            mean = row["estimate"]["mean"], row["estimate"]["standard_error"]
            means(axes, number, row["method"], [number], [mean], 1 if lower else 100, linestyle="")
        title = f"batches of {group[0]['batch']}" if with_batch else group[0]["data"]
        axes.set(title=title, xlim=(-0.7, len(methods) - 0.3))
        axes.set_xticks([])
    for axes in every[::columns]:
        axes.set(ylabel="test RMSE" if lower else "test accuracy (%)")
    legend_above(sheet, every, 6 if columns > 1 else 3)
