"""Kinds of the implicit-bias neuron: one iteration, couplings and slopes that are learnt, and transformers of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Reproduction, Setting
from neuronal.recipes.implicit_bias.networks import (
    ATTACK,
    CHOSEN,
    CIFAR,
    CUT,
    DIGITS,
    FASHION,
    FEW,
    LARGER_RATES,
    RATES,
    SHORT,
    SVHN,
    fixed,
    kind,
    pair,
)

# Lite; learnt couplings and slopes; transformers


def _lite(recipe: Recipe) -> tuple[Recipe, ...]:
    solved_or_not = (fixed(recipe), kind(recipe, "coupling -0.05", coupling=-0.05, learn_coupling=False))
    one_step = (kind(recipe, "learnt, one iteration", steps=1),)
    return (*pair(recipe), *solved_or_not, *one_step, *(_once(one) for one in solved_or_not))


def _once(recipe: Recipe) -> Recipe:
    options = {**dict(recipe.neuron_options), "steps": 1}
    return replace(recipe, name=f"{recipe.name}, one iteration", neuron_options=options)


def _learnt(recipe: Recipe) -> tuple[Recipe, ...]:
    return (
        *pair(recipe),
        kind(recipe, "coupling per channel", per_channel=True),
        kind(recipe, "slope learnt", learn_slope=True),
        kind(recipe, "both", per_channel=True, learn_slope=True),
    )


ONE: Mapping[str, Any] = {**ATTACK, "epsilon": 0.02}
FEW_ONE: Mapping[str, Any] = {**FEW, "epsilon": 0.05}
LITE = Reproduction(
    name="implicit_bias/lite",
    title="One iteration in the place of a solve",
    where="the authors' published code",
    procedure="variants",
    scales={
        "smoke": Setting(_lite(DIGITS), FEW_ONE),
        "small": Setting(_lite(SHORT), {**ONE, **LARGER_RATES}),
        "paper": Setting((*_lite(FASHION), *_lite(SVHN), *_lite(CIFAR)), {**ONE, **RATES, "images": 10_000}),
    },
    departs=f"{CHOSEN} {CUT}",
)
LEARNED = Reproduction(
    name="implicit_bias/learned",
    title="Where couplings and slopes go when they are learnt",
    where="Discussion (future work)",
    procedure="variants",
    scales={
        "smoke": Setting(_learnt(DIGITS), FEW_ONE),
        "small": Setting(_learnt(SHORT), {**ONE, **LARGER_RATES}),
        "paper": Setting((*_learnt(FASHION), *_learnt(SVHN), *_learnt(CIFAR)), {**ONE, **RATES, "images": 10_000}),
    },
    departs=f"{CHOSEN} {CUT}",
)
TRANSFORMER = replace(
    CIFAR,
    name="CIFAR-10 transformer",
    model="vit_tiny",
    model_options={"depth": 6},
    optim="adamw",
    lr=5e-4,
    weight_decay=0.05,
    schedule="cosine",
    warmup=0.1,
    standard_epochs=1,
    epochs=20,
    crop=4,
    flip=True,
)
SHORT_TRANSFORMER = replace(
    TRANSFORMER,
    name="Fashion-MNIST transformer",
    data="fashion_mnist",
    model_options={"depth": 3},
    fraction=0.25,
    epochs=10,
    batch_size=256,
)
TINY_TRANSFORMER = replace(
    TRANSFORMER,
    name="digits transformer",
    data="digits",
    model_options={"depth": 1, "width": 12, "num_heads": 2},
    epochs=2,
    fraction=0.2,
    crop=0,
    flip=False,
    seeds=(0,),
)
BLOCKS: Mapping[str, Any] = {"rates": (2.5e-4, 5e-4, 1e-3), "tuning_seeds": (100,), "batch_size": 250}
TRANSFORMERS = Reproduction(
    name="implicit_bias/transformer",
    title="Implicit bias in the perceptrons of a vision transformer",
    where="Discussion (future work)",
    procedure="variants",
    scales={
        "smoke": Setting(pair(TINY_TRANSFORMER), FEW_ONE),
        "small": Setting(pair(SHORT_TRANSFORMER), {**ONE, **BLOCKS}),
        "paper": Setting(
            pair(replace(TRANSFORMER, model_options=(), epochs=100)),
            {**ONE, **BLOCKS},
        ),
    },
    departs=(
        "The paper suggests it and does not try. Small: Fashion-MNIST in the place of CIFAR-10 and a quarter of its "
        "training images, three blocks in the place of twelve, 10 epochs in the place of 100, batches of 256 in the "
        "place of 128."
    ),
)
