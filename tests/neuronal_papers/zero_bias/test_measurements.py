"""Measurements of the zero-bias paper against plain loops, networks known by heart, and numbers worked out by hand."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from neuronal.core.records import to_json
from neuronal.experiments import Recipe, Share, Work
from neuronal_papers.core import Setting
from neuronal_papers.reproduce import read_result, reproduce
from neuronal_papers.studies import pairs
from neuronal_papers.zero_bias import mixtures, table1, training_curves
from neuronal_papers.zero_bias.ntk import NTK
from neuronal_papers.zero_bias.zero_image import ZERO_IMAGE
from tests.vision import vision


def network(weight, last_weight, last_bias=(0.0, 0.0)):
    """A hidden layer of ReLUs without biases, and a last layer."""
    weight, last_weight, last_bias = map(torch.tensor, (weight, last_weight, last_bias))
    model = nn.Sequential(nn.Linear(*weight.mT.shape, bias=False), nn.ReLU(), nn.Linear(*last_weight.mT.shape))
    model[0].load_state_dict({"weight": weight})
    model[2].load_state_dict({"weight": last_weight, "bias": last_bias})
    return model


IDENTITY = [[1.0, 0.0], [0.0, 1.0]]
QUADRANTS = network(IDENTITY, IDENTITY)
"""One pattern for each quadrant, and in the first one two classes."""


def test_neighbours_are_the_nearest_of_another_class():
    x, y = torch.randn(30, 2), torch.randint(3, (30,))
    right = torch.rand(30) > 0.2
    a, b = pairs.neighbours_of_another_class(x, y, right, 10, torch.Generator().manual_seed(1))
    assert len(a) == 10
    for i, j in zip(a.tolist(), b.tolist(), strict=True):
        possible = [k for k in range(30) if right[k] and y[k] != y[i]]
        assert j == min(possible, key=lambda k: (x[i] - x[k]).norm().item())


def test_each_network_may_have_a_rate_of_its_own(tmp_path):
    how = {"widths": (16,), "epochs": 2, "fraction": 0.5, "optim": "sgd", "seeds": (0,), "probes": ("contrast",)}
    recipe = Recipe("digits", model="fcn", **how)
    options = {"rates": (1e-6, 0.05), "tuning_seeds": (100,), "tuned_at": {"holdout": 0.5}}
    rows = table1.measure(Setting(table1.both(recipe), options), Work(tmp_path))["rows"]
    assert [(row.neuron, row.rate) for row in rows] == [("zero_bias", 0.05), ("standard", 0.05)]
    assert [point.value for point in rows[0].tuning] == [1e-6, 0.05]
    assert "rate" not in to_json(table1.measure(Setting((recipe,)), Work(tmp_path)))["rows"][0]


def test_equal_patterns_are_counted_as_a_loop_would():
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
    x = torch.randn(60, 2)
    with torch.no_grad():
        signs, predicted = model[0](x) > 0, model(x).argmax(1)
    alike = [(i, j) for i in range(60) for j in range(i) if predicted[i] == predicted[j]]
    equal = sum(bool((signs[i] == signs[j]).all()) for i, j in alike)
    assert equal
    share = pairs.same_pattern(model, x, predicted)
    assert (share.count, share.total) == (equal, len(alike))


def test_crossings_of_a_network_known_by_heart():
    """Scores -|x| + 1/2 and |x| - 1/2: from -1 to 0 the class changes once, at x = -1/2."""
    model = network([[1.0], [-1.0]], [[-1.0, -1.0], [1.0, 1.0]], (0.5, -0.5))
    x, y = torch.tensor([[-1.0], [0.0], [1.0]]), torch.tensor([1, 0, 1])
    found = pairs.crossing(model, x, y, torch.tensor([0]), torch.tensor([1]))
    assert found.through_others == Share(0, 1)
    assert found.median_first == pytest.approx(0.5)
    # From one end to the other it passes the class of the middle.
    through = pairs.crossing(model, x, torch.tensor([1, 0, 2]), torch.tensor([0]), torch.tensor([2]))
    assert through.through_others.count == 1


def test_pairs_of_equal_pattern_are_drawn_from_all():
    # The last is the image of the fifth again.
    x = torch.tensor([[2.0, 1.0], [3.0, 1.0], [1.0, 2.0], [1.0, 3.0], [1.0, 4.0], [-1.0, -1.0], [1.0, 4.0]])
    predicted = QUADRANTS(x).argmax(1)

    def drawn(count, seed=0):
        generator = torch.Generator().manual_seed(seed)
        return mixtures.pairs_of_equal_pattern(QUADRANTS, x, predicted, count, generator).tolist()

    assert sorted(drawn(100)) == [[0, 1], [2, 3], [2, 4], [2, 6], [3, 4], [3, 6]]
    assert drawn(0) == []
    assert len({tuple(pair) for seed in range(20) for pair in drawn(1, seed)}) > 2


def test_interpolants_of_another_class_are_counted():
    """From (3, 1) to (1, 3) the classes meet in the middle; between (3, 1) and (2, 1) they do not."""
    x = torch.tensor([[3.0, 1.0], [1.0, 3.0], [2.0, 1.0]])
    pairs, weights = [torch.tensor([0, 1]), torch.tensor([0, 2])], [mixtures.between(100)] * 2
    assert mixtures.count_changed(QUADRANTS, x, torch.tensor([0, 1, 0]), pairs, weights) == 50


def test_only_groups_of_one_pattern_and_class_are_mixed():
    """Three of the first quadrant below the diagonal; the fourth is above it, and the origin is a pattern of its own."""
    x = torch.tensor([[3.0, 1.0], [2.0, 1.0], [5.0, 1.0], [1.0, 2.0], [-1.0, -1.0]])
    (group,) = mixtures.groups_of_equal_pattern(QUADRANTS, x, QUADRANTS(x).argmax(1), 10)
    assert group.tolist() == [0, 1, 2]
    # With a bias that lets the second class win near the origin, scaling down leaves the class and averaging does not.
    biased = network(IDENTITY, IDENTITY, (0.0, 0.5))

    def changed(model, cone):
        weights = mixtures.random_weights(200, len(group), torch.Generator().manual_seed(0), cone=cone)
        return mixtures.count_changed(model, x, biased(x).argmax(1), [group], [weights])

    assert (changed(biased, False), changed(QUADRANTS, False), changed(QUADRANTS, True)) == (0, 0, 0)
    assert changed(biased, True) > 0


def test_distances_are_factors_between_losses():
    """Twice as large in one epoch and the same in the next is a factor of the root of two; seeds differ by three."""
    curves = {"zero_bias": {"0": [1.0, 1.0], "1": [3.0, 3.0]}, "standard": {"0": [2.0, 1.0], "1": [6.0, 3.0]}}
    between, within = training_curves.distances(training_curves.Network("net", curves))
    assert between == pytest.approx([2**0.5] * 2)
    assert within == pytest.approx([3, 3])


def test_wide_networks_are_near_their_limit(tmp_path):
    """At width 512 within a third: inputs and weights drawn from one stream were five times as far."""
    options = {**NTK.scales["smoke"].options, "data": ("normal",), "widths": (16, 512), "inputs": 10, "seeds": (0, 1)}
    small = replace(NTK, scales={"small": Setting(options=options)})
    for row in read_result(reproduce(small, "small", runs=tmp_path, results=tmp_path))["result"]["approach"]:
        assert row["to_own_limit"]["mean"] < (0.33 if row["width"] == 512 else 2)


def beliefs(folder, *models, pretrained=False):
    file = reproduce(ZERO_IMAGE, "smoke", runs=folder, results=folder, models=models, pretrained=pretrained)
    return read_result(file)["result"]["rows"]


def test_models_by_name_at_the_zero_image(tmp_path):
    """The last layer's bias is all that is left of an untrained one at zero, and it is nearly uniform."""
    vision()
    row, *_ = beliefs(tmp_path, "timm:resnet18")
    assert (row["name"], row["classes"]) == ("timm:resnet18", 1000)
    assert 0.99 < row["entropy"] < 1 - 1e-6


def test_published_weights_are_asked_for_in_each_librarys_words(tmp_path, monkeypatch):
    asked = {}

    def made(source, **arguments):
        asked[source] = arguments
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 224 * 224, 2))

    monkeypatch.setattr("neuronal_papers.zero_bias.zero_image.from_source", made)
    names = ("timm:a", "torchvision:b", "c.safetensors")
    beliefs(tmp_path, *names, pretrained=True)
    assert asked == {"timm:a": {"pretrained": True}, "torchvision:b": {"weights": "DEFAULT"}, "c.safetensors": {}}
    beliefs(tmp_path, *names)
    assert asked == {name: {} for name in names}


def test_a_wrong_model_is_found_before_anything_is_trained(tmp_path):
    with pytest.raises(ValueError, match="Unknown model 'resnet81'"):
        beliefs(tmp_path, "resnet81")
    assert not list(tmp_path.rglob("*.json"))
