"""The white-box attack on networks of this paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.attacks import Attacked, Ball, apgd
from neuronal.data import Split, load
from neuronal.experiments import Recipe
from neuronal.geometry import outputs

AT_ONCE = 1000
"""Images in a batch of an attack: as many as one point has. The networks are small, and launching is what costs."""


def test_images(recipe: Recipe) -> Split:
    """The test data of a recipe, as its networks see them."""
    return load(recipe.data).scaled(recipe.scaling).test


def on_the_device(model: nn.Module) -> nn.Module:
    """On a GPU, where there is one."""
    return model.to(torch.accelerator.current_accelerator() or "cpu")


def worst(attacks: Sequence[Attacked]) -> Attacked:
    """Input by input the attack that made it err, if one did."""
    first, *others = attacks
    points, success, queries = first.adversarial.clone(), first.success.clone(), first.queries.clone()
    for other in others:
        new = other.success & ~success
        points[new] = other.adversarial[new]
        success |= other.success
        queries += other.queries
    return Attacked(points, success, queries)


def white_box(
    model: nn.Module, x: Tensor, y: Tensor, ball: Ball, *, steps: int, restarts: int, batch_size: int = AT_ONCE
) -> Attacked:
    """APGD with both losses; with two classes the margin stands in for the ratio."""
    classes = outputs(model, x[:1]).shape[1]
    losses = ("cross_entropy", "dlr" if classes > 2 else "margin")
    how: Any = {"steps": steps, "restarts": restarts, "batch_size": batch_size}
    return worst([apgd(model, x, y, ball, loss=loss, **how) for loss in losses])
