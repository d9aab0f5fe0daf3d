"""Projected gradient ascent: steps of equal length, back into the ball after each."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from neuronal.attacks.ball import Ball
from neuronal.attacks.climb import BATCH, Landscape, View, climbed
from neuronal.attacks.result import Attacked


def pgd(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    ball: Ball,
    *,
    steps: int = 40,
    step_size: float | None = None,
    loss: str = "cross_entropy",
    restarts: int = 1,
    random_start: bool = True,
    surrogate: nn.Module | None = None,
    seed: int = 0,
    batch_size: int = BATCH,
) -> Attacked:
    r"""The attack of Madry and others.

    .. math:: x_{k+1} = P\big(x_k + \alpha \, d(\nabla L(x_k))\big)

    with the sign as direction d for the norm "inf" and the normalised gradient for 2.

    Args:
        model: Attacked, and asked whether it errs; evaluation mode, not changed.
        x: Inputs, in the box.
        y: Their labels.
        ball: How far an input may be changed.
        steps: Of each climb; 0 looks at the random starts only.
        step_size: Length of a step; 2.5 epsilon / steps if left out.
        loss: One of ``LOSSES``.
        restarts: Climbs from different places.
        random_start: Whether a climb starts anywhere in the ball, or at the input.
        surrogate: A network that is climbed in the place of ``model``, which then only says whether it errs.
        seed: Fixes the starts.
        batch_size: Inputs at a time; the result does not depend on it.

    Law:
        The points are in the ball and in the box (tests/attacks/test_pgd.py).

    Reference:
        Madry, Makelov, Schmidt, Tsipras & Vladu, Towards Deep Learning Models Resistant to Adversarial Attacks, ICLR 2018.

    Departs:
        Every point on the way counts, not the last one only.
    """
    if steps < 0:
        raise ValueError(f"steps needs to be 0 or more, got {steps}.")
    length = 2.5 * ball.epsilon / max(steps, 1) if step_size is None else step_size

    def climb(landscape: Landscape, centre: Tensor, start: Tensor) -> Iterator[View]:
        view = landscape.at(start)
        yield view
        for _ in range(steps):
            view = landscape.at(ball.project(view.points + length * ball.ascent(view.gradient), centre))
            yield view

    return climbed(
        model,
        x,
        y,
        ball,
        climb,
        loss=loss,
        restarts=restarts,
        random_start=random_start,
        surrogate=surrogate,
        seed=seed,
        batch_size=batch_size,
    )
