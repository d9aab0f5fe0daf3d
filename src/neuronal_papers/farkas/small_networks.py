"""Farkas layers in networks small enough to look into: fully connected, on Fashion-MNIST."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from neuronal.experiments import Recipe
from neuronal_papers.core import Setting

FASHION = Recipe(
    name="Fashion-MNIST, 4 layers of 64",
    family="farkas",
    model="one_sided",
    widths=(64,) * 4,
    data="fashion_mnist",
    optim="sgd",
    lr=0.01,
    momentum=0.9,
    weight_decay=5e-4,
    decay_weights_only=True,
    schedule="step",
    epochs=4,
    batch_size=128,
    holdout=0.0,
    seeds=tuple(range(10)),
    probes=(),
)
LOOK = {"images": 2000, "classes": 10}
TUNED: dict[str, Any] = {
    "classes": 10,
    "rates": (0.003, 0.01, 0.03, 0.1, 0.3),
    "tuning_seeds": (100, 101, 102),
    "tuned_at": {"holdout": 0.1},
}
"""Every network at a rate of its own, from the same list."""
AGGREGATES: dict[str, dict[str, Any]] = {"sum": {}, "mean": {"aggregate": "mean"}}
"""Options; the sum is what there is without any, so that tables share such networks."""
ONE_RATE = (
    "The network is ours, with torch's own start, and so is its one rate of 0.01: at 0.05, tried first, networks with sums "
    "did not train. At scale paper: the same on CIFAR-10, 200 epochs."
)
BEST_RATE = (
    "Each network is at the best of five rates, by held-out images and three seeds that are not among those reported; all "
    "have torch's own start."
)


def smoke(recipe: Recipe) -> Recipe:
    """The same on 8 x 8 digits, once over a tenth of them, on one seed."""
    return replace(recipe, data="digits", epochs=1, fraction=0.1, batch_size=32, channels_last=False, seeds=(0,))


def long(recipe: Recipe) -> Recipe:
    """The same as the paper trains: CIFAR-10, 200 epochs."""
    return replace(recipe, data="cifar10", fraction=1.0, epochs=200, seeds=(0, 1, 2))


def named(recipe: Recipe, name: str, **options: Any) -> Recipe:
    """A variant with these options of its network."""
    return replace(recipe, name=name, model_options={**dict(recipe.model_options), **options})


def scales(recipes: tuple[Recipe, ...], options: Mapping[str, Any]) -> dict[str, Setting]:
    few = {"images": 50, "rates": (0.01, 0.1), "tuning_seeds": (100,)}
    return {
        "smoke": Setting(tuple(map(smoke, recipes)), {**options, **{k: few[k] for k in few if k in options}}),
        "small": Setting(recipes, options),
        "paper": Setting(tuple(map(long, recipes)), options),
    }
