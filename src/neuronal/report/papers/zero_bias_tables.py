"""Tables of the zero-bias paper's measurements: reported beside measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from neuronal.report.drawn import columns, title_of


def _contrast(answer: Mapping[str, Any]) -> list[Table]:
    """One line per multiplier, measured and reported side by side: that fits a terminal."""
    rows = [row for row in answer["result"]["rows"] if "estimates" in row]
    drawn = columns(title_of(answer), [], ["contrast"])
    texts: list[Sequence[str]] = []
    shown = set()
    for row in rows:
        drawn.add_column(f"{row['name']}, {row['neuron']} (%)", justify="right")
        texts.append([_percent(e["mean"], e["standard_error"]) for e in row["estimates"]])
        curve = answer["reported"].get(row["neuron"], {}).get("curve")
        # Networks of several sizes are compared with one and the same row of the paper.
        if curve and row["neuron"] not in shown:
            shown.add(row["neuron"])
            drawn.add_column("reported (%)", justify="right")
            texts.append([f"{100 * value:.2f}" for value in curve])
    if rows:
        for s, *cells in zip(rows[0]["multipliers"], *texts, strict=True):
            drawn.add_row(f"{s:g}", *cells)
    seeds = sorted({seed for row in rows for seed in row["seeds"]})
    drawn.caption = f"mean ± standard error over {len(seeds)} seed{'s' if len(seeds) != 1 else ''}"
    return [drawn]


def _percent(mean: float, error: float | None) -> str:
    return f"{100 * mean:.2f}" + ("" if error is None else f" ± {100 * error:.2f}")


def _curves(answer: Mapping[str, Any]) -> list[Table]:
    drawn = columns(
        title_of(answer), ["network"], ["loss differs by", "two seeds by", "accuracy, neuron by neuron (%)"]
    )
    for network in answer["result"]["networks"]:
        accuracy = ", ".join(
            f"{neuron} {100 * sum(of) / len(of):.2f}" for neuron, of in network["accuracy"].items() if of
        )
        distances = (_factor(network[key]) for key in ("between", "within"))
        drawn.add_row(network["name"], *distances, accuracy)
    drawn.caption = (
        "factors, mean over epochs: zero-bias against biased with the same seed, and two seeds of one neuron"
    )
    return [drawn]


def _factor(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _zero_image(answer: Mapping[str, Any]) -> list[Table]:
    drawn = columns(title_of(answer), ["network", "neuron"], ["seed", "entropy (1 = uniform)", "largest probability"])
    for row in answer["result"]["rows"]:
        drawn.add_row(row["name"], row["neuron"], str(row["seed"]), f"{row['entropy']:.4f}", f"{row['largest']:.4f}")
    return [drawn]


def _ntk(answer: Mapping[str, Any]) -> list[Table]:
    limits = columns(
        f"{title_of(answer)}: the limit with biases against the one without",
        ["inputs"],
        ["variance", "depth", "beta", "change (%)", "after scaling (%)", "alignment"],
    )
    for row in answer["result"]["limits"]:
        limits.add_row(
            row["inputs"],
            f"{row['variance']:g}",
            str(row["depth"]),
            f"{row['beta']:g}",
            f"{100 * row['change']:,.1f}",
            f"{100 * row['after_scaling']:.1f}",
            f"{row['alignment']:.4f}",
        )
    widths = columns(
        "Networks of finite width (%, mean ± standard error over seeds)",
        [],
        ["beta", "width", "to its own limit", "to the limit without biases", "change by training"],
    )
    for near, moved in zip(answer["result"]["approach"], answer["result"]["training"], strict=True):
        cells = (near["to_own_limit"], near["to_limit_without_biases"], moved["change"])
        widths.add_row(
            f"{near['beta']:g}", str(near["width"]), *(_percent(c["mean"], c["standard_error"]) for c in cells)
        )
    return [limits, widths]


def _interpolation(answer: Mapping[str, Any]) -> list[Table]:
    drawn = columns(
        title_of(answer),
        ["network", "neuron"],
        ["seed", "accuracy (%)", "equal patterns", "interpolants changed", "certified", "refuted", "open"],
    )
    for row in answer["result"]["rows"]:
        drawn.add_row(
            row["name"],
            row["neuron"],
            str(row["seed"]),
            f"{100 * row['accuracy']:.1f}",
            f"{row['same_pattern']['count']:,}/{row['same_pattern']['total']:,}",
            f"{row['changed']:,}/{row['interpolants']:,}",
            f"{row['certified']['count']:,}/{row['certified']['total']:,}",
            str(row["refuted"]),
            str(row["unknown"]),
        )
    return [drawn]


def _regions(answer: Mapping[str, Any]) -> list[Table]:
    drawn = columns(
        title_of(answer),
        ["network", "neuron"],
        ["seed", "accuracy (%)", "groups", "convex changed", "conic changed", "certified", "refuted", "open"],
    )
    for row in answer["result"]["rows"]:
        drawn.add_row(
            row["name"],
            row["neuron"],
            str(row["seed"]),
            f"{100 * row['accuracy']:.1f}",
            str(row["groups"]),
            *(f"{row[f'{kind}_changed']:,}/{row['mixtures']:,}" for kind in ("convex", "conic")),
            f"{row['certified']['count']}/{row['certified']['total']}",
            str(row["refuted"]),
            str(row["unknown"]),
        )
    return [drawn]


def _expressiveness(answer: Mapping[str, Any]) -> list[Table]:
    drawn = columns(title_of(answer), ["task", "neuron"], ["seeds that fit all", "points fitted, seed by seed"])
    rows = answer["result"]["rows"]
    for task, neuron in dict.fromkeys((row["task"], row["neuron"]) for row in rows):
        own = [row for row in rows if (row["task"], row["neuron"]) == (task, neuron)]
        whole = sum(row["fitted"] == row["points"] for row in own)
        each = ", ".join(str(row["fitted"]) for row in own)
        drawn.add_row(task, neuron, f"{whole} of {len(own)}", f"{each} of {own[0]['points']}")
    return [drawn]


TABLES: dict[str, Any] = {
    "expressiveness": _expressiveness,
    "contrast_table": _contrast,
    "interpolation": _interpolation,
    "regions": _regions,
    "training_curves": _curves,
    "zero_image": _zero_image,
    "ntk": _ntk,
}
