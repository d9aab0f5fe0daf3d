"""Counting what holds between images: against plain loops over all pairs, and a network known by heart."""

import math

import pytest
import torch
from torch import nn

from neuronal.experiments.pairs import (
    Share,
    crossing,
    examine,
    neighbours_of_another_class,
    same_class_pairs,
    same_pattern,
)
from neuronal.experiments.run import trained
from neuronal.recipes.pairs import DIGITS, NEURONS, ON_DIGITS, ON_IMAGES
from neuronal.report.pairs import grouped, pairs_table, total


def test_wilson_intervals_are_roots_of_their_equation():
    """The ends p are where |share - p| is z standard deviations of p itself."""
    for count, n in ((0, 10), (3, 10), (10, 10), (991, 1000)):
        for p in Share(count, n).interval:
            if 1e-9 < p < 1 - 1e-9:
                assert abs(count / n - p) == pytest.approx(1.959964 * math.sqrt(p * (1 - p) / n), rel=1e-6)
    assert Share(0, 0).interval == (0.0, 1.0)
    assert Share(0, 10).interval[0] == 0.0
    assert Share(10, 10).interval[1] == pytest.approx(1.0)


def test_pairs_are_of_one_class_both_right_and_different():
    y = torch.tensor([0, 0, 0, 1, 1, 2, 0])
    right = torch.tensor([True, True, False, True, True, True, True])
    every = {(0, 1), (0, 6), (1, 6), (3, 4)}
    a, b = same_class_pairs(y, right, 100, torch.Generator().manual_seed(0))
    assert set(zip(a.tolist(), b.tolist(), strict=True)) == every
    a, b = same_class_pairs(y, right, 3, torch.Generator().manual_seed(0))
    drawn = list(zip(a.tolist(), b.tolist(), strict=True))
    assert len(set(drawn)) == 3
    assert set(drawn) <= every


def test_every_pair_is_as_likely_as_any_other():
    """Classes of 3 and of 2 make 3 pairs and 1: a quarter of the draws is the latter."""
    y, right = torch.tensor([0, 0, 0, 1, 1]), torch.ones(5, dtype=torch.bool)
    generator = torch.Generator().manual_seed(0)
    hits = [int(same_class_pairs(y, right, 1, generator)[0][0]) == 3 for _ in range(2000)]
    assert sum(hits) / 2000 == pytest.approx(0.25, abs=0.04)


def test_no_pairs_where_there_are_none():
    a, b = same_class_pairs(torch.tensor([0, 1]), torch.ones(2, dtype=torch.bool), 5, torch.Generator())
    assert len(a) == len(b) == 0


def test_neighbours_are_the_nearest_of_another_class():
    torch.manual_seed(0)
    x, y = torch.randn(30, 2), torch.randint(3, (30,))
    right = torch.rand(30) > 0.2
    a, b = neighbours_of_another_class(x, y, right, 10, torch.Generator().manual_seed(1))
    assert len(a) == 10
    for i, j in zip(a.tolist(), b.tolist(), strict=True):
        possible = [k for k in range(30) if right[k] and y[k] != y[i]]
        assert j == min(possible, key=lambda k: (x[i] - x[k]).norm().item())


def test_equal_patterns_are_counted_as_a_loop_would():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 3))
    x = torch.randn(60, 2)
    with torch.no_grad():
        signs, predicted = model[0](x) > 0, model(x).argmax(1)
    alike = [(i, j) for i in range(60) for j in range(i) if predicted[i] == predicted[j]]
    equal = sum(bool((signs[i] == signs[j]).all()) for i, j in alike)
    assert equal
    assert same_pattern(model, x, predicted) == Share(equal, len(alike))


def test_crossings_of_a_network_known_by_heart():
    """Scores -|x| + 1/2 and |x| - 1/2: from -1 to 0 the class changes once, at x = -1/2."""
    model = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 2))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0], [-1.0]]))
        model[0].bias.zero_()
        model[2].weight.copy_(torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))
        model[2].bias.copy_(torch.tensor([0.5, -0.5]))
    x, y = torch.tensor([[-1.0], [0.0], [1.0]]), torch.tensor([1, 0, 1])
    found = crossing(model, x, y, torch.tensor([0]), torch.tensor([1]))
    assert found.direct == Share(1, 1)
    assert found.through_others == Share(0, 1)
    assert found.median_first == pytest.approx(0.5)
    through = crossing(model, x, y, torch.tensor([0]), torch.tensor([2]))
    assert through.direct == Share(0, 1)
    assert through.median_pieces == 2


def test_a_trained_network_is_examined():
    from dataclasses import replace

    recipe = replace(DIGITS, widths=(8,), epochs=2, family="zero_bias")
    _, model = trained(recipe, 0)
    row = examine(model, recipe, "zero_bias", 0, pairs=20, crossings=3)
    assert row.certified.total == 20
    assert row.certified.count + row.refuted + row.unknown == 20
    assert row.crossing.pairs == 3
    assert row.to_json()["certified"]["interval"]
    drawn = pairs_table([row, replace(row, seed=1)], "digits")
    assert drawn.row_count == 1
    assert "2 seeds" in drawn.caption


def test_rows_are_added_up_by_network_and_neuron():
    assert total([Share(1, 2), Share(3, 4)]) == Share(4, 6)
    assert grouped([]) == []


def test_the_recipes_are_of_both_neurons_and_named_apart():
    assert NEURONS == ("zero_bias", "standard")
    for recipes in (ON_DIGITS, ON_IMAGES):
        assert len({recipe.name for recipe in recipes}) == len(recipes)


def test_nothing_is_proved_of_a_network_that_died(monkeypatch):
    _, model = trained(DIGITS, 0)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    asked = examine(model, DIGITS, "zero_bias", 0, pairs=4, crossings=2)
    monkeypatch.setattr("neuronal.experiments.pairs.certify_segments", None)
    short = examine(model, DIGITS, "zero_bias", 0, pairs=4, crossings=2)
    assert short.unknown == asked.unknown == 4
