"""The networks of the implicit-bias paper, and the kinds of its neuron they are trained with.

The text at hand has lost its numbers: depths and channels of the networks, rates, epochs, epsilons. What is chosen here is
what the authors' published example says where it says something, and our choice where it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from neuronal.experiments import Recipe
from neuronal_papers.core import Options, Recipes, Scales, settings

NEURONS = ("standard", "implicit_bias")
BATCHES = "batches of 256 in the place of 128, rates 0.03, 0.1 and 0.3, tried with one seed of its own."
CHOSEN = (
    "Depths, channels, rates and epochs, lost in the text at hand, are those of the authors' published example. Both "
    f"neurons get the same budget, epochs of warm-up and choice of rates. Small: Fashion-MNIST alone, {BATCHES}"
)
ENDS = "A learnt coupling ends at +0.09, the largest our layer allows, so what is said of it is about +0.09."
LEARNT_ALONE = (
    "The coupling is learnt, as in the paper's pre-training; where we looked (implicit_bias/learned) it ended at +0.09, the "
    "largest our layer allows (0.9 / slope), above 1 / (2 slope), up to which the paper proves one solution. Neither the "
    "paper's grid search for accuracy nor a negative coupling was tried."
)

FASHION = Recipe(
    name="Fashion-MNIST",
    model="ucn",
    model_options={"depth": 2, "width": 3},
    data="fashion_mnist",
    optim="sgd",
    lr=0.01,
    clip=1.0,
    schedule="one_cycle_linear",
    standard_epochs=2,
    epochs=12,
    batch_size=128,
    replay=True,
    probes=(),
)
CIFAR = replace(FASHION, name="CIFAR-10", data="cifar10", model_options={"depth": 3, "width": 8})
SVHN = replace(FASHION, name="SVHN", data="svhn")
ALL_DIGITS = replace(FASHION, name="digits", data="digits", epochs=2, standard_epochs=1, batch_size=64, seeds=(0,))
DIGITS = replace(ALL_DIGITS, fraction=0.2)
RATES: Options = {"rates": (0.01, 0.03, 0.1), "tuning_seeds": (100,)}

SHORT = replace(FASHION, batch_size=256)
"""What `small` trains wherever it can: half the steps, and one training for all tables and figures that want the network."""
LARGER_RATES: Options = {**RATES, "rates": (0.03, 0.1, 0.3)}
"""For larger batches."""

ATTACK: Options = {"images": 1000, "steps": 50}
FEW: Options = {"images": 20, "steps": 5}


def pair(*recipes: Recipe) -> tuple[Recipe, ...]:
    """Each with the standard neuron and with implicit bias, whose coupling is learnt from 0."""
    return tuple(replace(recipe, family=neuron) for recipe in recipes for neuron in NEURONS)


def kind(recipe: Recipe, name: str, **options: Any) -> Recipe:
    """The implicit-bias neuron with options of its own."""
    return replace(recipe, name=f"{recipe.name}, {name}", family="implicit_bias", neuron_options=options)


def fixed(recipe: Recipe, coupling: float = -0.5, more: str = "", **options: Any) -> Recipe:
    """The implicit-bias neuron with a coupling that is not learnt; ``more`` is what other ``options`` are called."""
    return kind(recipe, f"coupling {coupling:g}{more}", coupling=coupling, learn_coupling=False, **options)


def with_fixed(recipe: Recipe) -> tuple[Recipe, ...]:
    """With the standard neuron, with a learnt coupling, and with -0.5."""
    return (*pair(recipe), fixed(recipe))


def scales(networks: Callable[[Recipe], Recipes], options: Options, digits: Recipe = DIGITS, **own: Options) -> Scales:
    """Digits, Fashion-MNIST with half the steps, all data of the paper; ``options``, but where a scale has its ``own``.

    Where ``images`` are counted, the paper's scale looks at 10,000.
    """
    large = tuple(one for recipe in (FASHION, SVHN, CIFAR) for one in networks(recipe))
    images = {"images": 10_000} if "images" in options else {}
    more = own.get("smoke", {}), {**LARGER_RATES, **own.get("small", {})}, {**RATES, **images}
    return settings((networks(digits), networks(SHORT), large), [{**options, **one} for one in more])
