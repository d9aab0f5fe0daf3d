"""The networks the Farkas paper compares, and how it trains them.

They have the size of the authors' (16 channels at first, 0.5 to 2.8 million parameters). Each FarkasNet has as many
parameters as the ResNet it is compared with, to 4%, which theirs have not; ``as published`` are theirs.
"""

from dataclasses import replace
from typing import Any

from neuronal.experiments.recipe import Recipe
from neuronal.recipes.farkas.layers import smoke

CIFAR = Recipe(
    name="CIFAR-10",
    data="cifar10",
    optim="sgd",
    lr=0.1,
    momentum=0.9,
    weight_decay=5e-4,
    decay_weights_only=True,
    schedule="step",
    epochs=200,
    batch_size=128,
    crop=4,
    flip=True,
    cutout=16,
    cutout_fill="mean",
    holdout=0.0,
    channels_last=True,
    replay=True,
    seeds=(0, 1, 2),
    probes=(),
)
SHORT, SHORT_PLAIN, SHORT_DEEP = 4, 8, 24
"""Epochs at scale ``small`` with batch norm, without it, and without it from 50 layers on: these start with logits that
hardly differ from image to image, and ResNets are to leave chance before the rate is first cut, after 30% of the epochs. No
claim compares networks of different epochs."""
TINY = replace(smoke(CIFAR), crop=1, cutout=2, fraction=0.05)

RESNETS: dict[int, dict[str, Any]] = {
    18: {"width": 16},
    34: {"width": 16, "depths": (5, 5, 5)},
    50: {"width": 16},
    101: {"width": 16},
    152: {"width": 16},
}
FARKASNETS: dict[int, dict[str, Any]] = {
    18: {"width": 29},
    34: {"width": 16},
    50: {"width": 64},
    101: {"width": 64},
    152: {"width": 64},
}
"""Options that make networks of one number equally large, to 4%."""
PUBLISHED = {"published": True, "rule": "max"}
RATES = {"batch": 0.1, "none": 0.01}
WORDS = {"batch": "batch norm", "none": "no norm"}
"""Learning rates and names of the two halves of Tables 1 and 2."""


def resnet(base: Recipe, depth: int, norm: str, **options: Any) -> Recipe:
    size = RESNETS[depth] if base.data != "imagenet" else {}
    name = f"ResNet{depth}, {WORDS.get(norm, norm)}"
    made = replace(base, name=name, model=f"resnet{depth}", norm=norm, lr=RATES.get(norm, base.lr))
    return replace(made, model_options=size | options)


def farkasnet(base: Recipe, depth: int, norm: str, **options: Any) -> Recipe:
    size = FARKASNETS[depth] if base.data != "imagenet" else {}
    name = f"FarkasNet{depth}{' as published' if 'published' in options else ''}, {WORDS[norm]}"
    made = replace(base, name=name, model=f"farkasnet{depth}", family="farkas", norm=norm, lr=RATES[norm])
    return replace(made, model_options=(options if "published" in options else size | options))


def shortened(recipe: Recipe) -> Recipe:
    """The same for the epochs of scale ``small``."""
    is_deep = recipe.model.endswith(("50", "101"))
    return replace(recipe, epochs=SHORT if recipe.norm == "batch" else SHORT_DEEP if is_deep else SHORT_PLAIN)


def small_enough(recipe: Recipe) -> Recipe:
    """The same on digits, with 8 channels at first."""
    options = dict(recipe.model_options) | {"width": 8}
    return replace(TINY, **{key: getattr(recipe, key) for key in _KEPT}, model_options=options)


_KEPT = ("name", "family", "model", "norm", "lr", "scaling", "scalar_lr", "schedule")


def at(recipe: Recipe, rate: float, *, scaled: bool = False) -> Recipe:
    """At that rate; with inputs of mean 0 and deviation 1 if ``scaled``."""
    words = f"{recipe.name}, rate {rate:g}" + (", inputs normalised" if scaled else "")
    return replace(recipe, name=words, lr=rate, scaling="standardise" if scaled else "unit")


SIZES = (
    "ResNets are the usual ones with 16 channels at first (18, 50, 101 layers) and three stages of five blocks (34), about "
    "the size of the authors'. FarkasNets have as many parameters as these, to 4%, where the authors' 18 has 304,255 "
    "against 797,034. Equal parameters are not equal work: an image of 32 x 32 pixels takes 112.8 million multiply-adds in "
    "FarkasNet18 and 35.0 in ResNet18, 3.2 times as many (72.3 and 69.1 with 34 layers, 93.8 and 81.4 with 50, 169.5 and "
    "157.2 with 101). The last bias of these FarkasNets is strict, by a softplus in the place of the paper's maximum, which "
    "farkas/margin compares. There is no batch norm on the logits, which the authors' ResNets have and their FarkasNets "
    "have not. The last, smaller batch of an epoch is kept."
)
"""What is the same of all networks of the tables."""
