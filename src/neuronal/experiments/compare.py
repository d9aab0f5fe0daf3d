"""Records to numbers that can be compared: means over seeds, their errors, and paired differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import isfinite, sqrt
from statistics import fmean, stdev
from typing import Any, Literal

from scipy.special import stdtrit

from neuronal.experiments.record import Record
from neuronal.nn.families import STANDARD
from neuronal.probes.contrast import Contrast
from neuronal.probes.dead_units import DeadUnits
from neuronal.probes.zero_image import ZeroImage


@dataclass(frozen=True)
class Metric:
    """A number of a record that is worth a column: what it is, which way is better, where it is found."""

    key: str
    title: str
    better: Literal["higher", "lower", "neither"]
    get: Callable[[Record], float]


METRICS = (
    Metric("accuracy", "test accuracy", "higher", lambda r: r.metrics["accuracy"]),
    Metric("rmse", "test RMSE", "lower", lambda r: r.metrics["rmse"]),
    Metric("lowest", "lowest accuracy over contrasts", "higher", lambda r: min(r.probe(Contrast).accuracy)),
    Metric(
        "zero_entropy",
        "entropy at the zero image (1 = uniform)",
        "neither",
        lambda r: r.probe(ZeroImage).entropy / r.probe(ZeroImage).uniform_entropy,
    ),
    Metric("dead", "dead units", "lower", lambda r: _share(r.probe(DeadUnits))),
    Metric("parameters", "parameters", "neither", lambda r: r.metrics["parameters"]),
)


def _share(found: DeadUnits) -> float:
    return found.dead / found.units if found.units else 0.0


_Z = 1.959964
"""Standard deviations of a 95% interval."""


@dataclass(frozen=True)
class Share:
    """A count out of a total."""

    count: int
    total: int

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the share, which is sensible at 0 and at 1 too."""
        if not self.total:
            return 0.0, 1.0
        p, n = self.count / self.total, self.total
        middle, half = p + _Z * _Z / (2 * n), _Z * sqrt(p * (1 - p) / n + _Z * _Z / (4 * n * n))
        low, high = (middle - half) / (1 + _Z * _Z / n), (middle + half) / (1 + _Z * _Z / n)
        return max(0.0, low), min(1.0, high)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "interval": list(self.interval)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Share:
        return cls(values["count"], values["total"])


@dataclass(frozen=True)
class Estimate:
    """Mean over seeds with its standard error (standard deviation over the root of the number of seeds)."""

    mean: float
    standard_error: float | None
    """None with fewer than two seeds: one run says nothing about spread."""
    num_seeds: int


@dataclass(frozen=True)
class Difference:
    """Mean of the differences seed by seed, with an interval of Student's t.

    There is no interval from one seed, nor from differences that are all the same: neither says anything of chance.
    """

    mean: float
    low: float | None
    high: float | None
    num_seeds: int

    @property
    def is_shown(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class Row:
    """All that is known of one neuron in a comparison."""

    family: str
    estimates: Mapping[str, Estimate]
    against_baseline: Mapping[str, Difference]
    failed: Mapping[int, str]
    """Seed to reason."""


def by_family(records: Iterable[Record]) -> dict[str, list[Record]]:
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.recipe.family, []).append(record)
    return groups


def estimates(records: Sequence[Record], baseline: str = STANDARD.name) -> tuple[Row, ...]:
    """Means by neuron, and differences to the baseline; failed records are counted and named, never averaged.

    Differences are taken seed by seed, because trials of one seed share their data order and held-out images. Their
    intervals hold for all neurons at once with 95% confidence (Bonferroni over the neurons that are compared).

    Raises:
        ValueError: There are no records, they differ in more than neuron and seed, or in their data, or a trial is there
            twice.
    """
    _one_experiment(records)
    groups = by_family(records)
    values = {family: _values(group) for family, group in groups.items()}
    others = len(groups) - (baseline in groups)
    rows = []
    for family, group in groups.items():
        means = {key: estimate(list(by_seed.values())) for key, by_seed in values[family].items()}
        differences = {
            key: difference(by_seed, values[baseline][key], comparisons=others)
            for key, by_seed in values[family].items()
            if baseline in groups and family != baseline and set(by_seed) & set(values[baseline].get(key, {}))
        }
        failed = {record.seed: record.failure.reason for record in group if record.failure}
        rows.append(Row(family, means, differences, failed))
    return tuple(rows)


def _one_experiment(records: Sequence[Record]) -> None:
    if not records:
        raise ValueError("a comparison needs records, got none.")
    first, seen = records[0].recipe, set()
    for record in records:
        if replace(record.recipe, family=first.family, name=first.name, seeds=first.seeds) != first:
            raise ValueError(
                f"a comparison needs records of one experiment, got different recipes for {record.recipe.family}."
            )
        if record.data and records[0].data and record.data != records[0].data:
            raise ValueError(
                f"a comparison needs records of the same data, but {record.recipe.data} changed between "
                f"{first.family} with seed {records[0].seed} and {record.recipe.family} with seed {record.seed}."
            )
        if (record.recipe.family, record.seed) in seen:
            raise ValueError(
                f"a comparison needs each trial once, got {record.recipe.family} with seed {record.seed} twice."
            )
        seen.add((record.recipe.family, record.seed))


def measured(record: Record) -> dict[str, float]:
    """The metrics of a record whose probe was run; none of one that failed."""
    found: dict[str, float] = {}
    for metric in METRICS if record.failure is None else ():
        with suppress(KeyError, ZeroDivisionError):
            value = metric.get(record)
            # Of a forged record: divided by next to nothing.
            if isfinite(value):
                found[metric.key] = value
    return found


def _values(records: Sequence[Record]) -> dict[str, dict[int, float]]:
    """Metric to seed to value."""
    found: dict[str, dict[int, float]] = {}
    for record in records:
        for key, value in measured(record).items():
            found.setdefault(key, {})[record.seed] = value
    return found


def estimate(values: Sequence[float]) -> Estimate:
    count = len(values)
    error = stdev(values) / sqrt(count) if count > 1 else None
    return Estimate(fmean(values), error, count)


def difference(
    values: Mapping[int, float], others: Mapping[int, float], *, comparisons: int = 1, overlap: float = 0.0
) -> Difference:
    """``values`` minus ``others`` over the seeds both have, at least one.

    Args:
        comparisons: Of which this is one.
        overlap: Test rows per training row, where every seed draws both anew from the same rows. Such results are alike,
            and the interval is wider than their spread says (Nadeau and Bengio, Machine Learning 52, 2003).
    """
    seeds = sorted(set(values) & set(others))
    mean = estimate([values[seed] - others[seed] for seed in seeds])
    # Subtracting leaves rounding of the last digit even where all differences are the same.
    if mean.standard_error is None or mean.standard_error < 1e-12:
        return Difference(mean.mean, None, None, len(seeds))
    error = mean.standard_error * (1 + overlap * len(seeds)) ** 0.5
    half = float(stdtrit(len(seeds) - 1, 1 - 0.025 / comparisons)) * error
    return Difference(mean.mean, mean.mean - half, mean.mean + half, len(seeds))
