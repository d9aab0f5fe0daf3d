"""Losses by hand, and a training on numbers against a plain loop."""

from dataclasses import replace

import pytest
import torch

from neuronal.data.dataset import Split
from neuronal.data.scaling import Scaling
from neuronal.train.loop import fit
from neuronal.train.mixup import mixed_loss
from neuronal.train.optim import Plan
from neuronal.train.validation import validate
from tests.train.small import data, plain, plain_loop

PLAN = Plan(epochs=3, batch_size=16, optim="sgd", lr=0.05)


def numbers(count=50):
    random = torch.Generator().manual_seed(3)
    x = torch.randn(count, 4, generator=random)
    return Split(x, 30 + 5 * x[:, 0] - 2 * x[:, 1], answer_scaling=Scaling((30.0,), (6.0,)))


def network():
    return plain(inputs=4, outputs=1)


@pytest.mark.parametrize(("name", "power"), [("", 2), ("squared", 2), ("absolute", 1)])
def test_training_on_numbers_is_a_plain_loop(name, power):
    """On |difference| ** power of the scaled answers."""
    ours, theirs, split = network(), network(), numbers()

    def loss(outputs, target):
        return ((outputs[:, 0] - target).abs() ** power).mean()

    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=0.9)
    target = (split.answers - 30) / 6
    expected, _ = plain_loop(theirs, split.stored, target, optimiser, epochs=3, seed=1, loss=loss)
    last = fit(ours, split, replace(PLAN, loss=name), seed=1).epochs[-1]
    # float32, squares by two routes.
    torch.testing.assert_close(ours.cpu().state_dict(), theirs.state_dict(), atol=1e-6, rtol=0)
    assert last.loss == pytest.approx(expected, abs=1e-6)
    assert last.accuracy is None


def test_steps_on_numbers_are_told_without_accuracy():
    told = []
    fit(network(), numbers(), replace(PLAN, batch_size=1, lr=1e-3), on_step=told.append)
    assert {step.accuracy for step in told} == {None}


def test_validation_of_numbers_is_their_mean_loss():
    model, split = network(), numbers()
    error = (model(split.stored)[:, 0] - (split.answers - 30) / 6).detach().numpy()
    assert validate(model, split, 16, "squared") == {"loss": pytest.approx((error**2).mean(), rel=1e-6)}
    assert validate(model, split, 16, "absolute") == {"loss": pytest.approx(abs(error).mean(), rel=1e-6)}


def test_mixed_answers_are_mixed_losses():
    outputs, y = torch.randn(5, 1), torch.randn(5)
    partner = y[[4, 0, 1, 2, 3]]
    expected = 0.3 * ((outputs[:, 0] - y) ** 2).mean() + 0.7 * ((outputs[:, 0] - partner) ** 2).mean()
    torch.testing.assert_close(mixed_loss(outputs, y, "squared", 0.3), expected)


@pytest.mark.parametrize(
    ("split", "wrong", "message"),
    [
        (numbers(), {"loss": "cross_entropy"}, "loss 'cross_entropy' does not go with answers that are numbers"),
        (data(), {"loss": "squared"}, "loss 'squared' does not go with answers that are classes"),
        (numbers(), {"stop_after": 1, "monitor": "accuracy"}, "monitor 'accuracy' needs answers that are classes"),
    ],
)
def test_plans_for_other_answers_are_refused(split, wrong, message):
    with pytest.raises(ValueError, match=message):
        fit(network(), split, replace(PLAN, **wrong), validation=split)
