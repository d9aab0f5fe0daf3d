from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from neuronal.experiments.compare import METRICS, difference, estimate, estimates
from neuronal.experiments.record import Failure


def with_accuracy(record, seed, accuracy, family="standard"):
    recipe = replace(record.recipe, family=family)
    return replace(record, recipe=recipe, seed=seed, metrics={**record.metrics, "accuracy": accuracy})


def test_estimates_against_scipy():
    values = [0.91, 0.92, 0.95, 0.90]
    ours = estimate(values)
    assert ours.mean == pytest.approx(np.mean(values))
    assert ours.standard_error == pytest.approx(stats.sem(values))
    assert ours.num_seeds == 4
    assert estimate([0.9]).standard_error is None


def test_differences_against_scipys_paired_interval():
    a, b = {0: 0.91, 1: 0.93, 2: 0.95, 9: 0.1}, {0: 0.90, 1: 0.90, 2: 0.93, 8: 0.2}
    ours = difference(a, b)
    oracle = stats.ttest_rel([a[s] for s in (0, 1, 2)], [b[s] for s in (0, 1, 2)]).confidence_interval(0.95)
    assert (ours.low, ours.high) == pytest.approx((oracle.low, oracle.high))
    assert ours.num_seeds == 3
    assert difference({0: 1.0}, {0: 0.0}).low is None
    assert not difference({0: 1.0}, {0: 0.0}).is_shown
    assert difference({0: 1.0, 1: 1.01}, {0: 0.0, 1: 0.0}).is_shown
    # Two seeds that differ by the same one image say nothing about chance.
    same = difference({0: 0.902, 1: 0.932}, {0: 0.9, 1: 0.93})
    assert same.mean == pytest.approx(0.002)
    assert same.low is None
    assert not same.is_shown


def test_intervals_hold_for_all_comparisons_at_once(quick_records):
    random = np.random.default_rng(0)
    families = ["standard", "b", "c", "d", "e"]

    def shown():
        records = [with_accuracy(quick_records[0], s, random.normal(0.9, 0.01), f) for s in range(3) for f in families]
        return any(row.against_baseline["accuracy"].is_shown for row in estimates(records)[1:])

    # Neurons that do not differ are said to differ in at most 5% of studies, plus three standard errors of 400 trials.
    assert np.mean([shown() for _ in range(400)]) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_records_of_different_experiments_are_not_mixed(quick_records):
    other = replace(quick_records[1], recipe=replace(quick_records[1].recipe, lr=7))
    with pytest.raises(ValueError, match="records of one experiment, got different recipes for zero_bias"):
        estimates([quick_records[0], other])
    with pytest.raises(ValueError, match="each trial once, got standard with seed 0 twice"):
        estimates([quick_records[0], quick_records[0]])
    with pytest.raises(ValueError, match="needs records, got none"):
        estimates([])


def test_rows_group_by_neuron_and_failures_are_named_not_averaged(quick_records):
    record = quick_records[0]
    records = [with_accuracy(record, seed, 0.9 + seed / 100) for seed in range(3)]
    records += [with_accuracy(record, seed, 0.95, "zero_bias") for seed in range(2)]
    failed = replace(records[-1], seed=2, metrics={}, probes={}, failure=Failure(7, 0.1, "the loss became nan"))
    standard, zero_bias = rows = estimates([*records, failed])
    assert standard.estimates["accuracy"].mean == pytest.approx(0.91)
    assert zero_bias.estimates["accuracy"].num_seeds == 2
    assert zero_bias.failed == {2: "the loss became nan"}
    assert zero_bias.against_baseline["accuracy"].mean == pytest.approx(0.045)
    assert standard.against_baseline == {}
    assert [row.family for row in rows] == ["standard", "zero_bias"]
    assert estimates([failed])[0].estimates == {}


def test_probes_that_were_not_run_leave_their_metric_out(quick_records):
    bare = [replace(record, probes={}) for record in quick_records]
    assert set(estimates(bare)[0].estimates) == {"accuracy", "parameters"}
    assert set(estimates(quick_records)[0].estimates) == {metric.key for metric in METRICS} - {"rmse"}


def test_a_count_of_next_to_nothing_gives_no_metric(quick_records):
    """As somebody may write it into a record: shares of it are infinite."""
    odd = {"dead_units": {"units": 1e-320, "dead": 3, "layers": []}}
    records = [replace(record, probes=odd) for record in quick_records]
    assert set(estimates(records)[0].estimates) == {"accuracy", "parameters"}


def test_without_the_baseline_there_are_no_differences(quick_records):
    (alone,) = estimates([record for record in quick_records if record.recipe.family == "zero_bias"])
    assert alone.against_baseline == {}
