"""Methods side by side, as published and clean: samples for claims, table and figure of all who compare them so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from neuronal.data import DATASETS
from neuronal.report import Column, Drawing, Table, blank, table
from neuronal_papers.core import title_of
from neuronal_papers.drawing import BARS, legend_above, means, panels, set_axes
from neuronal_papers.geometric.methods import DATA, METHOD, METHODS, UNITS, Row, legend, mean_of
from neuronal_papers.geometric.protocols import by_seed, in_top5
from neuronal_papers.judge import Above, Below, Case, Claim, Result, Within, paired
from neuronal_papers.seeds import at_chance, groups, with_error
from neuronal_papers.tuning import END_OF_LIST, end_of_list

Reported = Mapping[str, Mapping[str, tuple[float, float | None]]]
BOTH = (
    "Published: at the paper's rate, and what is chosen while training is chosen by what its code goes by. Clean: the rate "
    "is tuned, and all is chosen, on held-out data. GmP is best if it is better than every other method, seed by seed."
)


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


def leads(rows: Sequence[Row], best: str) -> list[Case]:
    """A sample for every set, batch size and other method: the paper's method less the other."""
    places, cases = groups(rows, "data", "batch", "protocol"), []
    for place, group in places.items():
        # Only what tells the groups apart is named.
        told = [str(one) for one, every in zip(place, zip(*places, strict=True), strict=True) if len(set(every)) > 1]
        for own in (row for row in group if row["method"] == best):
            others = [row for row in group if row["method"] != best]
            cases += [sample(own, row, ", ".join([row["method"], *told])) for row in others]
    return cases


def is_best(best: str, text: str, protocol: str, *, errors: bool = False, beyond_paper: bool = False) -> Claim:
    """The claim that a method is better than every other by one protocol."""

    def cases(result: Result) -> list[Case]:
        return leads([row for row in result["result"]["rows"] if row["protocol"] == protocol], best)

    side, unit, digits = (Below(), "RMSE", "+.3f") if errors else (Above(), "points", "+.2f")
    unit = f"{unit}, {best} less the other"
    return Claim(f"{text} ({protocol})", cases, side, unit, digits, beyond_paper=beyond_paper)


def as_reported(margin: float, text: str) -> Claim:
    """The claim that accuracies are those the paper reports, by its own protocol, within ``margin`` points."""

    def cases(result: Result) -> list[Case]:
        found = []
        for row in result["result"]["rows"]:
            given = reported_for(row, result["reported"])
            if given and row["protocol"] == "published":
                label = row["method"] + f", {row['batch']}" * (str(row["batch"]) in result["reported"])
                values = [100 * (value - given[0]) for value in _values(row).values()]
                found.append(Case(label, values, row.get("overlap", 0.0)))
        return found

    return Claim(text, cases, Within(margin))


def reported_for(row: Row, reported: Reported) -> tuple[float, float | None] | None:
    """The paper's mean and error for the row, by data or batch, then method; no error where it is one run."""
    places = (row["data"], str(row["batch"]))
    return next((reported[one][row["method"]] for one in places if row["method"] in reported.get(one, {})), None)


def tables(result: Result) -> list[Table]:
    """One line per set, batch and method: reported, published and clean; others for top-5 accuracies and rates tried."""
    rows, reported = result["result"]["rows"], result["reported"]
    found = [_protocols(title_of(result), rows, reported)]
    if five := in_top5(rows):
        found += [_protocols("Top-5 accuracy", five, reported.get("top5", {})), _tried(rows, result["options"])]
    return found


def _protocols(title: str, rows: Sequence[Row], reported: Reported) -> Table:
    measure = next((row["measure"] for row in rows if "measure" in row), "rmse")
    lines = [{row["protocol"]: row for row in own} for own in groups(rows, "data", "batch", "method").values()]

    def in_paper(line: Row) -> str | None:
        found = reported_for(line["published"], reported)
        return with_error(*found, *UNITS[measure]) if found else None

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
    drawings = []
    for (protocol,), rows in groups(result["result"]["rows"], "protocol").items():
        with blank(f"{result['reproduction']}-{protocol}") as sheet:
            _side_by_side(sheet, [row for row in rows if "estimate" in row])
        drawings.append(Drawing(sheet.svg, f"{result['title']}, {protocol}", f"Means over seeds, {BARS}."))
    return drawings


def _side_by_side(sheet: Any, rows: Sequence[Row]) -> None:
    places = groups(rows, "data", "batch")
    is_error, columns = rows[0]["measure"] == "rmse", min(3, len(places))
    with_batch = len({batch for _, batch in places}) > 1
    # Errors of different sets have nothing to do with each other; accuracies at several batch sizes do. A single panel
    # is wide enough for the legend.
    every = panels(sheet, len(places), columns, (2.1 if columns > 1 else 3.0, 2.1), sharey=not is_error)
    for axes, ((data, batch), group) in zip(every, places.items(), strict=True):
        for number, row in enumerate(group):
            bars(axes, list(METHODS).index(row["method"]), row["method"], [number], [row], linestyle="")
        axes.set(title=f"batches of {batch}" if with_batch else data, xlim=(-0.7, len(group) - 0.3), xticks=[])
    for axes in every[::columns]:
        axes.set(ylabel="test RMSE" if is_error else "test accuracy (%)")
    legend_above(sheet, every, 6 if columns > 1 else 3)


def bars(axes: Any, number: int, label: str, x: Sequence[float], rows: Sequence[Row], **style: Any) -> None:
    """Means of rows with their errors."""
    estimates = [(row["estimate"]["mean"], row["estimate"]["standard_error"]) for row in rows]
    means(axes, number, label, x, estimates, UNITS[rows[0]["measure"]][0], **style)


def over(name: str, title: str, rows: Sequence[Row], series: str, x: str, settings: Mapping[str, Any]) -> Drawing:
    """Means over a number of theirs, a line for each of a ``series``; the lines a little apart, to tell bars apart."""
    with blank(name) as sheet:
        for number, ((label,), own) in enumerate(groups(rows, series).items()):
            bars(sheet.axes, number, label, [row[x] * 1.04**number for row in own], own)
        set_axes(sheet.axes, {"xscale": "log", "xlabel": x, **settings})
        sheet.axes.legend()
    return Drawing(sheet.svg, title, f"Means over seeds, {BARS}.")
