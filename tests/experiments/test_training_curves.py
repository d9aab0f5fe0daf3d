"""How close two families of loss curves are, against numbers worked out by hand."""

from dataclasses import replace

import pytest

from neuronal.experiments.procedures.zero_bias.training_curves import findings, measure
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.run import run
from neuronal.recipes import REPRODUCTIONS
from neuronal.recipes.zero_bias.networks import BOTH, MNIST_FCN, smoke
from neuronal.report.papers import drawings

RECIPES = tuple(replace(smoke(MNIST_FCN), family=family, seeds=(0, 1)) for family in BOTH)


@pytest.fixture(scope="module")
def record():
    return run(RECIPES[0], 0)


class Given:
    """Work that hands out these curves, by family and seed."""

    def __init__(self, record, curves):
        self.record, self.curves = record, curves

    def records(self, recipes):
        return [
            replace(self.record, recipe=recipe, seed=seed, epochs=tuple({"loss": loss} for loss in curve))
            for recipe in recipes
            for seed, curve in zip(recipe.seeds, self.curves[recipe.family], strict=True)
        ]


def measured(record, curves):
    return {
        "result": measure(Setting(RECIPES), Given(record, curves)),
        "reproduction": "a/b",
        "procedure": "training_curves",
    }


def test_distances_are_factors_between_losses(record):
    """Twice as large in one epoch and the same in the next is a factor of the root of two; seeds differ by three."""
    answer = measured(record, {"zero_bias": [[1.0, 1.0], [3.0, 3.0]], "standard": [[2.0, 1.0], [6.0, 3.0]]})
    [network] = answer["result"]["networks"]
    assert network["between"] == pytest.approx(2**0.5)
    assert network["within"] == pytest.approx(3)
    assert network["curves"]["standard"] == {"0": [2.0, 1.0], "1": [6.0, 3.0]}
    assert findings(answer)[0].verdict == "reproduced"
    assert len(drawings(answer)) == 1


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.05, "reproduced"), (1.3, "reproduced in part"), (4.0, "not reproduced")]
)
def test_close_means_as_close_as_seeds_or_a_tenth(record, factor, verdict):
    answer = measured(record, {"zero_bias": [[1.0], [1.01]], "standard": [[factor], [1.01 * factor]]})
    assert findings(answer)[0].verdict == verdict


@pytest.mark.parametrize("scale", ["small", "paper"])
def test_all_four_networks_of_the_figure_are_there(scale):
    recipes = REPRODUCTIONS["zero_bias/training_curves"].scales[scale].recipes
    assert [recipe.model for recipe in recipes[::2]] == ["fcn", "cnn", "resnet9", "resnet18"]
    assert [recipe.family for recipe in recipes] == [*BOTH] * 4
