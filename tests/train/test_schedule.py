import random

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from neuronal.train.optim import Plan
from neuronal.train.schedule import Plateau
from tests.train.test_optim import PLAN, torch_rates


@pytest.mark.parametrize(("num_steps", "warmup"), [(10, 0.2), (97, 0.05), (20, 0.5), (7, 0.0)])
def test_warm_up_then_schedule_is_torchs_sequence_of_both(num_steps, warmup):
    rising = round(warmup * num_steps)

    def make(optimiser):
        cosine = lr_scheduler.CosineAnnealingLR(optimiser, num_steps - rising)
        if not rising:
            return cosine
        rise = lr_scheduler.LinearLR(optimiser, 1 / (rising + 1), total_iters=rising)
        return lr_scheduler.SequentialLR(optimiser, [rise, cosine], [rising])

    plan = Plan(**PLAN, schedule="cosine", warmup=warmup)
    ours = [plan.lr_at(step, num_steps) for step in range(num_steps)]
    assert ours == pytest.approx(torch_rates(make, num_steps), abs=1e-12)


@pytest.mark.parametrize(("measure", "mode"), [("loss", "min"), ("accuracy", "max")])
@pytest.mark.parametrize("patience", [1, 2, 5])
def test_plateau_cuts_when_torchs_does(measure, mode, patience):
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = lr_scheduler.ReduceLROnPlateau(optimiser, mode, factor=0.5, patience=patience, min_lr=0, eps=0)
    chance, ours = random.Random(patience), Plateau()
    for _ in range(60):
        value = round(chance.uniform(0.5, 1), 2)
        theirs.step(value)
        ours = ours.after(value, measure, patience)
        assert 0.5**ours.cuts == optimiser.param_groups[0]["lr"]
    assert ours.cuts > 2


def test_plateau_counts_epochs_since_the_best():
    state = Plateau()
    for value, since in [(3.0, 0), (2.0, 0), (2.0, 1), (1.99999, 2), (float("nan"), 3), (1.5, 0), (1.6, 1)]:
        state = state.after(value, "loss", 0)
        assert state.since_best == since
    assert (state.best, state.cuts) == (1.5, 0)
    assert Plateau().after(float("nan"), "loss", 0).best is None
