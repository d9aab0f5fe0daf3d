"""What a training step (forward, backward, SGD) of each neuron costs beside the standard one, in the same run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from neuronal.data.catalogue import load
from neuronal.experiments.environment import environment
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.run import network
from neuronal.nn.families import STANDARD
from neuronal.train.engine import processes
from neuronal.train.timing import StepTime, step_times


@dataclass(frozen=True)
class Costs:
    """Step times by fingerprint of the recipe, and where they were taken."""

    steps: Mapping[str, StepTime]
    environment: Mapping[str, str]

    def of(self, recipe: Recipe) -> StepTime | None:
        return self.steps.get(recipe.fingerprint())


def measure(variants: Sequence[Recipe]) -> Costs:
    """Times the variants, which differ in their family alone, on one batch of their data."""
    standard = replace(variants[0], family=STANDARD.name)
    recipes = {recipe.fingerprint(): recipe for recipe in (standard, *variants)}
    data = load(standard.data).scaled(standard.scaling)
    device = processes().device
    batch = data.train.rows(slice(standard.batch_size)).to(device)
    models = {key: network(recipe, data, seed=0).to(device) for key, recipe in recipes.items()}
    return Costs(step_times(models, standard.fingerprint(), batch), environment())
