"""Losses by hand, and a training on numbers against a plain loop."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from neuronal.data.dataset import Split
from neuronal.data.scaling import Scaling
from neuronal.ops.objective import loss_for, loss_of, num_right
from neuronal.train.loop import fit
from neuronal.train.mixup import mixed_loss
from neuronal.train.optim import Plan
from neuronal.train.validation import validate

PLAN = Plan(epochs=3, batch_size=16, optim="sgd", lr=0.05)


def numbers(count=50):
    random = torch.Generator().manual_seed(3)
    x = torch.randn(count, 4, generator=random)
    return Split(x, 30 + 5 * x[:, 0] - 2 * x[:, 1], answer_scaling=Scaling((30.0,), (6.0,)))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


def by_hand(power):
    """Plain SGD with momentum on |difference| ** power of the scaled answers; mean loss of the last epoch."""
    model, split = network(), numbers()
    target = (split.answers - 30) / 6
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    order = torch.Generator().manual_seed(1)
    for _ in range(3):
        losses = []
        for rows in torch.randperm(50, generator=order).split(16):
            loss = ((model(split.stored[rows])[:, 0] - target[rows]).abs() ** power).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    return model, np.mean(losses)


@pytest.mark.parametrize(("name", "power"), [("", 2), ("squared", 2), ("absolute", 1)])
def test_training_on_numbers_is_a_plain_loop(name, power):
    model = network()
    fitted = fit(model, numbers(), replace(PLAN, loss=name), seed=1)
    plain, loss = by_hand(power)
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        # float32, squares by two routes.
        torch.testing.assert_close(ours.cpu(), theirs, atol=1e-6, rtol=0)
    assert fitted.epochs[-1].loss == pytest.approx(loss, abs=1e-6)
    assert fitted.epochs[-1].accuracy is None


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
    ("y", "chosen", "message"),
    [
        (torch.zeros(2), "cross_entropy", "loss 'cross_entropy' does not go with answers that are numbers"),
        (torch.zeros(2).long(), "squared", "loss 'squared' does not go with answers that are classes"),
    ],
)
def test_a_loss_for_other_answers_is_refused(y, chosen, message):
    with pytest.raises(ValueError, match=message):
        loss_for(y, chosen)
    split = Split(torch.zeros(2, 4), y)
    with pytest.raises(ValueError, match=message):
        fit(network(), split, replace(PLAN, loss=chosen))


def test_the_loss_goes_by_the_answers():
    assert loss_for(torch.zeros(2), "") == "squared"
    assert loss_for(torch.zeros(2).long(), "") == "cross_entropy"
    assert loss_of(torch.tensor([[3.0]]), torch.tensor([1.0]), "absolute").item() == 2
    assert num_right(torch.tensor([[1.0], [0.0]]), torch.tensor([0.0, 0.0])) == 0
    assert num_right(torch.eye(3), torch.tensor([0, 1, 1])) == 2


def test_accuracy_of_numbers_cannot_be_followed():
    plan = replace(PLAN, stop_after=1, monitor="accuracy")
    with pytest.raises(ValueError, match="monitor 'accuracy' needs answers that are classes, got numbers"):
        fit(network(), numbers(), plan, validation=numbers())
