"""Couplings beside weight decay: which networks are compared, and with what sign."""

import pytest

from neuronal_papers.studies.implicit_bias_decay import DECAY, above_own_start, at_same_accuracy, matched


def row(name, neuron, seed, holdout, robust):
    curve = [0.9, robust - 0.1, robust + 0.1]
    return {"name": name, "neuron": neuron, "seed": seed, "holdout": holdout, "accuracy": {"white_box": curve}}


NETWORKS = {
    ("A", "standard"): (0.90, 0.30),
    ("A, decay 0.001", "standard"): (0.85, 0.50),
    ("A, decay 0.01", "standard"): (0.80, 0.70),
    ("A, coupling -0.5", "implicit_bias"): (0.84, 0.60),
    ("A, coupling -0.5, decay 0.01", "implicit_bias"): (0.80, 0.65),
    ("A, coupling learnt", "implicit_bias"): (0.91, 0.30),
    # Other data, whose networks are no match for those of A.
    ("B", "standard"): (0.84, 0.10),
    ("B, coupling -1", "implicit_bias"): (0.84, 0.05),
}
ROWS = [
    row(name, neuron, seed, holdout + 0.002 * seed, robust + 0.01 * seed)
    for (name, neuron), (holdout, robust) in NETWORKS.items()
    for seed in range(3)
]
RESULT = {"result": {"rows": ROWS}}


def test_each_coupling_is_beside_the_standard_network_of_the_nearest_clean_accuracy():
    pairs = {label: other["name"] for label, _, other in matched(RESULT)}
    assert pairs == {
        "A, coupling -0.5": "A, decay 0.001",
        "A, coupling -0.5, decay 0.01": "A, decay 0.01",
        "A, coupling learnt": "A",
        "B, coupling -1": "B",
    }


def test_leads_are_points_of_the_mean_over_epsilons():
    first, second = at_same_accuracy("white_box", RESULT)
    assert (first.label, second.label) == ("A, coupling -0.5", "B, coupling -1")
    assert first.values == pytest.approx([10.0] * 3)
    assert second.values == pytest.approx([-5.0] * 3)
    assert "beside A, decay 0.001, held-out accuracy 84.20% against 85.20%" in first.note


def test_decay_is_compared_with_the_same_network_without():
    cases = above_own_start(RESULT)
    assert [case.label for case in cases] == ["A, decay 0.001", "A, decay 0.01"]
    assert cases[0].values == pytest.approx([20.0] * 3)
    assert cases[1].values == pytest.approx([40.0] * 3)


def test_every_network_of_the_issue_is_there():
    names = {(recipe.name, recipe.family) for recipe in DECAY.scales["paper"].recipes}
    for data in ("Fashion-MNIST", "CIFAR-10"):
        assert {(f"{data}, coupling {c:g}", "implicit_bias") for c in (-0.05, -0.1, -0.5, -1, 0)} <= names
        assert (f"{data}, coupling learnt", "implicit_bias") in names
        assert sum(name.startswith(f"{data}, decay") for name, family in names if family == "standard") == 5
    seeds = {recipe.data: len(recipe.seeds) for recipe in DECAY.scales["paper"].recipes}
    assert seeds == {"fashion_mnist": 5, "cifar10": 3}
    assert all(recipe.decay_weights_only for recipe in DECAY.scales["paper"].recipes if recipe.weight_decay)
