"""One value of a field for every neuron, chosen from the same list, on data kept apart for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import sqrt
from statistics import mean, stdev
from typing import Any

from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import Record
from neuronal.names import find


@dataclass(frozen=True)
class Point:
    """How one value did: mean and standard error over seeds, and how many of them failed."""

    value: Any
    mean: float | None
    error: float | None
    failed: int


@dataclass(frozen=True)
class Choice:
    """The whole curve of a neuron, and the value with the best mean; ``None`` if every value failed.

    ``measure`` is what the curve is made of: ``accuracy``, highest best, or ``rmse``, lowest best; ``protocol`` is the
    recipes', and says on which data.
    """

    family: str
    curve: tuple[Point, ...]
    best: Any
    measure: str
    protocol: str


def choose(records: Sequence[Record], field: str) -> tuple[Choice, ...]:
    """For every neuron the value of ``field`` that does best on held-out training data once trained.

    Best is the highest accuracy, or the lowest RMSE where numbers are predicted. A value one of whose cells failed is no
    value to recommend. Of equals the first of the list is taken. The test data are not looked at, unless the recipes say
    ``published``: then they are what is gone by.

    Raises:
        ValueError: Records without held-out data, or no such field.
    """
    find({one.name: one for one in fields(Recipe)}, field, "field to choose")
    measure = "rmse" if any("rmse" in record.metrics for record in records) else "accuracy"
    families: dict[str, dict[Any, list[float | None]]] = {}
    for record in records:
        values = families.setdefault(record.recipe.family, {})
        values.setdefault(getattr(record.recipe, field), []).append(_measured(record, measure))
    protocol = "published" if any(record.recipe.protocol == "published" for record in records) else "clean"
    return tuple(Choice(family, *_best(values, measure), measure, protocol) for family, values in families.items())


def _best(values: Mapping[Any, Sequence[float | None]], measure: str) -> tuple[tuple[Point, ...], Any]:
    """The curve, and the best value of it."""
    curve = tuple(_point(value, found) for value, found in values.items())
    sound = [(point.mean, point.value) for point in curve if not point.failed and point.mean is not None]
    # Both take the first of equals.
    choose_best = min if measure == "rmse" else max
    return curve, choose_best(sound, key=lambda pair: pair[0])[1] if sound else None


def _point(value: Any, found: Sequence[float | None]) -> Point:
    good = [one for one in found if one is not None]
    error = stdev(good) / sqrt(len(good)) if len(good) > 1 else None
    return Point(value, mean(good) if good else None, error, len(found) - len(good))


def _measured(record: Record, measure: str) -> float | None:
    """What the data to choose by say of the trained network; nothing if the cell failed."""
    if record.failure:
        return None
    if record.recipe.protocol == "published":
        return record.metrics[measure]
    last = int(record.metrics.get("best_epoch", len(record.epochs)))
    if not record.epochs or f"holdout_{measure}" not in record.epochs[last - 1]:
        raise ValueError(
            f"choosing needs held-out data, and recipe {record.recipe.name!r} has holdout 0. Give it some."
        )
    return record.epochs[last - 1][f"holdout_{measure}"]
