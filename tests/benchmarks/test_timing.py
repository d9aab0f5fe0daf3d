"""Rounds with a clock of our own, intervals against draws whose median is known, and rows."""

import pytest
import torch

from benchmarks.cases import Comparison, Prepared, Row
from benchmarks.timing import FEWEST, Interval, Setting, interval, peak_bytes

CPU = torch.device("cpu")


def test_ratios_are_to_the_baseline_of_the_same_round(takes):
    # Two calls come before the first round.
    prepared = Prepared({"plain": takes(0.2, {5, 7}), "ours": takes(0.3, {5, 7})})
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
    def one_after_another(count):
        # No tensor is kept: it would lie between the places of two, and neither could be used again.
        return lambda: [torch.ones(2**20).sum().item() for _ in range(count)]

    # 4 MB at once, 80 MB in all; an allocator may take a place or two more.
    assert all(3 < peak_bytes(one_after_another(count), CPU) / 2**20 < 20 for count in (1, 20))
