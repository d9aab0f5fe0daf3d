"""Each probe on networks small enough to know the answer beforehand."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from neuronal.data.dataset import Split
from neuronal.data.scaling import Scaling
from neuronal.experiments.run import PROBES
from neuronal.nn.families import FAMILIES
from neuronal.probes.contrast import MULTIPLIERS, contrast
from neuronal.probes.dead_units import dead_units
from neuronal.probes.score import score
from neuronal.probes.zero_image import zero_image


def linear(weight, bias):
    layer = nn.Linear(len(weight[0]), len(weight))
    layer.weight.data, layer.bias.data = torch.tensor(weight), torch.tensor(bias)
    return layer


def test_contrast_by_hand():
    # Class 1 wins where x > 0.5: at multiplier s exactly the images with x > 0.5 / s are called class 1.
    model = linear([[0.0], [1.0]], [0.5, 0.0])
    split = Split(torch.tensor([[0.2], [0.8], [1.6], [4.0]]), torch.tensor([0, 1, 1, 0]))
    result = contrast(model, split, multipliers=(1.0, 0.5, 0.25, 0.1))
    assert result["accuracy"] == [0.75, 0.5, 0.25, 0.5]
    assert result["kept"] == [1.0, 0.75, 0.5, 0.25]


def test_contrast_uses_the_papers_multipliers():
    assert MULTIPLIERS == (1, 0.25, 0.15, 0.125, 0.1, 0.075, 0.05, 0.025, 0.01, 0.001, 0.0001)
    split = Split(torch.rand(3, 2), torch.tensor([0, 1, 0]))
    assert contrast(nn.Linear(2, 2), split)["multipliers"] == list(MULTIPLIERS)


def test_zero_image_by_hand():
    model = linear([[1.0], [1.0], [1.0]], [0.0, math.log(2), math.log(5)])
    result = zero_image(model, Split(torch.rand(4, 1), torch.zeros(4)))
    assert result["probabilities"] == pytest.approx([1 / 8, 2 / 8, 5 / 8])
    assert result["entropy"] == pytest.approx(-sum(p * math.log(p) for p in (1 / 8, 2 / 8, 5 / 8)))
    assert result["uniform_entropy"] == pytest.approx(math.log(3))


def test_zero_image_of_a_certain_network_has_no_entropy():
    result = zero_image(linear([[1.0], [1.0]], [0.0, 1e4]), Split(torch.rand(4, 1), torch.zeros(4)))
    assert result["entropy"] == 0


def test_score_of_numbers_by_hand():
    split = Split(torch.tensor([[1.0], [2.0]]), torch.tensor([10.0, 16.0]), answer_scaling=Scaling((10.0,), (2.0,)))
    # Predicted 1 and 2, where 0 and 3 are right: squares 1 and 1, of units of 2.
    assert score(linear([[1.0]], [0.0]), split) == pytest.approx({"loss": 1.0, "rmse": 2.0})


def test_dead_units_planted_in_vectors_and_maps():
    conv = nn.Conv2d(1, 3, 1)
    conv.weight.data, conv.bias.data = (
        torch.tensor([1.0, -1.0, 1.0]).reshape(3, 1, 1, 1),
        torch.tensor([0.0, 0.0, -0.9]),
    )
    # On images in [0, 1] channel 1 is never on; channel 2 is on only where a pixel is above 0.9.
    model = nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 2))
    model[3].weight.data.fill_(1.0)
    model[3].bias.data = torch.tensor([0.0, -100.0, 0.0, -100.0])
    images = torch.full((1500, 1, 2, 2), 0.5)
    images[1400, 0, 1, 1] = 0.95
    result = dead_units(model, Split(images, torch.zeros(1500)))
    assert result["layers"] == [{"name": "1", "units": 3, "dead": 1}, {"name": "4", "units": 4, "dead": 2}]
    assert (result["units"], result["dead"]) == (7, 3)
    images[1400] = 0.5
    assert dead_units(model, Split(images, torch.zeros(1500)))["layers"][0]["dead"] == 2


def test_a_network_without_relu_modules_has_no_units_to_count():
    assert dead_units(nn.Linear(2, 2), Split(torch.rand(3, 2), torch.zeros(3)))["units"] == 0


def test_score_is_torchs():
    model, x, y = nn.Linear(3, 4), torch.randn(3000, 3), torch.randint(4, (3000,))
    result = score(model, Split(x, y))
    assert result["loss"] == pytest.approx(F.cross_entropy(model(x), y).item(), rel=1e-5)
    assert result["accuracy"] == (model(x).argmax(1) == y).sum().item() / 3000


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("neuron", FAMILIES)
def test_probes_leave_every_network_as_it_was(probe, neuron):
    model = nn.Sequential(FAMILIES[neuron].Linear(4, 6), nn.ReLU(), nn.BatchNorm1d(6), FAMILIES[neuron].Linear(6, 3))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    PROBES[probe](model, Split(torch.rand(5, 4), torch.tensor([0, 1, 2, 0, 1])))
    assert model.training
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
