"""Tables of the geometric paper's reproductions: both protocols side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from rich.table import Table

from neuronal.experiments.procedures.geometric.protocol_table import UNITS, reported_for
from neuronal.experiments.protocols import in_top5
from neuronal.report.drawn import END_OF_LIST, columns, end_of_list, title_of


def protocol_table(answer: Mapping[str, Any]) -> list[Table]:
    """One line per set, batch and method: reported, published and clean; others for top-5 accuracies and rates tried."""
    rows, reported = answer["result"]["rows"], answer["reported"]
    five = in_top5(rows)
    drawn = [_protocols(title_of(answer), rows, reported)]
    drawn += [_protocols("Top-5 accuracy", five, reported.get("top5", {}))] if five else []
    return drawn + ([_tried(rows, answer.get("options", {}))] if five else [])


def _protocols(title: str, rows: Sequence[Mapping[str, Any]], reported: Mapping[str, Any]) -> Table:
    # Without numbers of the same data there is nothing to put beside ours.
    given = [reported_for(row, reported) for row in rows]
    head = ["published", "its rate", "clean", "its rate", "failed"]
    drawn = columns(title, ["data", "method"], ["reported", *head] if any(given) else head)
    measure = next((row["measure"] for row in rows if "measure" in row), "rmse")
    images = measure != "rmse"
    for data, batch, method in dict.fromkeys((row["data"], row["batch"], row["method"]) for row in rows):
        own = {r["protocol"]: r for r in rows if (r["data"], r["batch"], r["method"]) == (data, batch, method)}
        cells = []
        if any(given):
            mean = reported_for(next(iter(own.values())), reported)
            cells.append("" if mean is None else written(*mean, measure))
        for protocol in ("published", "clean"):
            row = own.get(protocol, {})
            estimate = row.get("estimate", {"mean": None, "standard_error": None})
            rate = f"{row['rate']:g}{_end_of_list(row)}" if row else "–"
            cells += [written(estimate["mean"], estimate["standard_error"], measure), rate]
        failed = sum(len(row["failed"]) for row in own.values())
        drawn.add_row(f"{data}, {batch}" if images else data, method, *cells, str(failed))
    what = {"accuracy": "accuracy (%)", "top5": "top-5 accuracy (%)"}.get(measure, "RMSE")
    drawn.caption = (
        f"test {what}, mean ± standard error over {_seeds(rows)}; published: at the paper's rate, choices while training by "
        "what its code goes by; clean: the rate is tuned, and all is chosen, on held-out data; "
        f"{legend(dict.fromkeys(row['method'] for row in rows))}"
    )
    if any(_end_of_list(row) for row in rows):
        drawn.caption += END_OF_LIST
    return drawn


def _tried(rows: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> Table:
    """What held-out data say of every rate tried: one line per method, and per batch size where each has its own."""
    own = [row for row in rows if row.get("tuning")]
    rates = list(dict.fromkeys(point["value"] for row in own for point in row["tuning"]))
    drawn = columns("Rates tried", ["data", "method"], [f"{rate:g}" for rate in rates])
    seen: list[Any] = []
    once = "tuning_batch" in options
    for row in own:
        place = row["data"] if once else f"{row['data']}, {row['batch']}"
        if (place, row["method"]) in seen:
            continue
        seen.append((place, row["method"]))
        found = {point["value"]: point for point in row["tuning"]}
        cells = (
            "failed" if found[rate]["failed"] else written(found[rate]["mean"], None, "accuracy") for rate in rates
        )
        drawn.add_row(place, row["method"], *cells)
    seeds = options.get("tuning_seeds", 1)
    drawn.caption = (
        "accuracy (%) on held-out data by learning rate, the highest of which is taken for clean; tried with "
        f"{'one seed' if seeds == 1 else f'{seeds} seeds'}"
        + (f" and batches of {options['tuning_batch']}, for all batch sizes" if once else "")
        + "; failed: the loss became infinite or no number"
    )
    return drawn


def _seeds(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many seeds there were: of each protocol, where one had more than the other."""
    trained: dict[str, int] = {}
    for row in rows:
        number = len(row["seeds"]) + len(row["failed"])
        trained[row["protocol"]] = max(number, trained.get(row["protocol"], 0))
    if len(set(trained.values())) == 1:
        return f"{next(iter(trained.values()))} seeds"
    return "seeds (" + ", ".join(f"{protocol} {number}" for protocol, number in trained.items()) + ")"


def _end_of_list(row: Mapping[str, Any]) -> str:
    return end_of_list(row["rate"], [point["value"] for point in row.get("tuning", ())])


METHODS = {
    "SP": "standard units",
    "WN": "weight norm",
    "WN+MBN": "weight norm with mean-only batch norm",
    "BN": "batch norm",
    "GmP": "geometric units",
    "GmP+IMN": "geometric units with input mean norm",
}


def legend(methods: Iterable[str]) -> str:
    """What the paper's short names stand for."""
    return ", ".join(f"{name} {METHODS[name]}" for name in methods if name in METHODS)


def written(mean: float | None, error: float | None, measure: str) -> str:
    """A mean with its error in the measure's own units and digits."""
    if mean is None:
        return "–"
    factor, _, digits = UNITS[measure]
    return format(factor * mean, digits) + ("" if error is None else f" ± {format(factor * error, digits)}")


