"""The networks of Table 1, which other tables and figures use too, how they are trained, and how they are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from neuronal.data import DATASETS
from neuronal.experiments import Recipe
from neuronal_papers.judge import Case, Result

BOTH = ("zero_bias", "standard")
FACTORS = (1.0, 0.25, 0.15, 0.125, 0.1, 0.075, 0.05, 0.025, 0.01, 0.001, 0.0001)
"""The contrasts of the test."""
# Accuracies that differ by no more points are similar: the largest difference in Table 1, whose rows the paper calls so.
SIMILAR = 1.55


def both(*recipes: Recipe) -> tuple[Recipe, ...]:
    """Each without and with biases, everything else the same."""
    return tuple(replace(recipe, family=family) for recipe in recipes for family in BOTH)


MNIST_FCN = Recipe(
    name="MNIST FCN",
    model="fcn",
    data="mnist",
    optim="adadelta",
    lr=0.01,
    epochs=20,
    batch_size=512,
    holdout=0.0,
    seeds=(0, 1, 2),
    probes=("contrast", "zero_image"),
)
FASHION_CNN = replace(MNIST_FCN, name="Fashion-MNIST CNN", model="cnn", data="fashion_mnist", batch_size=128)
FASHION_CNN_2 = replace(FASHION_CNN, name="Fashion-MNIST CNN, twice as wide", model_options={"widths": (32, 64, 128)})
FASHION_CNN_4 = replace(FASHION_CNN, name="Fashion-MNIST CNN, 4 x as wide", model_options={"widths": (64, 128, 256)})
CIFAR_RESNET18 = Recipe(
    name="CIFAR-100 ResNet18",
    model="resnet18",
    norm="fixup",
    data="cifar100",
    optim="sgd",
    lr=0.1,
    momentum=0.9,
    weight_decay=1e-4,
    schedule="cosine",
    mixup=0.7,
    epochs=40,
    batch_size=128,
    crop=4,
    flip=True,
    holdout=0.0,
    scalar_lr=0.1,
    precision="bf16",
    channels_last=True,
    seeds=(0, 1, 2),
    probes=("contrast", "zero_image"),
)
SMALL_RESNET18 = replace(CIFAR_RESNET18, name="CIFAR-10 ResNet18", data="cifar10", epochs=20, batch_size=256)
IMAGENET_RESNET50 = replace(
    CIFAR_RESNET18,
    name="ImageNet ResNet50",
    model="resnet50",
    data="imagenet",
    epochs=100,
    batch_size=256,
    crop=0,
    resized_crop=(0.08, 1.0),
)


def smoke(recipe: Recipe) -> Recipe:
    """The same on 8 x 8 digits, once over a fifth of them."""
    return replace(
        recipe, data="digits", epochs=1, fraction=0.2, batch_size=64, precision="no", channels_last=False, seeds=(0,)
    )


class Curves(NamedTuple):
    """Accuracy at every contrast, for every seed that was asked for; and which runs failed."""

    values: Sequence[Sequence[float]]
    note: str


def with_failed(result: Result, name: str, found: Mapping[int, Sequence[float]]) -> Curves:
    """The curves found of a network by seed, and chance for runs that failed."""
    recipe = next(recipe for recipe in result["recipes"] if recipe["name"] == name)
    chance = [1 / DATASETS[recipe["data"]].num_classes] * len(FACTORS)
    failed = [seed for seed in recipe["seeds"] if seed not in found]
    note = f"failed, at chance: seed {', '.join(map(str, failed))} of {name}" if failed else ""
    return Curves([found.get(seed, chance) for seed in recipe["seeds"]], note)


def less(label: str, own: Curves, other: Curves, place: int = 0) -> Case:
    """The one's accuracy less the other's at one of the contrasts, the full one as a rule; in points, seed by seed."""
    points = [100 * (a[place] - b[place]) for a, b in zip(own.values, other.values, strict=True)]
    return Case(label, points, note="; ".join(filter(None, (own.note, other.note))))
