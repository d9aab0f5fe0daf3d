r"""Where units switch: the characteristic activation set of a unit is the hyperplane on which its input is zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Hinge", "hinge"]


@dataclass(frozen=True, eq=False)
class Hinge:
    r"""The hyperplanes :math:`\{x : u^\top x + \lambda = 0\}` of some units.

    A unit with zero weights has no hyperplane: its numbers are NaN.
    """

    normal: Tensor
    """:math:`u`, of length 1, pointing to where the pre-activation is positive: ``(units, n)``."""
    offset: Tensor
    r""":math:`\lambda`, the signed distance of the origin: positive when the pre-activation is. ``(units,)``."""

    @property
    def location(self) -> Tensor:
        r""":math:`\phi = -\lambda u`, the point of the hyperplane nearest to the origin: ``(units, n)``."""
        return -self.offset.unsqueeze(-1) * self.normal

    def distance(self, x: Tensor) -> Tensor:
        """Signed distance of points ``(..., n)``, positive where the pre-activation is: ``(..., units)``."""
        return x @ self.normal.mT + self.offset


def hinge(weight: Tensor, bias: Tensor | None) -> Hinge:
    """The hinges of a layer from its weight and bias, as every layer here, plain ones included, shows them.

    (A grouped Farkas layer has no such weight.)

    Args:
        weight: ``(units, ...)``; a filter counts as one vector, in torch's order.
        bias: ``(units,)``, or None for hinges through the origin.
    """
    w = weight.flatten(1)
    # Scaled first, because the squares of small weights are nothing.
    largest = w.abs().amax(1, keepdim=True)
    largest = torch.where(largest > 0, largest, torch.nan)
    length = largest.squeeze(1) * torch.linalg.vector_norm(w / largest, dim=1)
    offset = torch.zeros_like(length) * length if bias is None else bias / length
    return Hinge(w / length.unsqueeze(1), offset)
