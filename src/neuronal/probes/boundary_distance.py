"""How far images are from the nearest boundary of a unit, and from another class."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from neuronal.data.dataset import Split
from neuronal.geometry.affine import affine_map
from neuronal.geometry.boundary import boundary_distances
from neuronal.geometry.lowering import NotPiecewiseLinear
from neuronal.geometry.trace import outputs

ROWS = 16


def boundary_distance(model: nn.Module, split: Split, *, rows: int = ROWS) -> dict[str, Any]:
    """Distances, in the 2-norm, at the first ``rows`` images.

    Returns:
        ``unit``, the median distance to the nearest place where a unit switches or a pool changes its winner; ``other``,
        the median distance at which the affine map of the image's own region would change the class, which is exact
        where it is the smaller one; ``binding``, the share of images whose region ends first; ``rows``. For networks that
        are not piecewise linear all are None and ``why`` says so.
    """
    x = split.x[:rows]
    try:
        nearest = boundary_distances(model, x, norm=2.0).distance
        weight = affine_map(model, x).weight.flatten(2)
    except NotPiecewiseLinear as wrong:
        return {"unit": None, "other": None, "binding": None, "rows": 0, "why": str(wrong)}
    logits = outputs(model, x).double().cpu()
    top = logits.argmax(1)
    index = torch.arange(len(x))
    gap = logits[index, top].unsqueeze(1) - logits
    slope = (weight.cpu()[index, top].unsqueeze(1) - weight.cpu()).norm(dim=2)
    distance = torch.where(slope > 0, gap / slope, torch.inf)
    distance[index, top] = torch.inf
    other = distance.amin(1)
    return {
        "unit": nearest.median().item(),
        "other": other.median().item(),
        "binding": (nearest.cpu() < other).double().mean().item(),
        "rows": len(x),
    }
