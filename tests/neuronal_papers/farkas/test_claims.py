"""Claims on made-up results that leave no doubt."""

import pytest

from neuronal_papers.farkas import REPRODUCTIONS
from neuronal_papers.farkas.dead_units import MEASURES
from neuronal_papers.farkas.tables import at_best_rates

LOW, HIGH, OFF = (0.40, 0.41, 0.42), (0.60, 0.61, 0.621), (0.1, 0.1, 0.1)
BROKEN = (None, None, None)
"""Runs whose loss stopped being finite."""
BY_NAME = {one.name: one for one in REPRODUCTIONS}
CERTIFIED = {"layers": 4, "certified": 4, "refuted": 0, "checked": True}


def row(name, accuracies, **more):
    runs = {str(seed): accuracy for seed, accuracy in enumerate(accuracies)}
    made = {"name": name, "neuron": "farkas" if "arkas" in name else "standard"}
    made["accuracy"] = {seed: a for seed, a in runs.items() if a is not None}
    made["failed"] = {seed: "why" for seed, a in runs.items() if a is None or a < 0.15}
    return made | {"while_training": {seed: [a, a] if a else [] for seed, a in runs.items()}} | more


def result(name, *rows):
    """With the recipes of scale small, which say how long networks are trained."""
    one = BY_NAME[f"farkas/{name}"]
    recipes = [recipe.to_json() for recipe in one.scales["small"].recipes]
    head = {"reproduction": one.name, "command": "", "scale": "small", "recipes": recipes, "reported": {}}
    return head | {"result": {"rows": list(rows), "chance": 0.1}}


def outcomes(name, *rows):
    """Of the claims, from the first to the last."""
    return [found.outcome for found in BY_NAME[f"farkas/{name}"].findings(result(name, *rows))]


@pytest.mark.parametrize(
    ("claim", "network", "farkas", "plain", "outcome"),
    [
        (0, "50, no norm", HIGH, LOW, "holds"),
        (0, "50, no norm", LOW, HIGH, "fails"),
        (0, "50, no norm", (0.6, 0.3, 0.5), LOW, "inconclusive"),
        (0, "50, no norm", OFF, OFF, "inconclusive"),
        # Who stayed at chance may only be slow: 18 layers have 2.4 epochs at their first rate, 50 layers 7.2.
        (0, "50, no norm", HIGH, OFF, "holds"),
        (0, "18, no norm", HIGH, OFF, "inconclusive"),
        # One that broke down needs no more of them.
        (0, "18, no norm", HIGH, BROKEN, "holds"),
        (2, "50, batch norm", LOW, LOW, "holds"),
        (2, "50, batch norm", HIGH, LOW, "fails"),
        (2, "50, batch norm", (0.3, 0.5, 0.4), LOW, "inconclusive"),
        (2, "50, batch norm", OFF, OFF, "inconclusive"),
    ],
)
def test_lower_errors_and_errors_within_a_margin(claim, network, farkas, plain, outcome):
    found = outcomes("table1_cifar10", row(f"FarkasNet{network}", farkas), row(f"ResNet{network}", plain))
    assert found == [outcome if number == claim else "not measured" for number in range(3)]


@pytest.mark.parametrize(
    ("accuracies", "trains", "fails"),
    [
        (LOW, "holds", "false as stated"),
        ((0.4, None, 0.4), "false as stated", "false as stated"),
        (BROKEN, "false as stated", "holds"),
        ((0.4, 0.1, 0.4), "inconclusive", "false as stated"),
        (OFF, "inconclusive", "inconclusive"),
    ],
)
def test_every_run_trains_or_none(accuracies, trains, fails):
    sums = [row(f"FarkasNet{depth} sum, rate 0.1", accuracies) for depth in (18, 50)]
    assert outcomes("sum_vs_mean", *sums) == [fails]
    assert outcomes("table4_best_practice", row("FarkasNet34, rate 0.05", accuracies))[3] == trains
    # After five epochs at the first rate one at chance has failed.
    late = row("FarkasNet101 mean, rate 0.1", accuracies), row("ResNet101, rate 0.1", OFF)
    assert outcomes("deep_large_lr", *late) == [trains if trains != "inconclusive" else "false as stated", "holds"]


def test_best_rates_are_those_of_training_images():
    def rates(*rows):
        (case,) = at_best_rates("FixUp34", result("table4_best_practice", *rows))
        return case.label.rpartition(", rates ")[2]

    own = [row("FarkasNet34, rate 0.01", LOW), row("FarkasNet34, rate 0.1", HIGH)]
    other = [row("FixUp34, rate 0.01", LOW), row("FixUp34, rate 0.1", (None, None, 0.621))]
    assert rates(*own, *other) == "0.1 against 0.01:"
    own[1]["while_training"] = {seed: [0.9, 0.2] for seed in "012"}
    assert rates(*own, *other) == "0.01 against 0.01:"


def activity(name, dead, *, silent=0.0, proof=CERTIFIED, accuracies=(0.5,) * 3):
    over = {str(seed): {name: [silent] for name in MEASURES} | {"dead_units": [0.0, d]} for seed, d in enumerate(dead)}
    made = row(name, accuracies, over_training=over)
    return made | {"certificates": dict.fromkeys(made["accuracy"], proof)}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, ["holds", "holds", "holds", "false as stated"]),
        ({"silent": 0.1}, ["holds", "false as stated", "holds", "false as stated"]),
        ({"proof": CERTIFIED | {"certified": 3}}, ["holds", "holds", "inconclusive", "false as stated"]),
        ({"proof": CERTIFIED | {"certified": 3, "refuted": 1}}, ["holds", "holds", *["false as stated"] * 2]),
        # What never learnt is not what the paper means by no dead units.
        ({"accuracies": OFF}, ["holds", "holds", "holds", "not measured"]),
        ({"dead": (0.0, 0.0, 0.0)}, ["holds", "holds", "holds", "holds"]),
        ({"accuracies": BROKEN}, ["holds", *["not measured"] * 3]),
    ],
)
def test_activity(own, expected):
    farkas = activity("4 x 64, Farkas sum", **{"dead": (0.1, 0.1, 0.1)} | own)
    assert outcomes("dead_units", activity("4 x 64, standard", (0.3, 0.31, 0.32)), farkas) == expected


def test_depths_with_one_seed_leave_no_claim_open():
    one = BY_NAME["farkas/table1_cifar10"]
    kinds = (("18", HIGH, LOW), ("34", HIGH, LOW), ("50", LOW[:1], HIGH[:1]))
    pairs = [(row(f"FarkasNet{n}, no norm", own), row(f"ResNet{n}, no norm", other)) for n, own, other in kinds]
    whole = result("table1_cifar10", *(network for pair in pairs for network in pair))
    outcomes = [one.findings(whole | {"scale": scale})[0].outcome for scale in ("small", "paper")]
    assert outcomes == ["inconclusive", "holds"]
    seeds = {recipe.model: len(recipe.seeds) for recipe in one.scales["paper"].recipes}
    assert seeds == {"farkasnet18": 3, "farkasnet34": 3, "farkasnet50": 1, "farkasnet101": 1}
