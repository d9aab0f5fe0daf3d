"""Each probe on networks small enough to know the answer beforehand."""

import copy
import math
from functools import partial
from importlib import import_module

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from neuronal.data.dataset import Split
from neuronal.experiments.run import PROBES
from neuronal.nn.families import FAMILIES
from neuronal.probes.boundary_distance import BoundaryDistance, boundary_distance
from neuronal.probes.contrast import contrast
from neuronal.probes.curvature import curvature
from neuronal.probes.dead_units import Layer, dead_units
from neuronal.probes.jacobian import jacobian
from neuronal.probes.score import score
from neuronal.probes.silence import Silence, silence
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
    assert result.accuracy == (0.75, 0.5, 0.25, 0.5)
    assert result.kept == (1.0, 0.75, 0.5, 0.25)


def test_zero_image_by_hand():
    model = linear([[1.0], [1.0], [1.0]], [0.0, math.log(2), math.log(5)])
    result = zero_image(model, Split(torch.rand(4, 1), torch.zeros(4)))
    assert result.probabilities == pytest.approx([1 / 8, 2 / 8, 5 / 8])
    assert result.entropy == pytest.approx(-sum(p * math.log(p) for p in (1 / 8, 2 / 8, 5 / 8)))
    assert result.uniform_entropy == pytest.approx(math.log(3))
    certain = linear([[1.0], [1.0]], [0.0, 1e4])
    assert zero_image(certain, Split(torch.rand(4, 1), torch.zeros(4))).entropy == 0


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
    assert result.layers == (Layer("1", 3, 1), Layer("4", 4, 2))
    assert (result.units, result.dead) == (7, 3)
    images[1400] = 0.5
    assert dead_units(model, Split(images, torch.zeros(1500))).layers[0].dead == 2
    assert dead_units(model[:1], Split(images, torch.zeros(1500))).units == 0


def test_dead_units_of_tokens_and_of_sequences():
    tokens = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
    tokens[0].bias.data = torch.tensor([9.0, -9.0, 9.0, 9.0, -9.0, 9.0])
    split = Split(torch.rand(7, 3, 4), torch.zeros(7))
    assert dead_units(tokens, split).layers == (Layer("1", 6, 2),)
    sequence = nn.Sequential(nn.Conv1d(3, 5, 1), nn.ReLU())
    sequence[0].bias.data = torch.tensor([9.0, -9.0, 9.0, 9.0, 9.0])
    assert dead_units(sequence, split).layers == (Layer("1", 5, 1),)


@pytest.mark.parametrize("neuron", FAMILIES)
@pytest.mark.parametrize("classes", [3, 7])
def test_jacobian_norms_against_torchs_jacobian(neuron, classes):
    layers = FAMILIES[neuron]
    model = nn.Sequential(layers.Linear(5, 8), nn.ReLU(), layers.Linear(8, classes)).double()
    x = torch.rand(7, 5).double()
    result = jacobian(model, Split(x, torch.zeros(7)), rows=6, batch_size=4)
    each = [torch.autograd.functional.jacobian(lambda v: model(v.unsqueeze(0))[0], row) for row in x[:6]]
    assert result.frobenius == pytest.approx(sum(j.norm().item() for j in each) / 6)
    tops = [torch.linalg.svdvals(j)[0].item() for j in each]
    assert result.spectral == pytest.approx(sum(tops) / 6)
    assert result.largest == pytest.approx(max(tops))
    assert result.rows == 6


def test_curvature_is_the_trace_of_the_squared_hessian():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    x, y = torch.randn(4, 5), torch.tensor([0, 1, 2, 0])
    result = curvature(model, Split(x, y), draws=2000)
    exact = []
    precise = nn.Sequential(*model).double()
    for row, label in zip(x.double(), y, strict=True):
        h = torch.autograd.functional.hessian(lambda v, t=label: F.cross_entropy(precise(v.unsqueeze(0))[0], t), row)
        exact.append((h @ h).trace().item())
    # 2,000 draws of random signs leave a few percent.
    assert result.mean == pytest.approx(sum(exact) / 4, rel=0.1)
    assert (result.rows, result.draws) == (4, 2000)


@pytest.mark.parametrize("coupling", [-0.5, 0.05])
def test_curvature_through_an_implicit_layer(coupling):
    """Against the second derivative of the equation itself, iterated until nothing moves and differentiated twice.

    With one number per image every draw gives the second derivative squared."""
    torch.manual_seed(0)
    layer = FAMILIES["implicit_bias"].Linear(1, 4, coupling=coupling, slope=3.0)
    model = nn.Sequential(layer, nn.Tanh(), nn.Linear(4, 3))
    x, y = torch.tensor([[0.4], [-0.8]]), torch.tensor([0, 2])
    precise = copy.deepcopy(model).double()

    def loss(value, label):
        a = z = precise[0].weight @ value.view(1) + precise[0].bias
        for _ in range(300):
            z = 0.6 * z + 0.4 * (a - coupling * torch.tanh(3.0 * (z[None, :] - z[:, None])).mean(1))
        return F.cross_entropy(precise[2](torch.tanh(z)), label)

    second = [torch.autograd.functional.hessian(partial(loss, label=t), v.double()) for v, t in zip(x, y, strict=True)]
    want = [h.item() ** 2 for h in second]
    result = curvature(model, Split(x, y), draws=1, step=1e-5)
    assert result.mean == pytest.approx(sum(want) / 2, rel=1e-3)
    assert min(want) > 1e-6


