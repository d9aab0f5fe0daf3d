"""Claims on made-up results that leave no doubt."""

import pytest

from neuronal_papers.farkas import REPRODUCTIONS
from neuronal_papers.farkas.dead_units import MEASURES
from neuronal_papers.farkas.tables import at_best_rates

LOW, HIGH, OFF = (0.40, 0.41, 0.42), (0.60, 0.61, 0.621), (0.1, 0.1, 0.1)
BY_NAME = {one.name: one for one in REPRODUCTIONS}
CERTIFIED = {"layers": 4, "certified": 4, "refuted": 0, "checked": True}


def row(name, accuracies, broken=(), **more):
    seeds = {str(seed): accuracy for seed, accuracy in enumerate(accuracies) if seed not in broken}
    failed = dict.fromkeys(map(str, broken), "nan") | {seed: "stays" for seed, a in seeds.items() if a < 0.15}
    curves = {str(seed): [a, a] if seed not in broken else [] for seed, a in enumerate(accuracies)}
    neuron = "farkas" if "arkas" in name else "standard"
    return {"name": name, "neuron": neuron, "accuracy": seeds, "failed": failed, "while_training": curves} | more


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
    ("farkas", "plain", "outcome"),
    [
        (HIGH, LOW, "holds"),
        (LOW, HIGH, "fails"),
        ((0.6, 0.3, 0.5), LOW, "inconclusive"),
        (HIGH, (0.10, 0.11, 0.12), "holds"),
        (OFF, OFF, "inconclusive"),
    ],
)
def test_lower_errors_without_norm(farkas, plain, outcome):
    rows = [row(f"{net}50, no norm", a) for net, a in (("FarkasNet", farkas), ("ResNet", plain))]
    assert outcomes("table1_cifar10", *rows) == [outcome, "not measured", "not measured"]


def test_who_stayed_at_chance_for_too_few_epochs_may_only_be_slow():
    # 18 layers have 2.4 epochs at their first rate, 50 layers 7.2.
    for depth, outcome in ((18, "inconclusive"), (50, "holds")):
        rows = row(f"FarkasNet{depth}, no norm", HIGH), row(f"ResNet{depth}, no norm", OFF)
        assert outcomes("table1_cifar10", *rows)[0] == outcome
    # One that broke down needs no more of them.
    rows = row("FarkasNet18, no norm", HIGH), row("ResNet18, no norm", LOW, broken=(0, 1, 2))
    assert outcomes("table1_cifar10", *rows)[0] == "holds"


@pytest.mark.parametrize(
    ("own", "outcome"), [(LOW, "holds"), (HIGH, "fails"), ((0.3, 0.5, 0.4), "inconclusive"), (OFF, "inconclusive")]
)
def test_errors_within_a_margin(own, outcome):
    rows = row("FarkasNet50, batch norm", own), row("ResNet50, batch norm", LOW if own != OFF else OFF)
    assert outcomes("table1_cifar10", *rows)[2] == outcome


@pytest.mark.parametrize(
    ("accuracies", "broken", "trains", "fails"),
    [
        (LOW, (), "holds", "false as stated"),
        (LOW, (1,), "false as stated", "false as stated"),
        (LOW, (0, 1, 2), "false as stated", "holds"),
        ((0.4, 0.1, 0.4), (), "inconclusive", "false as stated"),
        (OFF, (), "inconclusive", "inconclusive"),
    ],
)
def test_every_run_trains_or_none(accuracies, broken, trains, fails):
    sums = [row(f"FarkasNet{depth} sum, rate 0.1", accuracies, broken) for depth in (18, 50)]
    assert outcomes("sum_vs_mean", *sums) == [fails]
    assert outcomes("table4_best_practice", row("FarkasNet34, rate 0.05", accuracies, broken))[3] == trains
    # After five epochs at the first rate one at chance has failed.
    late = row("FarkasNet101 mean, rate 0.1", accuracies, broken), row("ResNet101, rate 0.1", OFF)
    assert outcomes("deep_large_lr", *late) == [trains if trains != "inconclusive" else "false as stated", "holds"]


def test_best_rates_are_those_of_training_images():
    def rates(*rows):
        (case,) = at_best_rates("FixUp34", result("table4_best_practice", *rows))
        return case.label.rpartition(", rates ")[2]

    own = [row("FarkasNet34, rate 0.01", LOW), row("FarkasNet34, rate 0.1", HIGH)]
    other = [row("FixUp34, rate 0.01", LOW), row("FixUp34, rate 0.1", HIGH, broken=(0, 1))]
    assert rates(*own, *other) == "0.1 against 0.01:"
    own[1]["while_training"] = {seed: [0.9, 0.2] for seed in "012"}
    assert rates(*own, *other) == "0.01 against 0.01:"


def activity(name, dead, *, silent=0.0, proof=CERTIFIED, accuracy=0.5, broken=()):
    over = {str(seed): {name: [silent] for name in MEASURES} | {"dead_units": [0.0, d]} for seed, d in enumerate(dead)}
    proofs = {seed: proof for seed in over if int(seed) not in broken}
    return row(name, [accuracy] * len(dead), broken, over_training=over, certificates=proofs)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, ["holds", "holds", "holds", "false as stated"]),
        ({"silent": 0.1}, ["holds", "false as stated", "holds", "false as stated"]),
        ({"proof": CERTIFIED | {"certified": 3}}, ["holds", "holds", "inconclusive", "false as stated"]),
        ({"proof": CERTIFIED | {"certified": 3, "refuted": 1}}, ["holds", "holds", *["false as stated"] * 2]),
        # What never learnt is not what the paper means by no dead units.
        ({"accuracy": 0.1}, ["holds", "holds", "holds", "not measured"]),
        ({"dead": (0.0, 0.0, 0.0)}, ["holds", "holds", "holds", "holds"]),
        ({"broken": (0, 1, 2)}, ["holds", *["not measured"] * 3]),
    ],
)
def test_activity(own, expected):
    farkas = activity("4 x 64, Farkas sum", **{"dead": (0.1, 0.1, 0.1)} | own)
    assert outcomes("dead_units", activity("4 x 64, standard", (0.3, 0.31, 0.32)), farkas) == expected
