"""Rounds with a clock of our own, intervals against draws whose median is known, and rows."""

import pytest
import torch

from benchmarks.cases import Comparison, Prepared, Row
from benchmarks.timing import FEWEST, Interval, Setting, interval, peak_bytes
from neuronal.train import timing

CPU = torch.device("cpu")


@pytest.fixture
def takes(monkeypatch):
    """Actions that take as long as they say, ten times as long in busy rounds; two calls come before the first."""
    now = [0.0]
    monkeypatch.setattr(timing, "perf_counter", lambda: now[0])

    def make(seconds, busy=()):
        waits = iter([seconds] * 2 + [seconds * (10 if number in busy else 1) for number in range(99)])
        return lambda: now.__setitem__(0, now[0] + next(waits))

    return make


def test_ratios_are_to_the_baseline_of_the_same_round(takes):
    prepared = Prepared({"plain": takes(0.2, {3, 5}), "ours": takes(0.3, {3, 5})})
    (row,) = Comparison("case", "plain", lambda _: prepared, {"ours": 1.4}, 2, 7).rows(Setting(CPU, 9))
    assert (row.name, row.unit, row.verdict) == ("case: ours", "x plain", "exceeded")
    assert [row.measured.low, row.measured.median, row.measured.high] == pytest.approx([1.5] * 3)
    assert [row.ms, row.baseline_ms, row.notes["images/s"]] == pytest.approx([150, 100, 7 * 2 / 0.3])


@pytest.mark.parametrize("n", [FEWEST, 9, 15, 31])
def test_intervals_cover_the_median_in_95_percent(n):
    draws = torch.rand(4000, n, generator=torch.Generator().manual_seed(0)).tolist()
    covered = sum((found := interval(values)).low <= 0.5 <= found.high for values in draws) / 4000
    # Order statistics cover a little more; with 6 values 31 in 32.
    assert 0.95 - 0.007 < covered < 0.98


@pytest.mark.parametrize(
    ("measured", "limit", "verdict"),
    [((0.9, 1.0), 1.0, "kept"), ((0.9, 1.1), 1.0, "open"), ((1.01, 1.1), 1.0, "exceeded"), ((9, 9), None, "")],
)
def test_the_whole_interval_decides(measured, limit, verdict):
    assert Row("", Interval(1.0, *measured), "", limit).verdict == verdict
    assert Row("", Interval(1.0, *measured), "", 1.0, error="not solved").verdict == "not measured"


def test_peak_memory_is_what_was_taken_at_once():
    megabytes = [peak_bytes(lambda n=n: [torch.ones(2**20).sum() for _ in range(n)], CPU) / 2**20 for n in (1, 20)]
    assert megabytes == pytest.approx([4, 4], abs=3)
