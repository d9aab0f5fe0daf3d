"""One value of a field for every neuron, chosen from the same list, on data kept apart for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Any

from neuronal.experiments.record import Record

MEASURE = "holdout_accuracy"


@dataclass(frozen=True)
class Point:
    """How one value did: mean and standard error over seeds, and how many of them failed."""

    value: Any
    mean: float | None
    error: float | None
    failed: int


@dataclass(frozen=True)
class Choice:
    """The whole curve of a neuron, and the value with the highest mean; ``None`` if every cell failed."""

    family: str
    curve: tuple[Point, ...]
    best: Any

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def choose(records: Sequence[Record], field: str) -> tuple[Choice, ...]:
    """For every neuron the value of ``field`` with the highest accuracy on held-out training data after the last epoch.

    A value one of whose cells failed counts with chance for that cell: it is no value to recommend. Of equals the first of
    the list is taken. The test data are not looked at.

    Raises:
        ValueError: Records without held-out data.
    """
    families: dict[str, dict[Any, list[float | None]]] = {}
    for record in records:
        values = families.setdefault(record.recipe.family, {})
        values.setdefault(getattr(record.recipe, field), []).append(_measured(record))
    return tuple(_choice(family, values) for family, values in families.items())


def _choice(family: str, values: Mapping[Any, Sequence[float | None]]) -> Choice:
    curve = tuple(_point(value, found) for value, found in values.items())
    ranked = [(0.0 if point.failed else point.mean or 0.0, -number) for number, point in enumerate(curve)]
    best, number = max(ranked)
    return Choice(family, curve, curve[-number].value if best > 0 else None)


def _point(value: Any, found: Sequence[float | None]) -> Point:
    good = [one for one in found if one is not None]
    error = stdev(good) / sqrt(len(good)) if len(good) > 1 else None
    return Point(value, mean(good) if good else None, error, len(found) - len(good))


def _measured(record: Record) -> float | None:
    """Held-out accuracy after the last epoch; nothing if the cell failed."""
    if record.failure:
        return None
    if not record.epochs or MEASURE not in record.epochs[-1]:
        raise ValueError(
            f"choosing needs held-out data, and recipe {record.recipe.name!r} has holdout 0. Give it some."
        )
    return record.epochs[-1][MEASURE]
