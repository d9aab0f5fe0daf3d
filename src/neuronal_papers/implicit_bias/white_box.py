"""Trained networks on a GPU, where there is one, before test images; and the white-box attack on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from neuronal.attacks import Attacked, Ball, apgd
from neuronal.data import Split, load
from neuronal.experiments import Recipe, Record, Work
from neuronal_papers.core import Setting
from neuronal_papers.tuning import measured

AT_ONCE = 1000
"""Images in a batch of an attack: as many as one point has. The networks are small, and launching is what costs."""


def test_images(recipe: Recipe) -> Split:
    """The test data of a recipe, as its networks see them."""
    return load(recipe.data).scaled(recipe.scaling).test


def on_the_device(model: nn.Module) -> nn.Module:
    """On a GPU, where there is one."""
    return model.to(torch.accelerator.current_accelerator() or "cpu")


def on_test_images(
    setting: Setting, work: Work, procedure: str, measure: Callable[[Record, nn.Module, Split], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """What ``measure`` finds of every tuned network and seed on the first ``images`` of the test data, or all of them."""

    def row(record: Record, model: nn.Module) -> Mapping[str, Any]:
        work.say(f"{procedure} of {record.recipe.name}, {record.recipe.family}, seed {record.seed}")
        images = slice(setting.options.get("images"))
        return measure(record, on_the_device(model), test_images(record.recipe).rows(images))

    return measured(setting, work, procedure, row)


def worst(one: Attacked, other: Attacked) -> Attacked:
    """Input by input the attack that made it err, if one did."""
    points, new = one.adversarial.clone(), other.success & ~one.success
    points[new] = other.adversarial[new]
    return Attacked(points, one.success | other.success, one.queries + other.queries)


def white_box(model: nn.Module, images: Split, epsilon: float, options: Mapping[str, Any]) -> Attacked:
    """APGD with both losses, on every pixel by up to ``epsilon``.

    ``options``: ``steps`` and, if need be, ``batch_size``.
    """
    how: Any = {"steps": options["steps"], "batch_size": options.get("batch_size", AT_ONCE)}
    ball, losses = Ball("inf", epsilon), ("cross_entropy", "dlr")
    return worst(*(apgd(model, images.x, images.y, ball, loss=loss, **how) for loss in losses))
