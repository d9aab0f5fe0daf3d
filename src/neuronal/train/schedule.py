"""Learning-rate schedules: those that know the number of steps, and the one that waits for a measure to get better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import cos, pi
from typing import Literal

Measure = Literal["loss", "accuracy"]

# How much better, relative to the best so far, counts as better; torch's ReduceLROnPlateau has the same.
_THRESHOLD = 1e-4


def _constant(step: int, num_steps: int) -> float:
    return 1.0


def _cosine(step: int, num_steps: int) -> float:
    return (1 + cos(pi * step / num_steps)) / 2


def _step(step: int, num_steps: int) -> float:
    # A fifth of the rate at 30, 60 and 80 per cent: epochs 60, 120 and 160 of 200, as in Wide ResNets.
    return float(0.2 ** sum(10 * step >= tenths * num_steps for tenths in (3, 6, 8)))


def _one_cycle_linear(step: int, num_steps: int) -> float:
    # Up and down again, the peak in the middle; (step + 1) so that the first step already learns.
    return 1 - abs(2 * (step + 1) / (num_steps + 1) - 1)


SCHEDULES: dict[str, Callable[[int, int], float]] = {
    "constant": _constant,
    "cosine": _cosine,
    "step": _step,
    "one_cycle_linear": _one_cycle_linear,
}
"""Share of the learning rate at step ``step`` of ``num_steps``, counted from 0."""


def warmed_up(schedule: str, warmup: float, step: int, num_steps: int) -> float:
    """The schedule behind a straight rise over the first ``warmup`` (a share) of the steps."""
    rising = round(warmup * num_steps)
    if step < rising:
        # (step + 1) so that the first step already learns.
        return (step + 1) / (rising + 1)
    return SCHEDULES[schedule](step - rising, num_steps - rising)


@dataclass(frozen=True)
class Plateau:
    """A measure of the validation data, epoch by epoch: the best so far, and how long ago that was.

    Law:
        Cuts the rate in the same epochs as ``torch.optim.lr_scheduler.ReduceLROnPlateau`` (tests/train/test_schedule.py).
    """

    best: float | None = None
    since_best: int = 0
    """Epochs without getting better."""
    since_cut: int = 0
    """The same, counted anew after every cut."""
    cuts: int = 0

    def after(self, value: float, measure: Measure, cut_after: int) -> Plateau:
        """The state after another epoch; ``cut_after`` is 0 for never."""
        if self._is_better(value, measure):
            return replace(self, best=value, since_best=0, since_cut=0)
        since_cut = self.since_cut + 1
        cut = cut_after > 0 and since_cut > cut_after
        return Plateau(self.best, self.since_best + 1, 0 if cut else since_cut, self.cuts + cut)

    def _is_better(self, value: float, measure: Measure) -> bool:
        if self.best is None:
            # NaN is not better than nothing: it equals not even itself.
            return value == value
        margin = _THRESHOLD * self.best
        return value < self.best - margin if measure == "loss" else value > self.best + margin
