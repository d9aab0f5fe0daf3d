"""Tested with a clock of our own: a test that measures real time would fail on a busy machine."""

import pytest
import torch
from torch import nn

from neuronal.data.dataset import Split
from neuronal.train import timing


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Takes(nn.Module):
    """Moves the clock by ``seconds`` per call, by ten times as much in busy calls."""

    def __init__(self, clock, seconds, busy=()):
        super().__init__()
        self.linear, self.clock, self.seconds, self.busy, self.calls = nn.Linear(3, 2), clock, seconds, busy, 0

    def forward(self, x):
        self.clock.now += self.seconds * (10 if self.calls in self.busy else 1)
        self.calls += 1
        return self.linear(x)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(timing, "perf_counter", clock)
    return clock


BATCH = Split(torch.randn(4, 3), torch.tensor([0, 1, 0, 1]))


def test_ratios_are_to_the_baseline_of_the_same_round(clock):
    """And busy rounds, or the warm-up, do not move the median."""
    models = {"plain": Takes(clock, 0.2, busy={0, 1, 5}), "twice": Takes(clock, 0.4, busy={0, 1, 5, 7})}
    models["half"] = Takes(clock, 0.1)
    times = timing.step_times(models, "plain", BATCH, rounds=9, warmup=2)
    assert times["twice"].ratio == pytest.approx(2)
    assert times["half"].ratio == pytest.approx(0.5)
    assert times["plain"].ratio == times["plain"].ratio_low == times["plain"].ratio_high == 1
    assert times["twice"].seconds == pytest.approx(0.4)


def test_every_round_starts_with_another_model(clock):
    order = []
    actions = {name: (lambda name=name: order.append(name)) for name in "abc"}
    with pytest.raises(ZeroDivisionError):
        # The clock stands still: there is nothing to divide, but the order is known by then.
        timing.side_by_side(actions, "a", rounds=3, warmup=0)
    assert "".join(order) == "abcbcacab"


def test_the_baseline_must_be_there(clock):
    with pytest.raises(ValueError, match="needs to be one of a, got 'b'"):
        timing.step_times({"a": Takes(clock, 1)}, "b", BATCH)
