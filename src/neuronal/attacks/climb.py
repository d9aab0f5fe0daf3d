"""What gradient attacks share: a network with its loss as a landscape, and climbs from several places at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from neuronal.attacks.ball import Ball
from neuronal.attacks.loss import LOSSES
from neuronal.attacks.result import Attacked, Kept, check_inputs
from neuronal.core.inference import call_on_copy, evaluating
from neuronal.names import find

BATCH = 256


@dataclass(frozen=True, eq=False)
class View:
    """One point per input: the loss there, its gradient, and whether the class is wrong."""

    points: Tensor
    loss: Tensor
    gradient: Tensor
    errs: Tensor


class Landscape:
    """The loss of a network over the inputs, for given labels. Implicit-bias layers have the gradient of their solution."""

    def __init__(self, model: nn.Module, y: Tensor, loss: str) -> None:
        self.model, self.y, self.loss = model, y, find(LOSSES, loss, "loss of an attack")

    def at(self, points: Tensor) -> View:
        points = points.detach().requires_grad_()
        with torch.enable_grad():
            logits = call_on_copy(self.model, points)
            loss = self.loss(logits, self.y)
            (gradient,) = torch.autograd.grad(loss.sum(), points)
        return View(points.detach(), loss.detach(), _numbers(gradient), logits.detach().argmax(1) != self.y)


def _numbers(gradient: Tensor) -> Tensor:
    """The gradient, 0 for inputs that have none: a point that is no number is in no ball, and fools nobody."""
    known = gradient.flatten(1).isfinite().all(1)
    if bool(known.all()):
        return gradient
    warnings.warn(
        f"the gradient of the loss is not finite at {int((~known).sum())} of {len(known)} inputs: the attack does not move "
        "these, and says little about them.",
        RuntimeWarning,
        stacklevel=2,
    )
    return torch.where(known.view(-1, *[1] * (gradient.dim() - 1)), gradient, 0.0)


Climb = Callable[[Landscape, Tensor, Tensor], Iterator[View]]
"""(landscape, inputs, first points) -> the points it goes through, the first ones included."""


def climbed(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    ball: Ball,
    climb: Climb,
    *,
    loss: str,
    restarts: int,
    random_start: bool,
    surrogate: nn.Module | None,
    seed: int,
    batch_size: int,
) -> Attacked:
    """Climbs ``restarts`` times and keeps the worst case of every input.

    Every point on the way is judged where the network itself is climbed. With a ``surrogate`` that one is climbed, and the
    network is asked about the highest and the last point of every climb. Inputs that err already are left alone.
    Random numbers are drawn for all inputs at once, so that they depend on nothing but the seed.
    """
    x, y = check_inputs(x, y, ball.box)
    if restarts < 1:
        raise ValueError(f"restarts needs to be at least 1, got {restarts}.")
    kept = Kept(model, x, y, batch_size)
    source = model if surrogate is None else surrogate
    device = next(source.parameters()).device
    for number in range(restarts):
        generator = torch.Generator().manual_seed((seed << 16) + number)
        starts = ball.starts(x, generator) if random_start else x
        for rows in kept.left().split(batch_size):
            there = (y[rows].to(device), x[rows].to(device), starts[rows].to(device))
            with evaluating(source):
                views = climb(Landscape(source, there[0], loss), *there[1:])
                if surrogate is None:
                    _judge_all(kept, rows, views)
                else:
                    _judge_by(model, kept, rows, views)
    return kept.result()


def _judge_all(kept: Kept, rows: Tensor, views: Iterator[View]) -> None:
    for view in views:
        kept.queries[rows] += 1
        kept.add(rows, view.points, view.loss, view.errs)
        if bool(kept.errs[rows].all()):
            break


def _judge_by(model: nn.Module, kept: Kept, rows: Tensor, views: Iterator[View]) -> None:
    best: tuple[Tensor, Tensor] | None = None
    for view in views:
        kept.queries[rows] += 1
        if best is None:
            best = view.points.clone(), view.loss.clone()
        higher = view.loss > best[1]
        best[0][higher], best[1][higher] = view.points[higher], view.loss[higher]
        last = view.points, view.loss
    assert best is not None
    device = next(model.parameters()).device
    for points, loss in (best, last):
        with evaluating(model):
            errs = call_on_copy(model, points.to(device)).argmax(1).cpu() != kept.y[rows]
        kept.queries[rows] += 1
        kept.add(rows, points, loss, errs)
