"""How robust the networks of the implicit-bias paper are: attacks on them, Jacobians, couplings added, a hidden unit."""

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
    with_fixed,
)

# Figure 4

SWEEP: Mapping[str, Any] = {
    "epsilons": (0.0, 0.01, 0.02, 0.03, 0.05, 0.1),
    "check_epsilon": 0.02,
    "check_images": 1000,
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
        "small": Setting(with_fixed(SHORT), {**ATTACK, **SWEEP, **LARGER_RATES}),
        "paper": Setting(with_fixed(FASHION, SVHN, CIFAR), {**ATTACK, **SWEEP, **RATES, "images": 10_000}),
    },
    departs=(
        f"{CHOSEN} Beside the paper's protocol stands the white-box attack it could not run. Epsilons are our choice, as "
        f"fractions of the range of a pixel. {CUT}"
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
        "small": Setting(with_fixed(SHORT), {**MOVES, **LARGER_RATES}),
        "paper": Setting(with_fixed(FASHION, SVHN, CIFAR), {**MOVES, **RATES, "images": 10_000}),
    },
    departs=f"{CHOSEN} Restarts, iterations and patches are those of the attack's own paper. {CUT}",
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
        "small": Setting((SHORT,), {**ATTACK, **ADDED, **LARGER_RATES, "epsilons": (0.01, 0.02, 0.05)}),
        "paper": Setting(
            (FASHION, SVHN, CIFAR), {**ATTACK, **ADDED, **RATES, "epsilons": (0.01, 0.02, 0.05), "images": 10_000}
        ),
    },
    departs=f"{CHOSEN} The paper proves it for one hidden layer and gives no numbers. {CUT}",
)

# Sensitivity to the input

JACOBIAN = Reproduction(
    name="implicit_bias/jacobian",
    title="Norm of the Jacobian of trained networks",
    where="Methods, Eqs. 27 to 40 and 55 to 62",
    procedure="sensitivity",
    scales={
        "smoke": Setting(with_fixed(DIGITS), {"images": 8}),
        "small": Setting(with_fixed(SHORT), {"images": 1000, **LARGER_RATES}),
        "paper": Setting(with_fixed(FASHION, SVHN, CIFAR), {"images": 10_000, **RATES}),
    },
    departs=f"{CHOSEN} The paper has the theory and no measurement. {CUT}",
)

# The one-neuron stealth attack

HIDDEN = replace(FASHION, model="mlp1", model_options={"width": 200}, standard_epochs=2)
SHORT_HIDDEN = replace(HIDDEN, batch_size=SHORT.batch_size, epochs=6)
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
        "small": Setting(_three(SHORT_HIDDEN), {**TRIGGERS, **LARGER_RATES}),
        "paper": Setting(_three(HIDDEN), {**TRIGGERS, **RATES, "triggers": 1000, "verification": 9000}),
    },
    departs=(
        "The paper argues and does not try. One hidden layer of 200 units, as in its argument; the trigger is an image with "
        "noise, and the attacker sees the network and no image of the verification set. Small: 6 epochs in the place of 12, "
        "batches of 256 in the place of 128, and the rates 0.03, 0.1 and 0.3, tried with one seed of its own."
    ),
)
