"""Accuracy of the networks of the implicit-bias paper against data, size, epochs and wrong labels."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Reproduction, Setting
from neuronal.recipes.implicit_bias.networks import (
    CHOSEN,
    CIFAR,
    CUT,
    DIGITS,
    FASHION,
    LARGER_RATES,
    RATES,
    SHORT,
    SVHN,
    pair,
)

# Figures 3, 6, 7 and 8


def _fractions(recipe: Recipe, *shares: float) -> tuple[Recipe, ...]:
    return pair(*(replace(recipe, name=f"{recipe.name}, {100 * s:g}% of the data", fraction=s) for s in shares))


def _widths(recipe: Recipe, *widths: int) -> tuple[Recipe, ...]:
    depth = dict(recipe.model_options)["depth"]
    return pair(
        *(
            replace(recipe, name=f"{recipe.name}, {w} channels", model_options={"depth": depth, "width": w})
            for w in widths
        )
    )


def _mislabelled(recipe: Recipe, *shares: float) -> tuple[Recipe, ...]:
    return pair(*(replace(recipe, name=f"{recipe.name}, {100 * s:g}% wrong", wrong_labels=s) for s in shares))


SHARES, SIZES, WRONG = (0.05, 0.1, 0.2, 0.5, 1.0), (1, 2, 3, 5, 8), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
FOLLOWED = replace(DIGITS, fraction=1.0)
LONGER = replace(FASHION, epochs=32)
# As many steps as all the others, over fewer images more often: what is wrong can be learnt by heart.
LONGER_FEW = replace(LONGER, fraction=0.2)
SIZE = dict(SHORT.model_options)
DATA_FRACTION = Reproduction(
    name="implicit_bias/data_fraction",
    title="Accuracy against the fraction of training data",
    where="Figure 3",
    procedure="accuracy_curve",
    scales={
        "smoke": Setting(_fractions(FOLLOWED, 0.1, 0.5), {"axis": "fraction of the training data"}),
        "small": Setting(
            _fractions(SHORT, *SHARES),
            {"axis": "fraction of the training data", **LARGER_RATES, "tuned_at": {"fraction": 1.0}},
        ),
        "paper": Setting(
            (*_fractions(FASHION, *SHARES), *_fractions(SVHN, *SHARES), *_fractions(CIFAR, *SHARES)),
            {"axis": "fraction of the training data", **RATES},
        ),
    },
    departs=(
        f"{CHOSEN} Epochs are the same for every share, so a smaller one has fewer steps. {CUT} The rate is chosen with "
        "all of the data and used with every share of them."
    ),
)
EXPRESSIVITY = Reproduction(
    name="implicit_bias/expressivity",
    title="Accuracy against the number of parameters",
    where="Figure 6",
    procedure="accuracy_curve",
    scales={
        "smoke": Setting(_widths(FOLLOWED, 1, 2), {"axis": "parameters"}),
        "small": Setting(
            _widths(SHORT, *SIZES), {"axis": "parameters", **LARGER_RATES, "tuned_at": {"model_options": SIZE}}
        ),
        "paper": Setting(
            (*_widths(FASHION, *SIZES), *_widths(SVHN, *SIZES), *_widths(CIFAR, 4, 8, 16)),
            {"axis": "parameters", **RATES},
        ),
    },
    departs=(
        f"{CHOSEN} Sizes are made by the number of channels, as in the paper; a coupling per layer is learnt besides. {CUT} "
        f"The rate is chosen with {SIZE['width']} channels and used with every number of them."
    ),
)
LEARNING_SPEED = Reproduction(
    name="implicit_bias/learning_speed",
    title="Epochs to the standard network's best accuracy",
    where="Figure 7",
    procedure="accuracy_curve",
    scales={
        "smoke": Setting(pair(FOLLOWED), {"axis": "epoch"}),
        "small": Setting(pair(SHORT), {"axis": "epoch", **LARGER_RATES}),
        "paper": Setting(pair(FASHION, SVHN, CIFAR), {"axis": "epoch", **RATES}),
    },
    departs=f"{CHOSEN} Accuracy is that of held-out training images, averaged over three epochs. {CUT}",
)
CURVED: Mapping[str, Any] = {"axis": "share of wrong labels", "curvature": 256}
MEMORISATION = Reproduction(
    name="implicit_bias/memorisation",
    title="Best validation accuracy when labels are wrong",
    where="Figure 8",
    procedure="accuracy_curve",
    scales={
        "smoke": Setting(_mislabelled(FOLLOWED, 0.0, 0.5), {"axis": "share of wrong labels", "curvature": 4}),
        "small": Setting(_mislabelled(LONGER_FEW, *WRONG), {**CURVED, **RATES, "tuned_at": {"wrong_labels": 0.0}}),
        "paper": Setting(
            (*_mislabelled(LONGER, *WRONG), *_mislabelled(replace(CIFAR, epochs=32), *WRONG)),
            {**CURVED, **RATES},
        ),
    },
    departs=(
        f"{CHOSEN} Wrong labels are never the right one by chance; held-out labels are right. 32 epochs. Beside the "
        "accuracies stands the curvature of the loss at training images, with the labels they were given, when training "
        "ends. Small: Fashion-MNIST alone and a fifth of its training images; the rate is chosen with right labels "
        "and used with every share of wrong ones."
    ),
)
