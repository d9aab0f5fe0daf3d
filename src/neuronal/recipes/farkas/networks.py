"""The networks the Farkas paper compares, and how it trains them.

ResNets are the authors', whose layout is not He's: they are FarkasNets with plain units. So each FarkasNet here is the
ResNet beside it with Farkas units, and has as many parameters, to 1.1%. ``as published`` are the authors' FarkasNets, of
other sizes.
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

LAYOUTS: dict[int, dict[str, Any]] = {
    18: {"depths": (2, 2, 2, 2), "width": 16},
    34: {"depths": (5, 5, 5), "width": 16},
    50: {"depths": (3, 4, 6, 3), "width": 64},
    101: {"depths": (3, 4, 23, 3), "width": 64},
    152: {"depths": (3, 8, 36, 3), "width": 64},
}
"""Those of the authors' ResNets; 152 follows their rule."""
RULE = {"rule": "max"}
"""The paper's last bias; farkas/margin compares it with ours, which is strict."""
PUBLISHED = {"published": True}
RATES = {"batch": 0.1, "none": 0.01}
WORDS = {"batch": "batch norm", "none": "no norm"}
"""Learning rates and names of the two halves of Tables 1 and 2."""


def resnet(base: Recipe, depth: int, norm: str, **options: Any) -> Recipe:
    """Without Farkas units; on ImageNet the usual ResNet."""
    made = replace(base, name=f"ResNet{depth}, {WORDS[norm]}", norm=norm, lr=RATES[norm])
    if base.data == "imagenet":
        return replace(made, model=f"resnet{depth}", model_options=options)
    return replace(made, model=f"farkasnet{depth}", model_options=LAYOUTS[depth] | options)


def fixup(base: Recipe, depth: int) -> Recipe:
    """Of He's layout, which Fixup is about, with the blocks and channels of the others."""
    made = replace(base, name=f"FixUp{depth}", norm="fixup", scalar_lr=0.1)
    return replace(made, model=f"resnet{depth}", model_options=LAYOUTS[depth])


def farkasnet(base: Recipe, depth: int, norm: str, **options: Any) -> Recipe:
    size = LAYOUTS[depth] if base.data != "imagenet" and "published" not in options else {}
    name = f"FarkasNet{depth}{' as published' if 'published' in options else ''}, {WORDS[norm]}"
    made = replace(base, name=name, model=f"farkasnet{depth}", family="farkas", norm=norm, lr=RATES[norm])
    return replace(made, model_options=size | RULE | options)


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
    "ResNets are the authors' (797,034, 488,714, 1,521,578 and 2,711,850 parameters), but for the batch norm of "
    "their logits, which their FarkasNets have not, and are FarkasNets with plain units: a 1x1 convolution and "
    "average pooling between stages, batch norm without parameters after every ReLU. FarkasNets have the same layout "
    "and as many parameters, up to 1.1% fewer, where the authors' 18 has 304,255. In a block the channel that "
    "balances takes the place of the last one, whose skip is dropped; the authors' blocks grow by one channel. The "
    "last bias is the paper's maximum, which farkas/margin compares with a strict one; the last convolution of a "
    "bottleneck starts as torch does it, where the authors' starts six times smaller. Sums are the paper's; the "
    "authors' code has means everywhere; what is called as published is so in size and start. The last, smaller "
    "batch of an epoch is kept."
)
"""What is the same of all networks of the tables."""
