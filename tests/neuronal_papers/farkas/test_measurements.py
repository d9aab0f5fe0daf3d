"""What is measured, against closed formulas, differences of losses, signs of pre-activations and layers made by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from neuronal.core.records import to_json
from neuronal.data import Split
from neuronal.experiments import Work
from neuronal.nn import FarkasLinear
from neuronal_papers.core import Setting
from neuronal_papers.farkas import born_dead, cutoff
from neuronal_papers.farkas.born_dead import AWAY, NETWORKS, clouds, hidden_gradient, lines
from neuronal_papers.farkas.dead_units import MEASURES, Proof, certified, measure, off
from neuronal_papers.farkas.networks import LAYERS, smoke


def test_what_each_condition_leaves_is_the_mean_of_the_biases():
    # All units can be made equal, and their sum is that of the biases, whatever the input.
    setting = Setting(options={"units": (2, 3, 8, 20), "cutoffs": (-1.0, 0.0, 1.0), "seeds": (0, 1)})
    rows = to_json(cutoff.measure(setting, None))["rows"]
    assert len(rows) == 4 * 7
    for row in rows:
        mean = {"paper": row["cutoff"] / row["units"], "ours": row["cutoff"], "algorithm": 0}[row["condition"]]
        assert row["smallest"] == pytest.approx([mean] * 2, abs=cutoff.EXTRA)


@pytest.mark.parametrize("seed", range(5))
def test_units_face_away_from_the_points(seed):
    x, y = clouds(seed)
    away, one = (born_dead.network(f"standard, {name}", x, y, seed)[0] for name in ("two units", "one cloud unseen"))
    assert torch.allclose(away.weight.norm(dim=1), torch.ones(2))
    assert away(x).amax(0).tolist() == pytest.approx([-AWAY] * 2, abs=1e-5)
    assert not (one(x) > 0)[y == 0].any()
    assert (one(x) > 0)[y == 1].double().mean() > 0.75
    # The clouds are apart: the first coordinate tells them.
    assert x[y == 0, 0].max() < x[y == 1, 0].min()


@pytest.mark.parametrize("name", NETWORKS)
def test_the_gradient_is_that_of_differences(name):
    x, y = clouds(0)
    model, x = born_dead.network(name, x, y, 0).double(), x.double()
    hidden = list(model[0].parameters())

    def loss(values):
        vector_to_parameters(torch.tensor(values), hidden)
        return cross_entropy(model(x), y).item()

    found = hidden_gradient(model, x, y)
    differences = approx_fprime(parameters_to_vector(hidden).detach().numpy(), loss, 1e-7)
    # Batch norm takes a bias and a scale away; what is left of that gradient is rounding and eps.
    assert found == pytest.approx(np.linalg.norm(differences), rel=1e-4, abs=1e-6)
    assert (found == 0) == (name in ("standard", "standard, two units"))


@pytest.mark.parametrize("name", NETWORKS)
def test_lines_are_where_units_switch(name):
    x, y = clouds(1)
    model = born_dead.network(name, x, y, 1)
    z, drawn = model[:-2](x).detach(), torch.tensor(lines(model, x))
    far = z.abs() > 1e-3
    assert ((x @ drawn[:, :2].T + drawn[:, 2]).sign() == z.sign())[far].all()
    assert far.double().mean() > 0.9


def network(first):
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), nn.Linear(2, 2)).double()


def test_a_layer_that_faces_away_is_dead_and_refuted_and_a_farkas_layer_keeps_its_promise():
    images = Split(torch.rand(20, 1, 1, 2).double(), torch.zeros(20, dtype=torch.long))
    away = nn.Linear(2, 2)
    nn.init.constant_(away.weight, -1.0)
    nn.init.constant_(away.bias, -0.5)
    assert off(network(away), images) == dict.fromkeys(MEASURES, 1.0)
    assert certified(network(away), images) == Proof(0, 1, 1, True)
    farkas = network(FarkasLinear(2, 2))
    assert certified(farkas, images) == Proof(1, 0, 1, True)
    assert off(farkas, images)["silent"] == 0


def test_shares_before_training_and_after_every_epoch_and_a_training_that_breaks_down(tmp_path):
    sound = replace(smoke(LAYERS), name="sound", epochs=2)
    setting = Setting((sound, replace(sound, name="wild", lr=1e9)), {"images": 50, "classes": 10})
    row, wild = measure(setting, Work(tmp_path))["rows"]
    assert {name: len(shares) for name, shares in row["over_training"]["0"].items()} == dict.fromkeys(MEASURES, 3)
    assert row["certificates"]["0"]["layers"] == 4
    assert "loss became" in wild["failed"]["0"]
    assert (wild["certificates"], wild["accuracy"]) == ({}, {})
