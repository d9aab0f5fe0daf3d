"""A training that ends with the weights of its best epoch: against one that ends there."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from neuronal.train.checkpoint import Checkpoints
from neuronal.train.loop import fit
from neuronal.train.optim import Plan
from tests.train.small import data

PLAN = Plan(epochs=5, batch_size=16, optim="sgd", lr=0.1)


def wrong():
    """Validation data that get worse while training gets better: the first epoch is the best."""
    split = data()
    return replace(split, answers=(split.answers + 1) % 3)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def trained(plan, **more):
    model = network()
    fitted = fit(model, data(), plan, seed=1, **more)
    return model.state_dict(), fitted


assert_equal = partial(torch.testing.assert_close, rtol=0, atol=0)


@pytest.mark.parametrize(("options", "epochs"), [({"keep_best": True}, 5), ({"stop_after": 2}, 3)])
def test_the_weights_are_those_of_the_best_epoch(options, epochs):
    weights, fitted = trained(replace(PLAN, **options), validation=wrong())
    losses = [epoch.measured["validation_loss"] for epoch in fitted.epochs]
    assert losses.index(min(losses)) == 0
    assert len(losses) == epochs
    assert fitted.best_epoch == 1
    # Statistics of batch norm are the best epoch's, too.
    assert_equal(weights, trained(replace(PLAN, epochs=1))[0])


def test_without_it_they_are_the_last_and_the_best_may_be_the_last():
    last, fitted = trained(replace(PLAN, cut_after=9), validation=wrong())
    assert fitted.best_epoch is None
    assert_equal(last, trained(PLAN)[0])
    weights, fitted = trained(replace(PLAN, keep_best=True), validation=data())
    assert fitted.best_epoch == 5
    assert_equal(weights, last)


@pytest.mark.parametrize("kept", [1, 7, 13, 20])
def test_the_best_weights_survive_a_stop(tmp_path, kept):
    """With only the checkpoints up to a step left, before and after the best epoch, and of the end."""
    plan = replace(PLAN, keep_best=True)
    expected, fitted = trained(plan, validation=wrong())
    trained(plan, validation=wrong(), checkpoints=Checkpoints(tmp_path, every=1, keep=99))
    for file in sorted(tmp_path.iterdir())[kept:]:
        file.unlink()
    resumed, again = trained(plan, validation=wrong(), checkpoints=tmp_path)
    assert again.best_epoch == fitted.best_epoch == 1
    assert_equal(resumed, expected)


def test_a_fresh_start_forgets_the_best_before_it():
    """The standard epochs are another network's: the best is one of those after them, however good the first was."""
    _, fitted = trained(replace(PLAN, keep_best=True, standard_epochs=2), validation=wrong())
    losses = [epoch.measured["validation_loss"] for epoch in fitted.epochs]
    assert min(losses) == losses[0]
    assert fitted.best_epoch == 3 + losses[2:].index(min(losses[2:]))
