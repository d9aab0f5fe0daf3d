"""The networks the Farkas paper compares, small ones that can be looked into, and how they are trained.

ResNets are the authors', whose layout is not He's: they are FarkasNets with plain units. So each FarkasNet here is the
ResNet beside it with Farkas units, and has as many parameters, to 1.1%. ``as published`` are the authors' FarkasNets, of
other sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from neuronal.experiments import Recipe
from neuronal_papers.core import Options, Recipes, Scales, Setting, settings

TRAINED = Recipe(
    name="as the paper trains",
    data="cifar10",
    optim="sgd",
    lr=0.1,
    weight_decay=5e-4,
    decay_weights_only=True,
    schedule="step",
    epochs=200,
    batch_size=128,
    holdout=0.0,
    probes=(),
)
FASHION = replace(TRAINED, name="Fashion-MNIST", data="fashion_mnist", lr=0.01, epochs=4, seeds=tuple(range(10)))
CIFAR = replace(TRAINED, name="CIFAR", crop=4, flip=True, cutout=16, cutout_fill="mean")
CIFAR = replace(CIFAR, channels_last=True, replay=True)
CROPPED = replace(CIFAR, data="imagenet", scaling="standardise", crop=0, cutout=0, resized_crop=(0.35, 1.0))
IMAGENET = replace(CROPPED, name="ImageNet", epochs=30, batch_size=256, weight_decay=1e-4, precision="bf16", seeds=(0,))


def smoke(recipe: Recipe) -> Recipe:
    """The same on 8 x 8 digits, once over a tenth of them, on one seed."""
    return replace(recipe, data="digits", epochs=1, fraction=0.1, batch_size=32, channels_last=False, seeds=(0,))


def named(recipe: Recipe, name: str, **options: Any) -> Recipe:
    """A variant with these options of its network."""
    return replace(recipe, name=name, model_options=dict(recipe.model_options) | options)


AGGREGATES: dict[str, Options] = {"sum": {}, "mean": {"aggregate": "mean"}}
"""Options; the sum is what the networks here have without any, so that tables share them."""

# The paper's

TINY = replace(smoke(CIFAR), crop=1, cutout=2, fraction=0.05)
SHORT, SHORT_PLAIN, SHORT_DEEP = 4, 8, 24
"""Epochs at scale ``small`` with batch norm, without it, and without it from 50 layers on: these start with logits that
hardly differ from image to image, and ResNets are to leave chance before the rate is first cut, after 30% of the epochs."""
FEWER = (
    f"At scale small: {SHORT} epochs with batch norm, {SHORT_PLAIN} without and {SHORT_DEEP} from 50 layers on, instead "
    "of 200, the rate cut at the same shares of them."
)
LAYOUTS: dict[int, Options] = {
    18: {"depths": (2, 2, 2, 2), "width": 16},
    34: {"depths": (5, 5, 5), "width": 16},
    50: {"depths": (3, 4, 6, 3), "width": 64},
    101: {"depths": (3, 4, 23, 3), "width": 64},
    152: {"depths": (3, 8, 36, 3), "width": 64},
}
"""Those of the authors' ResNets; 152 follows their rule."""
NORMS = {"batch": ("batch norm", 0.1), "none": ("no norm", 0.01)}
"""Names and learning rates of the two halves of Tables 1 and 2."""
SUMS = {"aggregate": "sum"}
"""The paper's default; the library's is the mean."""


def resnet(base: Recipe, depth: int, norm: str) -> Recipe:
    """Without Farkas units; on ImageNet the usual ResNet."""
    words, rate = NORMS[norm]
    model, size = (f"resnet{depth}", {}) if base.data == "imagenet" else (f"farkasnet{depth}", LAYOUTS[depth])
    return replace(base, name=f"ResNet{depth}, {words}", model=model, model_options=size, norm=norm, lr=rate)


def farkasnet(base: Recipe, depth: int, norm: str, **options: Any) -> Recipe:
    """With the paper's last bias, which farkas/margin compares with ours; as large as the ResNet, or ``published``."""
    words, rate = NORMS[norm]
    name = f"FarkasNet{depth}{' as published' * ('published' in options)}, {words}"
    size = {} if base.data == "imagenet" or "published" in options else LAYOUTS[depth]
    made = replace(base, name=name, family="farkas", model=f"farkasnet{depth}", norm=norm, lr=rate)
    return named(made, name, rule="max", **size, **SUMS | options)


def shortened(recipes: tuple[Recipe, ...]) -> tuple[Recipe, ...]:
    """The same for the epochs of scale ``small``."""
    plain = {name: SHORT_DEEP if name.endswith(("50", "101")) else SHORT_PLAIN for name in (r.model for r in recipes)}
    return tuple(replace(r, epochs=SHORT if r.norm == "batch" else plain[r.model]) for r in recipes)


def scales(smoke: Recipes, small: Recipes, paper: Recipes, classes: int = 10) -> Scales:
    """Settings of networks of the paper: those of ``smoke`` with 8 channels at first; no scale ``small`` without recipes."""
    few = tuple(named(recipe, recipe.name, width=8) for recipe in smoke)
    settings = {"smoke": (few, 10), "small": (small, 10), "paper": (paper, classes)}
    return {scale: Setting(recipes, {"classes": n}) for scale, (recipes, n) in settings.items() if recipes}


# Small ones, fully connected

LAYERS = replace(FASHION, name="4 layers of 64", family="farkas", model="one_sided", widths=(64,) * 4)
LOOK = {"images": 2000, "classes": 10}
RATES = (0.003, 0.01, 0.03, 0.1, 0.3)
TUNED = {"classes": 10, "rates": RATES, "tuning_seeds": (100, 101, 102), "tuned_at": {"holdout": 0.1}}
"""Every network at a rate of its own, from the same list."""


def with_farkas(base: Recipe, **options: Any) -> tuple[Recipe, ...]:
    """A standard network and two Farkas networks, with sums and with means, which have these options."""
    farkas = (named(base, f"{base.name}, Farkas {kind}", **options, **how) for kind, how in AGGREGATES.items())
    return replace(base, name=f"{base.name}, standard", family="standard"), *farkas


def small_scales(recipes: Sequence[Recipe], options: Options) -> Scales:
    """Settings of small networks; on the scale of the paper as it trains: CIFAR-10, 200 epochs."""
    few = {"images": 50, "rates": (0.01, 0.1), "tuning_seeds": (100,)}
    long = (replace(recipe, data="cifar10", fraction=1.0, epochs=200, seeds=(0, 1, 2)) for recipe in recipes)
    smallest = {key: few.get(key, value) for key, value in options.items()}
    return settings((tuple(map(smoke, recipes)), tuple(recipes), tuple(long)), (smallest, options))
