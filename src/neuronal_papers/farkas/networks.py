"""The networks the Farkas paper compares, small ones that can be looked into, and how they are trained.

ResNets are the authors', whose layout is not He's: they are FarkasNets with plain units. So each FarkasNet here is the
ResNet beside it with Farkas units, and has as many parameters, to 1.1%. ``as published`` are the authors' FarkasNets, of
other sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from neuronal.experiments import Recipe
from neuronal_papers.core import Setting

TRAINED = Recipe(
    name="as the paper trains",
    data="cifar10",
    optim="sgd",
    lr=0.1,
    momentum=0.9,
    weight_decay=5e-4,
    decay_weights_only=True,
    schedule="step",
    epochs=200,
    batch_size=128,
    holdout=0.0,
    seeds=(0, 1, 2),
    probes=(),
)
FASHION = replace(
    TRAINED,
    name="Fashion-MNIST, 4 layers of 64",
    family="farkas",
    model="one_sided",
    widths=(64,) * 4,
    data="fashion_mnist",
    lr=0.01,
    epochs=4,
    seeds=tuple(range(10)),
)
CIFAR = replace(
    TRAINED, name="CIFAR-10", crop=4, flip=True, cutout=16, cutout_fill="mean", channels_last=True, replay=True
)
IMAGENET = replace(
    CIFAR,
    name="ImageNet",
    data="imagenet",
    scaling="standardise",
    epochs=30,
    batch_size=256,
    crop=0,
    cutout=0,
    resized_crop=(0.35, 1.0),
    weight_decay=1e-4,
    precision="bf16",
    seeds=(0,),
)


def smoke(recipe: Recipe) -> Recipe:
    """The same on 8 x 8 digits, once over a tenth of them, on one seed."""
    return replace(recipe, data="digits", epochs=1, fraction=0.1, batch_size=32, channels_last=False, seeds=(0,))


def named(recipe: Recipe, name: str, **options: Any) -> Recipe:
    """A variant with these options of its network."""
    return replace(recipe, name=name, model_options={**dict(recipe.model_options), **options})


AGGREGATES: dict[str, dict[str, Any]] = {"sum": {}, "mean": {"aggregate": "mean"}}
"""Options; the sum is what the networks here have without any, so that tables share them."""

# The paper's

TINY = replace(smoke(CIFAR), crop=1, cutout=2, fraction=0.05)
SHORT, SHORT_PLAIN, SHORT_DEEP = 4, 8, 24
"""Epochs at scale ``small`` with batch norm, without it, and without it from 50 layers on: these start with logits that
hardly differ from image to image, and ResNets are to leave chance before the rate is first cut, after 30% of the epochs. No
claim compares networks of different epochs."""
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
SUMS = {"aggregate": "sum"}
"""The paper's default; the library's is the mean."""
PUBLISHED = {"published": True}
RATES = {"batch": 0.1, "none": 0.01}
WORDS = {"batch": "batch norm", "none": "no norm"}
"""Learning rates and names of the two halves of Tables 1 and 2."""


def resnet(base: Recipe, depth: int, norm: str) -> Recipe:
    """Without Farkas units; on ImageNet the usual ResNet."""
    made = replace(base, name=f"ResNet{depth}, {WORDS[norm]}", norm=norm, lr=RATES[norm])
    if base.data == "imagenet":
        return replace(made, model=f"resnet{depth}")
    return replace(made, model=f"farkasnet{depth}", model_options=LAYOUTS[depth])


def farkasnet(base: Recipe, depth: int, norm: str, **options: Any) -> Recipe:
    size = LAYOUTS[depth] if base.data != "imagenet" and "published" not in options else {}
    name = f"FarkasNet{depth}{' as published' if 'published' in options else ''}, {WORDS[norm]}"
    made = replace(base, name=name, model=f"farkasnet{depth}", family="farkas", norm=norm, lr=RATES[norm])
    return replace(made, model_options=size | RULE | SUMS | options)


def both(base: Recipe, *depths: int) -> tuple[Recipe, ...]:
    """ResNets and FarkasNets of equal size, with batch norm and without."""
    return tuple(make(base, depth, norm) for norm in RATES for make in (resnet, farkasnet) for depth in depths)


def published(base: Recipe, *depths: int) -> tuple[Recipe, ...]:
    return tuple(farkasnet(base, depth, norm, **PUBLISHED) for norm in RATES for depth in depths)


def normed(base: Recipe, *depths: int) -> tuple[Recipe, ...]:
    """ResNets and FarkasNets with batch norm; the latter with means, as the paper has them for ImageNet."""
    plain = tuple(resnet(base, depth, "batch") for depth in depths)
    return plain + tuple(farkasnet(base, depth, "batch", aggregate="mean") for depth in depths)


def by_depth(norm: str, *depths: int) -> dict[str, tuple[str, str]]:
    """Names of the FarkasNet and the ResNet of each depth, for claims."""
    return {f"{n} layers": (f"FarkasNet{n}, {WORDS[norm]}", f"ResNet{n}, {WORDS[norm]}") for n in depths}


def at(recipe: Recipe, rate: float, *, scaled: bool = False) -> Recipe:
    """At that rate; with inputs of mean 0 and deviation 1 if ``scaled``."""
    words = f"{recipe.name}, rate {rate:g}" + (", inputs normalised" if scaled else "")
    return replace(recipe, name=words, lr=rate, scaling="standardise" if scaled else "unit")


def shortened(recipes: Iterable[Recipe]) -> tuple[Recipe, ...]:
    """The same for the epochs of scale ``small``."""

    def epochs(recipe: Recipe) -> int:
        is_deep = recipe.model.endswith(("50", "101"))
        return SHORT if recipe.norm == "batch" else SHORT_DEEP if is_deep else SHORT_PLAIN

    return tuple(replace(recipe, epochs=epochs(recipe)) for recipe in recipes)


def scales(
    smoke: Iterable[Recipe], small: tuple[Recipe, ...], paper: tuple[Recipe, ...], classes: int = 10
) -> dict[str, Setting]:
    """Settings of networks of the paper: those of ``smoke`` with 8 channels at first; no scale ``small`` without recipes."""
    few = Setting(tuple(named(recipe, recipe.name, width=8) for recipe in smoke), {"classes": 10})
    found = {"smoke": few, "small": Setting(small, {"classes": 10}), "paper": Setting(paper, {"classes": classes})}
    return {scale: setting for scale, setting in found.items() if setting.recipes}


SIZES = (
    "ResNets are the authors' (797,034, 488,714, 1,521,578 and 2,711,850 parameters), but for the batch norm of their "
    "logits, which their FarkasNets have not, and are FarkasNets with plain units: a 1x1 convolution and average "
    "pooling between stages, batch norm without parameters after every ReLU. FarkasNets have the same layout and as "
    "many parameters, up to 1.1% fewer, where the authors' 18 has 304,255. In a block the channel that balances takes "
    "the place of the last one, whose skip is dropped; the authors' blocks grow by one channel. The last bias is the "
    "paper's maximum, which farkas/margin compares with a strict one; the last convolution of a bottleneck starts as "
    "torch does it, where the authors' starts six times smaller. Sums are the paper's; the authors' code has means "
    "everywhere; what is called as published is so in size and start. The last, smaller batch of an epoch is kept."
)
"""What is the same of all networks of the tables."""

# Small ones, fully connected

LOOK = {"images": 2000, "classes": 10}
TUNED: dict[str, Any] = {
    "classes": 10,
    "rates": (0.003, 0.01, 0.03, 0.1, 0.3),
    "tuning_seeds": (100, 101, 102),
    "tuned_at": {"holdout": 0.1},
}
"""Every network at a rate of its own, from the same list."""


def small_scales(recipes: tuple[Recipe, ...], options: Mapping[str, Any]) -> dict[str, Setting]:
    """Settings of small networks; on the scale of the paper as it trains: CIFAR-10, 200 epochs."""
    few = {"images": 50, "rates": (0.01, 0.1), "tuning_seeds": (100,)}
    long = (replace(recipe, data="cifar10", fraction=1.0, epochs=200, seeds=(0, 1, 2)) for recipe in recipes)
    return {
        "smoke": Setting(tuple(map(smoke, recipes)), {**options, **{k: few[k] for k in few if k in options}}),
        "small": Setting(recipes, options),
        "paper": Setting(tuple(long), options),
    }
