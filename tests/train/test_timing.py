"""Tested with a clock of our own: a test that measures real time would fail on a busy machine."""

import pytest
import torch
from torch import nn

from neuronal.data.dataset import Split
from neuronal.train import timing

BATCH = Split(torch.randn(4, 3), torch.tensor([0, 1, 0, 1]))


def test_ratios_are_to_the_baseline_of_the_same_round(takes):
    """And busy rounds, or the warm-up, do not move the median."""
    seconds = {"plain": takes(0.2, {0, 1, 5}), "twice": takes(0.4, {0, 1, 5, 7}), "half": takes(0.1)}
    models = {name: nn.Linear(3, 2) for name in seconds}
    for name, model in models.items():
        model.register_forward_pre_hook(seconds[name])
    times = timing.step_times(models, "plain", BATCH, rounds=9, warmup=2)
    assert times["twice"].ratio == pytest.approx(2)
    assert times["half"].ratio == pytest.approx(0.5)
    assert times["plain"].ratio == times["plain"].ratio_low == times["plain"].ratio_high == 1
    assert times["twice"].seconds == pytest.approx(0.4)


def test_every_round_starts_with_another_model():
    order = []
    timing.time_rounds({name: (lambda name=name: order.append(name)) for name in "abc"}, rounds=3, warmup=0)
    assert "".join(order) == "abcbcacab"


def test_the_baseline_must_be_there():
    with pytest.raises(ValueError, match="needs to be one of a, got 'b'"):
        timing.step_times({"a": nn.Linear(3, 2)}, "b", BATCH)
