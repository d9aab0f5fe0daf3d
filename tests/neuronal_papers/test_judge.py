"""The rules of the judge: a truth table, intervals against scipy, and calibration by simulation."""

from math import inf

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from neuronal_papers.judge import Above, Below, Case, Claim, Evidence, Fact, Pooled, Within, judge, paired

RESULT = {"command": "neuronal reproduce a/b --scale small", "reproduction": "a/b"}


def claim(side, *samples, needs="all", overlap=0.0):
    cases = [Case(str(number), list(values), overlap) for number, values in enumerate(samples)]
    return Claim("text", lambda result: cases, side, needs=needs)


def outcome(*arguments, **options):
    return claim(*arguments, **options).judge(RESULT)[0]


UP, DOWN, ZERO = [1.0, 1.1, 0.9], [-1.0, -1.1, -0.9], [0.1, -0.1, 0.0]


@pytest.mark.parametrize(
    ("side", "samples", "needs", "expected"),
    [
        (Above(), [UP], "all", "holds"),
        (Above(), [DOWN], "all", "fails"),
        (Above(), [ZERO], "all", "inconclusive"),
        (Below(), [DOWN], "all", "holds"),
        (Below(), [UP], "all", "fails"),
        (Above(2.0), [UP], "all", "fails"),
        (Below(2.0), [UP], "all", "holds"),
        (Within(0.5), [ZERO], "all", "holds"),
        (Within(0.5), [UP], "all", "fails"),
        (Within(1.0), [UP], "all", "inconclusive"),
        (Within(0.5, centre=1.0), [UP], "all", "holds"),
        (Above(), [UP, UP], "all", "holds"),
        (Above(), [UP, ZERO], "all", "inconclusive"),
        (Above(), [UP, DOWN], "all", "fails"),
        (Above(), [UP, DOWN], "some", "holds"),
        (Above(), [ZERO, DOWN], "some", "inconclusive"),
        (Above(), [DOWN, DOWN], "some", "fails"),
        (Above(), [[5.0]], "all", "inconclusive"),
        (Above(), [UP, []], "all", "inconclusive"),
        (Above(), [[]], "all", "not measured"),
        (Above(), [], "all", "not measured"),
        # Numbers that agree exactly are their interval.
        (Above(), [[2.0, 2.0]], "all", "holds"),
        (Above(), [[0.0, 0.0]], "all", "inconclusive"),
    ],
)
def test_truth_table(side, samples, needs, expected):
    assert outcome(side, *samples, needs=needs) == expected


def test_a_case_that_is_open_decides_nothing():
    case = Case("", UP, note="after 2 epochs", is_open=True)
    decided, numbers = Claim("text", lambda result: [case], Above()).judge(RESULT)
    assert decided == "inconclusive"
    assert "after 2 epochs" in numbers


def test_a_counterexample_makes_a_fact_false_as_stated():
    def fact(*counts):
        return Fact("text", lambda result: Evidence(*counts) if counts else None).judge(RESULT)[0]

    assert fact(10, 0, "0 of 10") == "holds"
    assert fact(10, 1, "1 of 10") == fact(10, 1, "3 open", 3) == "false as stated"
    assert fact(10, 0, "3 open", 3) == "inconclusive"
    assert fact(0, 0, "none") == fact() == "not measured"


def test_the_numbers_say_cases_intervals_seeds_and_power():
    _, numbers = claim(Above(), UP, ZERO).judge(RESULT)
    low, high = ttest_1samp(UP, 0).confidence_interval(1 - 0.05 / 2)
    assert f"0 +1.00 ({low:+.2f} to {high:+.2f})" in numbers
    assert numbers.startswith("holds in 1 of 2; ")
    assert f"could have shown {(high - low) / 2:.2f}" in numbers
    assert "points, above 0; 3 seeds" in numbers


def test_findings_name_the_command_that_measures_them():
    more = Claim("text", lambda result: [], Above(), reproduce_with="--scale paper")
    commands = [finding.command for finding in judge([claim(Above(), UP), more], RESULT)]
    assert commands == ["neuronal reproduce a/b --scale small", "neuronal reproduce a/b --scale paper"]


def test_differences_are_taken_over_the_seeds_both_have():
    assert paired({0: 0.5, 1: 0.25, 2: 1.0}, {2: 0.5, 0: 0.25, 7: 0.0}, 100) == [25.0, 50.0]


def test_an_interval_of_splits_that_overlap_is_wider():
    values = list(np.random.default_rng(0).normal(size=10))
    low, high = ttest_1samp(values, 0).confidence_interval()
    factor = (1 + 10 * 0.25) ** 0.5
    middle, half = (low + high) / 2, factor * (high - low) / 2
    numbers = claim(Above(inf), values, overlap=0.25).judge(RESULT)[1]
    assert f"({middle - half:+.2f} to {middle + half:+.2f})" in numbers


# Calibration: how often a claim comes out how, when the truth is known.

DRAWS = 4000
SLACK = 0.011
"""Three standard errors of a share of 5% over the draws."""


def shares(draw, side, **options):
    rng = np.random.default_rng(1)
    results = [outcome(side, *draw(rng), **options) for _ in range(DRAWS)]
    return {name: results.count(name) / DRAWS for name in ("holds", "fails", "inconclusive")}


@pytest.mark.parametrize("seeds", [3, 10])
@pytest.mark.parametrize("num_cases", [1, 5])
def test_identical_neurons_differ_in_at_most_5_percent(seeds, num_cases):
    def identical(rng):
        return rng.normal(size=(num_cases, seeds)) - rng.normal(size=(num_cases, seeds))

    for needs in ("all", "some"):
        found = shares(identical, Above(), needs=needs)
        assert found["holds"] <= 0.05 + SLACK
        assert found["fails"] <= 0.05 + SLACK
        assert found["inconclusive"] >= 0.9 - SLACK


@pytest.mark.parametrize("seeds", [3, 10])
@pytest.mark.parametrize("side", [-1, 1])
def test_equality_holds_in_at_most_5_percent_at_its_margin(seeds, side):
    def at_the_margin(rng):
        return side * 2.0 + rng.normal(size=(1, seeds)) * 0.5

    assert shares(at_the_margin, Within(2.0))["holds"] <= 0.05 + SLACK


def test_equality_holds_where_networks_are_equal():
    assert shares(lambda rng: rng.normal(size=(1, 10)) * 0.5, Within(2.0))["holds"] > 0.95


def pooled(rng, effect, sets=6, splits=10, overlap=0.25):
    """Differences on several data sets; splits of one set share rows, so that their differences are correlated."""
    share = overlap / (1 + overlap)
    samples = []
    for _ in range(sets):
        deviation = (1 - share) ** 0.5
        values = rng.normal() * share**0.5 + (rng.normal(size=splits) + effect) * deviation
        samples.append(Case("", list(values * rng.uniform(0.1, 10)), overlap))
    return Claim("text", lambda result: [Pooled("", samples)], Above()).judge(RESULT)[0]


def test_pooled_sets_are_calibrated_and_show_what_single_sets_cannot():
    rng = np.random.default_rng(2)
    null = [pooled(rng, 0.0) for _ in range(2000)]
    assert null.count("holds") / 2000 <= 0.05
    assert null.count("fails") / 2000 <= 0.05
    # No single set can show 1.2 standard deviations; the pool mostly does.
    assert [pooled(rng, 1.2) for _ in range(500)].count("holds") / 500 > 0.9
    single = [outcome(Above(), rng.normal(size=10) + 1.2, overlap=0.25) for _ in range(500)]
    assert single.count("holds") / 500 < 0.5
