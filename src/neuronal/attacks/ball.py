"""Where an attack may look: at most so far from the input, and inside the box that all inputs are in."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal

import torch
from torch import Tensor

Norm = Literal[2, "inf"]


@dataclass(frozen=True)
class Ball:
    """All inputs within ``epsilon`` of an input, in the 2-norm or the largest-change norm, that are in the box.

    Args:
        norm: 2 or "inf".
        epsilon: Largest distance.
        box: Smallest and largest value of an input; [0, 1] for images.
    """

    norm: Norm
    epsilon: float
    box: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.norm not in (2, "inf"):
            raise ValueError(f'norm needs to be 2 or "inf", got {self.norm!r}.')
        if not (isfinite(self.epsilon) and self.epsilon >= 0):
            raise ValueError(f"epsilon needs to be a number that is not negative, got {self.epsilon}.")
        if not self.box[0] < self.box[1]:
            raise ValueError(f"box needs a smaller and a larger value, got {self.box}.")

    def project(self, points: Tensor, centre: Tensor) -> Tensor:
        """Points of the ball: for "inf" the nearest ones; for 2 scaled back to the ball and cut off at the box."""
        if self.norm == "inf":
            points = torch.minimum(torch.maximum(points, centre - self.epsilon), centre + self.epsilon)
        else:
            change = points - centre
            points = centre + change * (self.epsilon / _lengths(change)).clamp(max=1)
        # The centre is in the box, so cutting off brings every coordinate nearer to it.
        return points.clamp(*self.box)

    def ascent(self, gradient: Tensor) -> Tensor:
        """The direction of length 1, in the ball's norm, that climbs fastest; 0 where the gradient is."""
        return gradient.sign() if self.norm == "inf" else gradient / _lengths(gradient)

    def starts(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """A random point for every input: evenly from the ball, then cut off at the box."""
        if self.norm == "inf":
            change = 2 * torch.rand(x.shape, generator=generator) - 1
        else:
            change = torch.randn(x.shape, generator=generator)
            radius = torch.rand(len(x), generator=generator) ** (1 / max(1, change[:1].numel()))
            change = change / _lengths(change) * radius.view(-1, *[1] * (x.dim() - 1))
        return self.project(x + self.epsilon * change.to(x), x)


def _lengths(change: Tensor) -> Tensor:
    """2-norms, shaped to divide by; never 0."""
    tiny = torch.finfo(change.dtype).tiny
    lengths: Tensor = change.flatten(1).norm(dim=1).clamp(min=tiny)
    return lengths.view(-1, *[1] * (change.dim() - 1))