def perturbation(answer: Mapping[str, Any]) -> list[Table]:
    """The paper's unit, with what its figure shows beside; and many units."""
    drawn = columns(
        title_of(answer), ["method"], ["change", "angle (°)", "drawn in the paper (°)", "location moves by"]
    )
    for row in answer["result"]["rows"]:
        cells = (f"{row[key]:.3g}" for key in ("epsilon", "angle", "published_angle", "distance"))
        drawn.add_row(row["method"], *cells)
    drawn.caption = legend(dict.fromkeys(row["method"] for row in answer["result"]["rows"]))
    many = columns("Many units, angle in degrees", ["method"], ["inputs", "norm", "change", "median", "largest"])
    for row in answer["result"]["many"]:
        # One change in the middle: all are in the file.
        if row["epsilon"] == 1e-3:
            cells = (f"{row[key]:.3g}" for key in ("inputs", "norm", "epsilon", "median", "largest"))
            many.add_row(row["method"], *cells)
    return [drawn, many]


def boundaries(answer: Mapping[str, Any]) -> list[Table]:
    head = ["radius", "angle (π)", "location", "pre-activation on the set", "at the active side", "at the other"]
    drawn = columns(title_of(answer), [], head)
    for row in answer["result"]["rows"]:
        place = ", ".join(f"{round(value, 2) + 0.0:.2f}" for value in row["location"])
        numbers = (f"{row['on_it']:.1g}", f"{row['active']:.3g}", f"{row['inactive']:.3g}")
        drawn.add_row(f"{row['radius']:g}", f"{row['angle']:g}", f"({place})", *numbers)
    return [drawn]


def hinge_motion(answer: Mapping[str, Any]) -> list[Table]:
    """Both protocols; then every method at the same rates, with the largest steps of its units."""
    result = answer["result"]
    drawn = columns(
        "Every method at the same rates, as published",
        ["method"],
        ["rate", "test", "largest turn (°)", "largest shift", "failed"],
    )
    for row in result["same_rates"]:
        if "estimate" not in row:
            drawn.add_row(row["method"], f"{row['rate']:g}", "–", "–", "–", str(len(row["failed"])))
            continue
        test = written(row["estimate"]["mean"], row["estimate"]["standard_error"], row["measure"])
        steps = (
            f"{median(row[key]):.3g}, at most {max(row[key]):.3g}" for key in ("largest_angle", "largest_distance")
        )
        drawn.add_row(row["method"], f"{row['rate']:g}", test, *steps, str(len(row["failed"])))
    drawn.caption = "largest of any unit in any step of a training: median over seeds, and the largest of all"
    return [*protocol_table(answer), drawn]


def learning_rates(answer: Mapping[str, Any]) -> list[Table]:
    """One line per method and rate; the tuned rate is marked."""
    result = answer["result"]
    best = {(one["data"], one["method"]): one["best"] for one in result["chosen"]}
    held = {(one["data"], one["method"], p["value"]): p for one in result["chosen"] for p in one["curve"]}
    head = ["rate", "held-out data", "test", "largest turn (°)", "failed"]
    drawn = columns(title_of(answer), ["data", "method"], head)
    for row in result["rows"]:
        place = row["data"], row["method"]
        point = held[*place, row["rate"]]
        measure = row.get("measure", "accuracy")
        mark = " (best)" if best[place] == row["rate"] else ""
        estimate = row.get("estimate", {"mean": None, "standard_error": None})
        turned = f"{median(row['largest_angle']):.3g}" if "largest_angle" in row else "–"
        drawn.add_row(
            *place,
            f"{row['rate']:g}{mark}",
            written(point["mean"], point["error"], measure),
            written(estimate["mean"], estimate["standard_error"], measure),
            turned,
            str(len(row["failed"])),
        )
    drawn.caption = (
        "accuracies in %, or RMSE, mean ± standard error over seeds; largest turn of any unit in a step, median over seeds; "
        f"best: on held-out data; {legend(dict.fromkeys(row['method'] for row in result['rows']))}"
    )
    return [drawn]


def widths(answer: Mapping[str, Any]) -> list[Table]:
    drawn = columns(title_of(answer), ["start"], ["width", "signal at the start", "test RMSE", "failed"])
    for row in answer["result"]["rows"]:
        estimate = row.get("estimate", {"mean": None, "standard_error": None})
        rmse = written(estimate["mean"], estimate["standard_error"], "rmse")
        drawn.add_row(row["start"], str(row["width"]), f"{row['signal']:.3g}", rmse, str(row["failed"]))
    drawn.caption = "signal: root mean square of what the last hidden layer puts out before training"
    return [drawn]


def same_rate(answer: Mapping[str, Any]) -> list[Table]:
    rows = [row for row in answer["result"]["rows"] if "estimate" in row]
    drawn = columns(title_of(answer), ["method", "protocol"], ["rate", "test", "seeds", "failed"])
    for row in rows:
        mean = written(row["estimate"]["mean"], row["estimate"]["standard_error"], row["measure"])
        failed = str(len(row["failed"]))
        drawn.add_row(row["method"], row["protocol"], f"{row['rate']:g}", mean, str(len(row["seeds"])), failed)
    drawn.caption = "mean ± standard error over seeds; protocols as in Table 3, but the rate is given and not tuned"
    return [drawn]


TABLES: dict[str, Any] = {
    "boundaries": boundaries,
    "hinge_motion": hinge_motion,
    "learning_rates": learning_rates,
    "perturbation": perturbation,
    "protocol_table": protocol_table,
    "same_rate": same_rate,
    "widths": widths,
}
"""By procedure."""
