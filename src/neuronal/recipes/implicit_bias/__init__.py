"""Mohedano, Bertalmío and others: Updating the standard neuron model in artificial neural networks.

The text at hand has lost its numbers: depths and channels of the networks, rates, epochs, epsilons. What is chosen here is
in the recipes: what the authors' published example says where it says something, and our choice where it does not.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from neuronal.experiments.recipe import Recipe
from neuronal.experiments.reproduction import Reproduction, Setting
from neuronal.recipes.implicit_bias.networks import (
    CHOSEN,
    CIFAR,
    DIGITS,
    FASHION,
    RATES,
    SVHN,
    fixed,
    kind,
    pair,
    with_fixed,
)

ABOUT = "Updating the standard neuron model in artificial neural networks (Mohedano, Bertalmío and others): what holds"
# Figure 2

PLANE: Mapping[str, Any] = {
    "units": 8,
    "slope": 10.0,
    "couplings": (-0.1, -0.5, -2.0, 0.05),
    "coupling": -0.5,
    "slopes": (1.0, 10.0, 30.0),
    "epochs": 40,
    "grid": 61,
    "seeds": (0, 1, 2),
}
BOUNDARY_2D = Reproduction(
    name="implicit_bias/boundary_2d",
    title="Boundaries between two arrows in the plane",
    where="Figure 2",
    procedure="boundary_2d",
    scales={
        "smoke": Setting(
            options={**PLANE, "couplings": (-0.5, -1.0), "slopes": (3.0, 10.0), "epochs": 2, "grid": 21, "seeds": (0,)}
        ),
        "small": Setting(options=PLANE),
        "paper": Setting(
            options={
                **PLANE,
                "couplings": (-0.1, -0.5, -1.0, -2.0, 0.05),
                "slopes": (1.0, 3.0, 10.0, 30.0),
                "epochs": 400,
                "grid": 201,
                "seeds": tuple(range(10)),
            }
        ),
    },
    departs=(
        "Eight units, no batch norm, Adam at 0.01 for all; the number of units, couplings and slopes are lost in the text "
        "at hand. The arrows are drawn by us. Weights are means: the published code sums over units with weights of a half."
    ),
)

# Corollaries 3.1 and 3.2

DESCENTS: Mapping[str, Any] = {
    "units": 16,
    "spreads": (0.0, 0.1, 1.0),
    "rows": 4,
    "starts": 24,
    "steps": 10_000,
    "slopes": (1.0, 10.0, 100.0),
    "products": (-100.0, -10.0, -1.0, 0.25, 0.45, 0.55, 0.75, 0.95, 1.05, 1.25, 1.5, 2.0),
    "seed": 0,
}
ENERGY = Reproduction(
    name="implicit_bias/energy",
    title="Energy and uniqueness over coupling and slope",
    where="Propositions 1 to 3, Corollaries 3.1 and 3.2",
    procedure="energy",
    scales={
        "smoke": Setting(
            options={**DESCENTS, "slopes": (10.0,), "products": (-1.0, 0.45, 0.75, 1.25), "starts": 4, "steps": 300}
        ),
        "small": Setting(options=DESCENTS),
        "paper": Setting(options={**DESCENTS, "units": 64, "starts": 100, "steps": 50_000}),
    },
    departs="Not a figure of the paper: its propositions, tried out on random rows.",
)

# Figure 4

ATTACK: Mapping[str, Any] = {"norm": "inf", "images": 1000, "steps": 50, "restarts": 1}
FEW: Mapping[str, Any] = {"norm": "inf", "images": 20, "steps": 5, "restarts": 1}
SWEEP: Mapping[str, Any] = {
    "epsilons": (0.0, 0.01, 0.02, 0.03, 0.05, 0.1),
    "check_epsilon": 0.02,
    "check_images": 200,
    "check_steps": (10, 50, 200),
}
FEW_SWEEP: Mapping[str, Any] = {
    "epsilons": (0.0, 0.05),
    "check_epsilon": 0.05,
    "check_images": 8,
    "check_steps": (2, 5),
}
PGD = Reproduction(
    name="implicit_bias/pgd",
    title="Accuracy against epsilon",
    where="Figure 4",
    procedure="robustness",
    scales={
        "smoke": Setting(with_fixed(DIGITS), {**FEW, **FEW_SWEEP}),
        "small": Setting(with_fixed(FASHION, CIFAR), {**ATTACK, **SWEEP, **RATES}),
        "paper": Setting(with_fixed(FASHION, SVHN, CIFAR), {**ATTACK, **SWEEP, **RATES, "images": 10_000}),
    },
    departs=(
        f"{CHOSEN} Beside the paper's protocol stands the white-box attack it could not run. Epsilons are our choice, as "
        "fractions of the range of a pixel."
    ),
)

# Figure 5

MOVES: Mapping[str, Any] = {
    "images": 1000,
    "restarts": 20,
    "iterations": 10,
    "patch": (2, 10),
    "mapping": "similarity_random",
}
PIXLE = Reproduction(
    name="implicit_bias/pixle",
    title="Accuracy while pixels are moved",
    where="Figure 5",
    procedure="pixels_moved",
    scales={
        "smoke": Setting(pair(DIGITS), {**MOVES, "images": 10, "restarts": 2, "iterations": 2}),
        "small": Setting(with_fixed(FASHION, CIFAR), {**MOVES, **RATES}),
        "paper": Setting(with_fixed(FASHION, SVHN, CIFAR), {**MOVES, **RATES, "images": 10_000}),
    },
    departs=f"{CHOSEN} Restarts, iterations and patches are those of the attack's own paper.",
)

# Supplement

ADDED: Mapping[str, Any] = {"couplings": (0.0, -0.05, -0.1, -0.25, -0.5, -1.0, 0.05), "slope": 10.0}
TRANSFER = Reproduction(
    name="implicit_bias/transfer",
    title="A coupling added to trained networks",
    where="Supplementary Information",
    procedure="transfer",
    scales={
        "smoke": Setting((DIGITS,), {**FEW, "couplings": (0.0, -0.5), "slope": 10.0, "epsilons": (0.05,)}),
        "small": Setting((FASHION, CIFAR), {**ATTACK, **ADDED, **RATES, "epsilons": (0.01, 0.02, 0.05)}),
        "paper": Setting(
            (FASHION, SVHN, CIFAR), {**ATTACK, **ADDED, **RATES, "epsilons": (0.01, 0.02, 0.05), "images": 10_000}
        ),
    },
    departs=f"{CHOSEN} The paper proves it for one hidden layer and gives no numbers.",
)

# Sensitivity to the input

JACOBIAN = Reproduction(
    name="implicit_bias/jacobian",
    title="Norm of the Jacobian of trained networks",
    where="Methods, Eqs. 27 to 40 and 55 to 62",
    procedure="sensitivity",
    scales={
        "smoke": Setting(with_fixed(DIGITS), {"images": 8}),
        "small": Setting(with_fixed(FASHION, CIFAR), {"images": 1000, **RATES}),
        "paper": Setting(with_fixed(FASHION, SVHN, CIFAR), {"images": 10_000, **RATES}),
    },
    departs=f"{CHOSEN} The paper has the theory and no measurement.",
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
        "small": Setting(_lite(FASHION), {**ONE, **RATES}),
        "paper": Setting((*_lite(FASHION), *_lite(SVHN), *_lite(CIFAR)), {**ONE, **RATES, "images": 10_000}),
    },
    departs=CHOSEN,
)
LEARNED = Reproduction(
    name="implicit_bias/learned",
    title="Where couplings and slopes go when they are learnt",
    where="Discussion (future work)",
    procedure="variants",
    scales={
        "smoke": Setting(_learnt(DIGITS), FEW_ONE),
        "small": Setting((*_learnt(FASHION), *_learnt(CIFAR)), {**ONE, **RATES}),
        "paper": Setting((*_learnt(FASHION), *_learnt(SVHN), *_learnt(CIFAR)), {**ONE, **RATES, "images": 10_000}),
    },
    departs=CHOSEN,
)
TRANSFORMER = replace(
    CIFAR,
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
TINY_TRANSFORMER = replace(
    TRANSFORMER,
    name="digits",
    data="digits",
    model_options={"depth": 1, "width": 12, "num_heads": 2},
    epochs=2,
    fraction=0.2,
    crop=0,
    flip=False,
    seeds=(0,),
)
TRANSFORMERS = Reproduction(
    name="implicit_bias/transformer",
    title="Implicit bias in the perceptrons of a vision transformer",
    where="Discussion (future work)",
    procedure="variants",
    scales={
        "smoke": Setting(pair(TINY_TRANSFORMER), FEW_ONE),
        "small": Setting(pair(TRANSFORMER), {**ONE, "rates": (2.5e-4, 5e-4, 1e-3), "tuning_seeds": (100,)}),
        "paper": Setting(
            pair(replace(TRANSFORMER, model_options=(), epochs=100)),
            {**ONE, "rates": (2.5e-4, 5e-4, 1e-3), "tuning_seeds": (100,)},
        ),
    },
    departs="The paper suggests it and does not try. Small: six blocks and 20 epochs.",
)

# The one-neuron stealth attack

HIDDEN = replace(FASHION, model="mlp1", model_options={"width": 200}, standard_epochs=2)
FEW_HIDDEN = replace(DIGITS, model="mlp1", model_options={"width": 20})
TRIGGERS: Mapping[str, Any] = {"triggers": 50, "verification": 5000, "noise": 0.2, "gain": 100.0, "strength": 50.0}


def _three(recipe: Recipe) -> tuple[Recipe, ...]:
    return (*pair(recipe), fixed(recipe), kind(recipe, "coupling -0.05", coupling=-0.05, learn_coupling=False))


STEALTH = Reproduction(
    name="implicit_bias/stealth",
    title="A neuron that answers to one input only",
    where="Methods, Eqs. 41 to 54",
    procedure="stealth",
    scales={
        "smoke": Setting(_three(FEW_HIDDEN), {**TRIGGERS, "triggers": 3, "verification": 50}),
        "small": Setting(_three(HIDDEN), {**TRIGGERS, **RATES}),
        "paper": Setting(_three(HIDDEN), {**TRIGGERS, **RATES, "triggers": 1000, "verification": 9000}),
    },
    departs=(
        "The paper argues and does not try. One hidden layer of 200 units, as in its argument; the trigger is an image with "
        "noise, and the attacker sees the network and no image of the verification set."
    ),
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
DATA_FRACTION = Reproduction(
    name="implicit_bias/data_fraction",
    title="Accuracy against the fraction of training data",
    where="Figure 3",
    procedure="accuracy_curve",
    scales={
        "smoke": Setting(_fractions(FOLLOWED, 0.1, 0.5), {"axis": "fraction of the training data"}),
        "small": Setting(_fractions(FASHION, *SHARES), {"axis": "fraction of the training data", **RATES}),
        "paper": Setting(
            (*_fractions(FASHION, *SHARES), *_fractions(SVHN, *SHARES), *_fractions(CIFAR, *SHARES)),
            {"axis": "fraction of the training data", **RATES},
        ),
    },
    departs=CHOSEN,
)
EXPRESSIVITY = Reproduction(
    name="implicit_bias/expressivity",
    title="Accuracy against the number of parameters",
    where="Figure 6",
    procedure="accuracy_curve",
    scales={
        "smoke": Setting(_widths(FOLLOWED, 1, 2), {"axis": "parameters"}),
        "small": Setting(_widths(FASHION, *SIZES), {"axis": "parameters", **RATES}),
        "paper": Setting(
            (*_widths(FASHION, *SIZES), *_widths(SVHN, *SIZES), *_widths(CIFAR, 4, 8, 16)),
            {"axis": "parameters", **RATES},
        ),
    },
    departs=f"{CHOSEN} Sizes are made by the number of channels, as in the paper; a coupling per layer is learnt besides.",
)
LEARNING_SPEED = Reproduction(
    name="implicit_bias/learning_speed",
    title="Epochs to the standard network's best accuracy",
    where="Figure 7",
    procedure="accuracy_curve",
    scales={
        "smoke": Setting(pair(FOLLOWED), {"axis": "epoch"}),
        "small": Setting(pair(FASHION, CIFAR), {"axis": "epoch", **RATES}),
        "paper": Setting(pair(FASHION, SVHN, CIFAR), {"axis": "epoch", **RATES}),
    },
    departs=f"{CHOSEN} Accuracy is that of held-out training images, averaged over three epochs.",
)
MEMORISATION = Reproduction(
    name="implicit_bias/memorisation",
    title="Best validation accuracy when labels are wrong",
    where="Figure 8",
    procedure="accuracy_curve",
    scales={
        "smoke": Setting(_mislabelled(FOLLOWED, 0.0, 0.5), {"axis": "share of wrong labels"}),
        "small": Setting(_mislabelled(LONGER, *WRONG), {"axis": "share of wrong labels", **RATES}),
        "paper": Setting(
            (*_mislabelled(LONGER, *WRONG), *_mislabelled(replace(CIFAR, epochs=32), *WRONG)),
            {"axis": "share of wrong labels", **RATES},
        ),
    },
    departs=f"{CHOSEN} Wrong labels are never the right one by chance; held-out labels are right. 32 epochs.",
)

REPRODUCTIONS = (
    BOUNDARY_2D,
    DATA_FRACTION,
    PGD,
    PIXLE,
    EXPRESSIVITY,
    LEARNING_SPEED,
    MEMORISATION,
    TRANSFER,
    JACOBIAN,
    STEALTH,
    ENERGY,
    LITE,
    LEARNED,
    TRANSFORMERS,
)
