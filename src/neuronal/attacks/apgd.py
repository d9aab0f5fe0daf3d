"""Projected gradient ascent that chooses its own steps: long ones first, halved where they no longer help."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from neuronal.attacks.ball import Ball
from neuronal.attacks.climb import BATCH, Landscape, View, climbed
from neuronal.attacks.result import Attacked

MOMENTUM = 0.75
"""Share of the new step; the rest is the step before."""
RISES = 0.75
"""Share of the steps since the last checkpoint that have to go up."""


def checkpoints(steps: int) -> list[int]:
    """The steps after which the step size is looked at: 22% first, then ever shorter periods of at least 6%."""
    # In whole per cent: a sum of fractions may end up just above a whole number.
    before, at = 0, 22
    found = []
    while at < 100:
        found.append(-(-at * steps // 100))
        before, at = at, at + max(at - before - 3, 6)
    return sorted(set(found))


def apgd(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    ball: Ball,
    *,
    steps: int = 100,
    loss: str = "cross_entropy",
    restarts: int = 1,
    surrogate: nn.Module | None = None,
    seed: int = 0,
    batch_size: int = BATCH,
) -> Attacked:
    """Auto-PGD with the cross-entropy (APGD-CE) or the difference of logits ratio (``loss="dlr"``).

    Steps start at twice epsilon and have momentum. At every checkpoint, input by input: where fewer than three quarters of
    the steps went up, or neither the step size nor the best loss changed since the checkpoint before, the step is halved
    and the climb goes on from the best point so far.

    Args:
        model, x, y, ball, loss, restarts, surrogate, seed, batch_size: As for :func:`neuronal.attacks.pgd`.
        steps: Of each climb.

    Law:
        Step sizes follow the published rule (tests/attacks/test_apgd.py).

    Reference:
        Croce & Hein, Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free attacks,
        ICML 2020, arXiv:2003.01690, Algorithm 1.
    """
    if steps < 1:
        raise ValueError(f"steps needs to be at least 1, got {steps}.")

    def climb(landscape: Landscape, centre: Tensor, start: Tensor) -> Iterator[View]:
        return ascent(landscape, centre, start, ball, steps)

    return climbed(
        model,
        x,
        y,
        ball,
        climb,
        loss=loss,
        restarts=restarts,
        random_start=True,
        surrogate=surrogate,
        seed=seed,
        batch_size=batch_size,
    )


def ascent(
    landscape: Landscape, centre: Tensor, start: Tensor, ball: Ball, steps: int, sizes: list[Tensor] | None = None
) -> Iterator[View]:
    """The climb itself; ``sizes`` gets the step size of every step."""
    shape = (-1, *[1] * (centre.dim() - 1))
    size = torch.full((len(centre),), 2 * ball.epsilon, device=centre.device, dtype=centre.dtype)
    view = best = landscape.at(start)
    yield view
    before = view.points
    rises = torch.zeros(len(centre), device=centre.device)
    size_then, best_then, looked = size.clone(), best.loss.clone(), 0
    looks = set(checkpoints(steps))
    for step in range(1, steps + 1):
        if sizes is not None:
            sizes.append(size.clone())
        ahead = ball.project(view.points + size.view(shape) * ball.ascent(view.gradient), centre)
        if step > 1:
            share = view.points + MOMENTUM * (ahead - view.points) + (1 - MOMENTUM) * (view.points - before)
            ahead = ball.project(share, centre)
        last, before = view, view.points
        view = landscape.at(ahead)
        yield view
        rises += view.loss > last.loss
        best = _where(view.loss > best.loss, view, best)
        if step in looks:
            stuck = (size == size_then) & (best.loss <= best_then)
            halve = (rises < RISES * (step - looked)) | stuck
            size_then, best_then, looked = size.clone(), best.loss.clone(), step
            size = torch.where(halve, size / 2, size)
            view = _where(halve, best, view)
            rises.zero_()


def _where(condition: Tensor, one: View, other: View) -> View:
    wide = condition.view(-1, *[1] * (one.points.dim() - 1))
    return View(
        torch.where(wide, one.points, other.points),
        torch.where(condition, one.loss, other.loss),
        torch.where(wide, one.gradient, other.gradient),
        torch.where(condition, one.errs, other.errs),
    )
