"""How far images are from the nearest boundary of a unit, and from another class."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Size, nn

from neuronal.core.inference import outputs
from neuronal.data.dataset import Split
from neuronal.geometry.affine import affine_map
from neuronal.geometry.boundary import boundary_distances
from neuronal.geometry.lowering import NotPiecewiseLinear, lower
from neuronal.geometry.program import Convolution, Dense, Program

ROWS = 16
OPERATIONS = 3e11
"""What may be spent on all images: some tens of seconds on a core."""


@dataclass(frozen=True)
class BoundaryDistance:
    """Medians over ``rows`` images, in the 2-norm.

    For networks that are not piecewise linear, or too large for ``OPERATIONS``, all are None and ``why`` says so.
    """

    unit: float | None
    """To the nearest place where a unit switches or a pool changes its winner."""
    other: float | None
    """At which the affine map of the image's own region would change the class; exact where it is the smaller one."""
    binding: float | None
    """Share of images whose region ends first."""
    rows: int
    why: str | None = None


def boundary_distance(model: nn.Module, split: Split, *, rows: int = ROWS) -> BoundaryDistance:
    """Distances to the nearest boundary and to another class, at the first ``rows`` images."""
    x = split.x[:rows]
    try:
        per_image = operations(lower(model, x[:1]))
        if per_image > OPERATIONS:
            why = f"an image would take {per_image:.0e} operations: every unit needs a pass of its own"
            return BoundaryDistance(None, None, None, 0, why)
        x = x[: int(OPERATIONS / max(per_image, 1.0))]
        nearest = boundary_distances(model, x, norm=2.0).distance
        weight = affine_map(model, x).weight.flatten(2)
    except NotPiecewiseLinear as wrong:
        return BoundaryDistance(None, None, None, 0, str(wrong))
    logits = outputs(model, x).double().cpu()
    top = logits.argmax(1)
    index = torch.arange(len(x))
    gap = logits[index, top].unsqueeze(1) - logits
    slope = (weight.cpu()[index, top].unsqueeze(1) - weight.cpu()).norm(dim=2)
    distance = torch.where(slope > 0, gap / slope, torch.inf)
    distance[index, top] = torch.inf
    other = distance.amin(1)
    binding = (nearest.cpu() < other).double().mean().item()
    return BoundaryDistance(nearest.median().item(), other.median().item(), binding, len(x))


def operations(program: Program) -> float:
    """A pass back through the network for every unit: the number of units times that of products."""
    units = sum(Size(step.shape).numel() for step in program.kinks())
    products = sum(
        Size(step.shape).numel() * step.op.weight[0].numel()
        for step in program.steps
        if isinstance(step.op, Dense | Convolution)
    )
    return 2.0 * units * products
