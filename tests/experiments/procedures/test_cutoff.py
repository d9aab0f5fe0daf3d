"""Conditions on the last bias, against a closed formula."""

import numpy as np
import pytest

from neuronal.experiments.procedures.farkas.cutoff import EXTRA, _smallest, findings, measure, smallest_largest
from neuronal.experiments.reproduction import Setting


@pytest.mark.parametrize("units", [2, 3, 8, 20])
def test_the_smallest_largest_is_the_mean_of_the_biases(units):
    # All units can be made equal, and their sum is that of the biases, whatever the input.
    draw = np.random.default_rng(units)
    rows, bias = draw.standard_normal((units - 1, units - 1)), draw.standard_normal(units)
    found = smallest_largest(np.vstack([rows, -rows.sum(0)]), bias)
    assert found == pytest.approx(bias.mean(), abs=1e-7)


@pytest.mark.parametrize(
    ("cutoff", "condition", "least"),
    [(1.0, "paper", 1 / 8), (1.0, "ours", 1.0), (-1.0, "paper", -1 / 8), (0.0, "algorithm", 0.0)],
)
def test_what_each_condition_leaves(cutoff, condition, least):
    assert _smallest(8, cutoff, condition, 0) == pytest.approx(least, abs=EXTRA)


def test_verdicts():
    answer = {"result": measure(Setting(options={"units": (4,), "cutoffs": (0.0, 1.0), "seeds": (0, 1)}), None)}
    assert [one.verdict for one in findings(answer)] == ["not true as stated", "reproduced", "not true as stated"]
