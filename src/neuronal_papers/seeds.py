"""Rows of a result by network, and what tables and claims say of a network's seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log10
from statistics import median
from typing import Any, Generic, TypeVar

from neuronal.core.records import Json, from_json
from neuronal.report import Column, field_of
from neuronal_papers.judge import Result, paired

Row = Mapping[str, Any]
Kind = TypeVar("Kind")
Value = Callable[[Any], Any]
Rows = Callable[[Result], Iterable[Any]]

OVER_SEEDS = "median over seeds, with the lowest and the highest"
"""What a caption says of :func:`over_seeds`."""
NAMES = NETWORK, NEURON = Column("network", "name", is_text=True), Column("neuron", "neuron", is_text=True)


def at(*path: str | int) -> Value:
    """What stands in a row below these keys and places; ``None`` where a key is missing."""

    def value(row: Any) -> Any:
        for step in path:
            row = field_of(row, step) if isinstance(step, str) else row[step]
            if row is None:
                return None
        return row

    return value


def rows_of(result: Result, **where: Any) -> list[Row]:
    """The rows of a result with these values."""
    return [row for row in result["result"]["rows"] if all(row[key] == value for key, value in where.items())]


def records_of(kind: type[Kind], result: Result, table: str = "rows") -> list[Kind]:
    """The records of one table of a result."""
    return [from_json(kind, row) for row in result["result"][table]]


@dataclass(frozen=True)
class Run(Generic[Kind]):
    """What was found of one trained network."""

    name: str
    neuron: str
    seed: int
    found: Kind


def runs_of(kind: type[Kind], result: Result) -> list[Run[Kind]]:
    """The rows of a measurement by :func:`neuronal_papers.tuning.on_test_images`, whose records are of one ``kind``."""
    return [Run(row["name"], row["neuron"], row["seed"], from_json(kind, row)) for row in result["result"]["rows"]]


def groups(rows: Iterable[Kind], *keys: str) -> dict[tuple[Any, ...], list[Kind]]:
    """Rows that share what ``keys`` name, in the order of the first of each."""
    found: dict[tuple[Any, ...], list[Kind]] = {}
    for row in rows:
        found.setdefault(tuple(field_of(row, key) for key in keys), []).append(row)
    return found


def by_network(rows: Iterable[Row], *keys: str) -> list[Json]:
    """Rows that differ in their seed only, together: what they share, by ``keys``, and the rows themselves as ``runs``."""
    keys = keys or ("name", "neuron")
    return [dict(zip(keys, shared, strict=True)) | {"runs": runs} for shared, runs in groups(rows, *keys).items()]


def networks_of(result: Result, *keys: str) -> list[Json]:
    """Networks of the rows of a result, each with its ``runs``; see :func:`by_network`."""
    return by_network(result["result"]["rows"], *keys)


def spread(values: Sequence[float], form: str, factor: float = 1.0) -> str:
    """Median, lowest and highest of ``factor`` times the values; nothing of none, one alone of one."""
    if not values:
        return ""
    middle, low, high = (format(factor * of(values), form) for of in (median, min, max))
    return middle if len(values) == 1 else f"{middle} ({low} to {high})"


def over_seeds(head: str, value: Value, form: str = ".1f", factor: float = 1.0) -> Column:
    """A column that spreads a number of each of a network's ``runs``; runs without the number are left out."""
    return Column(head, lambda one: spread([n for run in one["runs"] if (n := value(run)) is not None], form, factor))


percents = partial(over_seeds, factor=100)
"""The same of a share, in percent."""


def with_error(mean: float | None, error: float | None, factor: float = 100, form: str = ".2f") -> str | None:
    """``factor`` times a mean and its standard error, in percent unless said otherwise; ``None`` without a mean."""
    numbers = [format(factor * number, form) for number in (mean, error) if number is not None]
    return None if mean is None else " ± ".join(numbers)


def at_chance(accuracy: Mapping[Any, float], failed: Iterable[Any], chance: float) -> dict[Any, float]:
    """Accuracy by seed, runs that failed being at chance, as the rules of :mod:`neuronal_papers.judge` say."""
    return {**accuracy, **dict.fromkeys(failed, chance)}


def log(value: float) -> float:
    """Power of ten, of a number that may be 0."""
    return log10(max(value, 1e-30))


def log_ratios(own: Mapping[Any, float], other: Mapping[Any, float]) -> list[float]:
    """log10 of own number over the other's, seed by seed."""
    logs, others = ({seed: log(value) for seed, value in of.items()} for of in (own, other))
    return paired(logs, others)


def differences(own: Row, other: Row, value: Value, factor: float = 100.0) -> list[float]:
    """A number of a network's ``runs`` less another network's, seed by seed; in points unless ``factor`` says otherwise."""
    numbers, others = ({run["seed"]: value(run) for run in network["runs"]} for network in (own, other))
    return paired(numbers, others, factor)
