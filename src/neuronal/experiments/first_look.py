"""What ``neuronal compare`` does when it is told nothing else: seconds per cell, on data everybody has."""

from neuronal.experiments.recipe import Recipe

# Of 3e-4, 1e-3, 3e-3 and 1e-2 this rate is the best, or as good, for every neuron on held-out training images:
# results/first_look_learning_rates.json.
DIGITS = Recipe(
    name="digits",
    model="cnn",
    data="digits",
    optim="adam",
    lr=1e-2,
    schedule="constant",
    epochs=20,
    batch_size=64,
    holdout=0.1,
    seeds=(0, 1, 2),
    probes=("contrast", "zero_image", "dead_units"),
)

# The same where numbers are to be predicted.
LEVY = Recipe(
    name="levy",
    model="mlp1",
    data="levy",
    scaling="standardise",
    optim="adam",
    lr=1e-2,
    schedule="constant",
    epochs=200,
    batch_size=64,
    holdout=0.1,
    seeds=(0, 1, 2),
    probes=("dead_units",),
)

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (DIGITS, LEVY)}
"""Recipes that commands start from, by name."""
