"""The checks pass for an honest network and fail for one that hides its gradient."""

import torch
from torch import nn

from neuronal.attacks import Ball, pgd
from neuronal.attacks.masking import (
    more_steps_help,
    reaches_everything,
    solver_does_not_matter,
    tighter,
    white_box_is_strongest,
)
from neuronal.attacks.result import Attacked
from tests.attacks.problems import implicit, linear
from tests.geometry.networks import Does


def test_an_honest_network_passes():
    model, x, y = linear()
    ball = Ball("inf", 0.05)
    white, noise = pgd(model, x, y, ball), pgd(model, x, y, ball, steps=0, restarts=20)
    assert reaches_everything(pgd(model, x, y, Ball("inf", 1.0))).passed
    assert white_box_is_strongest(white, {"noise": noise}).passed
    assert more_steps_help(lambda steps: pgd(model, x, y, ball, steps=steps), (1, 5, 20)).passed
    assert solver_does_not_matter(model, lambda model: pgd(model, x, y, ball)).passed


def test_a_hidden_gradient_is_seen():
    """In steps of a tenth: the gradient is 0 nearly everywhere."""
    model, x, y = linear()
    hidden = nn.Sequential(Does(lambda x: (x * 10).round() / 10 + 0 * x), model)
    y = hidden(x).argmax(1)
    ball = Ball("inf", 0.1)
    white = pgd(hidden, x, y, ball, random_start=False)
    transfer = pgd(hidden, x, y, ball, surrogate=model)
    assert not reaches_everything(pgd(hidden, x, y, Ball("inf", 1.0), random_start=False)).passed
    check = white_box_is_strongest(white, {"transfer": transfer})
    assert not check.passed
    assert "transfer" in check.numbers


def test_more_steps_that_hurt_are_seen():
    def worse(steps):
        success = torch.arange(100) >= steps
        return Attacked(torch.zeros(100, 1), success, torch.ones(100))

    assert not more_steps_help(worse, (10, 20)).passed


def test_a_solver_that_is_too_loose_is_seen():
    model, x, y = implicit(coupling=-2.0)

    def attack(one):
        return pgd(one, x, y, Ball("inf", 0.1), steps=5)

    assert solver_does_not_matter(model, attack).passed
    assert [m.tolerance for m in tighter(model, 10).modules() if hasattr(m, "tolerance")] == [1e-5]
    assert [m.tolerance for m in model.modules() if hasattr(m, "tolerance")] == [1e-4]

    class Loose(nn.Sequential):
        """Answers that depend on how well it is solved."""

        def forward(self, x):
            tolerance = next(m.tolerance for m in self.modules() if hasattr(m, "tolerance"))
            return super().forward(x) if tolerance < 1e-5 else -super().forward(x)

    assert not solver_does_not_matter(Loose(model), attack).passed