def test_curvature_is_not_the_tolerance_of_an_implicit_layer():
    layer = FAMILIES["implicit_bias"].Linear(5, 8, coupling=-0.5)
    layer.tolerance = 1e-2
    model = nn.Sequential(layer, nn.Tanh(), nn.Linear(8, 3))
    split = Split(torch.rand(6, 5), torch.tensor([0, 1, 2, 0, 1, 2]))
    rough = curvature(model, split).mean
    assert layer.tolerance == 1e-2
    layer.tolerance = 1e-8
    assert rough == pytest.approx(curvature(model, split).mean, rel=1e-9)


def test_distances_by_hand():
    """One unit that switches at x1 = 1, classes that meet at x1 = 3 beyond."""
    first = linear([[1.0, 0.0]], [-1.0])
    model = nn.Sequential(first, nn.ReLU(), linear([[1.0], [0.0]], [0.0, 2.0]))
    result = boundary_distance(model, Split(torch.tensor([[2.5, 7.0]]), torch.tensor([0])))
    assert result == BoundaryDistance(1.5, pytest.approx(0.5), 0.0, 1)
    result = boundary_distance(model, Split(torch.tensor([[1.25, 7.0]]), torch.tensor([0])))
    assert result == BoundaryDistance(0.25, pytest.approx(1.75), 1.0, 1)


def test_distances_need_a_piecewise_linear_network():
    model = nn.Sequential(nn.Linear(2, 2), nn.GELU())
    result = boundary_distance(model, Split(torch.rand(3, 2), torch.zeros(3)))
    assert result.unit is None
    assert "gelu" in result.why


def test_score_is_torchs_and_top5_that_of_sorting_image_by_image():
    model, x, y = nn.Linear(3, 9), torch.randn(3000, 3), torch.randint(9, (3000,))
    result = score(model, Split(x, y))
    assert result["loss"] == pytest.approx(F.cross_entropy(model(x), y).item(), rel=1e-5)
    assert result["accuracy"] == (model(x).argmax(1) == y).sum().item() / 3000
    rows = zip(model(x).tolist(), y.tolist(), strict=True)
    among = sum(label in sorted(range(9), key=row.__getitem__)[-5:] for row, label in rows)
    assert 0.2 < result["accuracy"] + 0.2 < result["top5"] == among / 3000 < 1


@pytest.mark.parametrize("probe", PROBES)
@pytest.mark.parametrize("neuron", FAMILIES)
def test_probes_leave_every_network_as_it_was(probe, neuron):
    model = nn.Sequential(FAMILIES[neuron].Linear(4, 6), nn.ReLU(), nn.BatchNorm1d(6), FAMILIES[neuron].Linear(6, 3))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    PROBES[probe](model, Split(torch.rand(5, 4), torch.tensor([0, 1, 2, 0, 1])))
    assert model.training
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_distances_of_networks_that_are_too_large_are_not_begun(monkeypatch):
    module = import_module("neuronal.probes.boundary_distance")

    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))
    split = Split(torch.rand(5, 2), torch.zeros(5, dtype=torch.long))
    # Three units, 2 * 3 + 3 * 2 products, each counted twice: 72 operations an image.
    monkeypatch.setattr(module, "OPERATIONS", 71.0)
    assert "7e+01 operations" in module.boundary_distance(model, split).why
    monkeypatch.setattr(module, "OPERATIONS", 150.0)
    assert module.boundary_distance(model, split).rows == 2


def test_silence_of_vectors_and_maps():
    # Off for both units where x <= 0 and x >= 1; the second unit alone is dead for no image.
    model = nn.Sequential(linear([[1.0], [-1.0]], [-1.0, 0.0]), nn.ReLU(), nn.Linear(2, 2))
    split = Split(torch.tensor([[-1.0], [0.5], [2.0], [1.0]]), torch.zeros(4))
    found = silence(model, split)
    assert (found.images, found.silent, found.dead_layers) == (4, 2, 0)
    assert found.layers == {"1": 2}
    conv = nn.Conv2d(1, 2, 1)
    conv.weight.data, conv.bias.data = torch.tensor([1.0, 2.0]).view(2, 1, 1, 1), torch.zeros(2)
    # One dark position makes a map silent there.
    maps = Split(torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]).view(3, 1, 1, 2), torch.zeros(3))
    found = silence(nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(4, 2)), maps)
    assert (found.silent, found.dead_layers) == (2, 0)
    assert silence(nn.Linear(1, 2), split) == Silence(4, 0, {}, 0)
