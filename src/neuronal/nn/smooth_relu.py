"""ReLU with a parabola in the place of its kink."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SmoothReLU(nn.Module):
    r"""A one-sided activation with a continuous derivative.

    .. math:: \psi(x) = 0 \;(x \le 0), \qquad x^2 / 2w \;(0 < x < w), \qquad x - w/2 \;(x \ge w)

    Args:
        width: :math:`w`, over which the slope rises from 0 to 1. One that is large beside the pre-activations squares them
            away: behind four layers of torch's own start images differ a third as much as with ReLU where it is 0.1, and a
            thousandth or less where it is 1.

    Law:
        Its derivative is that of ReLU outside of :math:`(0, w)` and a straight line inside (tests/nn/test_smooth_relu.py).

    Reference:
        Pooladian, Finlay & Oberman, Farkas layers, Section 3.2, name it without a formula.

    Departs:
        Which polynomial takes the place of the kink is our choice, and so is its width.
    """

    def __init__(self, width: float = 0.1) -> None:
        super().__init__()
        if not width > 0:
            raise ValueError(f"SmoothReLU needs width > 0, got {width}. nn.ReLU is the one without.")
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        rising = x.clamp(0, self.width)
        return torch.where(x < self.width, rising * rising / (2 * self.width), x - self.width / 2)

    def extra_repr(self) -> str:
        return f"width={self.width:g}"
