"""What the claims of the implicit-bias paper say of made-up results that must hold, fail or stay open."""

import numpy as np
import pytest

from neuronal_papers.registry import reproductions

SEEDS = (0, 1, 2)
NEURONS = ("standard", "implicit_bias")
NOISE = np.array([-0.004, 0.0, 0.004])
"""How much seeds differ, in the same way for both neurons and not."""


def outcomes(name, rows, recipes=()):
    """The outcomes of all claims of a reproduction, on these rows."""
    one = reproductions()[f"implicit_bias/{name}"]
    facts = {"command": "", "scale": "small", "recipes": recipes, "options": one.scales["small"].options}
    return {finding.claim: finding for finding in one.findings({**facts, "result": {"rows": rows}})}


def outcome(found, *words):
    """Of the only claim with these words."""
    (finding,) = (one for claim, one in found.items() if all(word in claim for word in words))
    return finding.outcome


def runs(values, make, name="Fashion-MNIST", neuron="implicit_bias"):
    """A row per seed."""
    return [{"name": name, "neuron": neuron, "seed": seed, **make(values[seed])} for seed in SEEDS]


def beside(standard, own, make, kind=""):
    """Rows of the standard network, and of implicit bias."""
    return runs(standard, make, neuron="standard") + runs(own, make, f"Fashion-MNIST{kind}")


def attacked(share):
    curves = {"transfer": [0.9, share], "white_box": [0.9, 1 - share]}
    return {"accuracy": curves, "checks": [{"name": "a check", "passed": share < 0.7, "numbers": "5 of 6"}]}


@pytest.mark.parametrize(("own", "transfer"), [(0.6, "holds"), (0.4, "fails"), (0.5, "inconclusive")])
@pytest.mark.parametrize(("kind", "words"), [("", "learnt coupling"), (", coupling -0.5", "coupling -0.5")])
def test_robustness_is_judged_by_each_attack(own, transfer, kind, words):
    found = outcomes("pgd", beside(0.5 + NOISE, own - NOISE, attacked, kind))
    assert outcome(found, words, "protocol") == transfer
    assert outcome(found, words, "white-box") == {"holds": "fails", "fails": "holds"}.get(transfer, transfer)
    assert outcome(found, "masked") == "holds"


def test_one_check_that_fails_is_named():
    *_, finding = outcomes("pgd", beside([0.5, 0.5, 0.5], [0.5, 0.9, 0.5], attacked)).values()
    assert finding.outcome == "false as stated"
    assert "5 of 6 checks" in finding.numbers
    assert "implicit_bias, seed 1: a check (5 of 6)" in finding.numbers


@pytest.mark.parametrize(("factor", "expected"), [(0.5, "holds"), (2.0, "fails"), (1.0, "inconclusive")])
def test_sensitivity_is_judged_by_ratios(factor, expected):
    def sized(value):
        return {"with": {"frobenius": value, "curvature": value}, "without": {"frobenius": value / factor}}

    found = outcomes("jacobian", beside(100 * (1 + NOISE), 100 * factor * (1 - NOISE), sized, ", coupling -0.5"))
    assert outcome(found, "coupling -0.5", "curvature") == expected
    assert outcome(found, "coupling -0.5", "the Jacobian is smaller than a standard") == expected
    assert outcome(found, "learnt", "curvature") == "not measured"


def test_a_coupling_is_compared_with_the_same_network_without():
    rows = []
    for seed in SEEDS:
        for c, accuracy in ((0.0, 0.9), (-0.1, 0.899)):
            row = {"name": "A", "seed": seed, "coupling": c, "accuracy": accuracy + seed / 10}
            rows.append({**row, "jacobian": 2 + c, "robust": [0.5 - c]})
    assert [one.outcome for one in outcomes("transfer", rows).values()] == ["holds"] * 3
    rows[3]["accuracy"] -= 0.1
    assert outcome(outcomes("transfer", rows), "costs") == "inconclusive"


def curves(points, field):
    """Rows and recipes of networks along an axis: (x, accuracies of standard, of implicit bias) each; ``None`` failed."""
    rows, recipes = [], []
    for x, *both in points:
        name = f"Fashion-MNIST, {x}"
        for neuron, values in zip(NEURONS, both, strict=True):
            recipes.append({"name": name, "family": neuron, "data": "d", "seeds": SEEDS, "epochs": 3, field: x})
            for seed, value in zip(SEEDS, values, strict=True):
                if value is not None:
                    row = {"name": name, "neuron": neuron, "data": "d", "seed": seed, "x": x, "accuracy": value}
                    rows.append({**row, "epochs": [value]})
    return rows, recipes


def test_less_data_may_be_as_good_as_all():
    for half, whole, expected in ((0.95, 0.9, ["holds", "inconclusive"]), (0.8, 0.8, ["fails", "fails"])):
        points = [(0.5, 0.8 + NOISE, half - NOISE), (1, 0.9 + NOISE, whole - NOISE)]
        found = outcomes("data_fraction", *curves(points, "fraction"))
        assert [one.outcome for one in found.values()] == expected


def test_a_failed_run_counts_as_chance_and_is_named():
    found = outcomes("expressivity", *curves([(1, 0.5 + NOISE, 0.6 - NOISE)], "width"))
    assert outcome(found, "size") == "holds"
    (finding,) = outcomes("expressivity", *curves([(1, 0.5 + NOISE, [0.6, None, 0.6])], "width")).values()
    assert finding.outcome == "inconclusive"
    assert "implicit_bias seed 1 failed" in finding.numbers
    assert f"{(10 * 2 - 40) / 3:+.2f}" in finding.numbers


def test_leads_with_wrong_labels_are_compared_seed_by_seed():
    """The leads differ between seeds much more than they grow."""
    leads = np.array([0.0, 0.1, 0.2])
    points = [(0.0, [0.5] * 3, 0.5 + leads), (0.5, [0.4] * 3, 0.41 + leads)]
    assert outcome(outcomes("memorisation", *curves(points, "wrong_labels")), "lead") == "holds"


@pytest.mark.parametrize(
    ("own", "half", "fewer"),
    [(2, "holds", "holds"), (9, "fails", "holds"), (99, "fails", "fails"), (12, "fails", "inconclusive")],
)
def test_epochs_are_compared_with_those_of_the_standard_network(own, half, fewer):
    rows, recipes = curves([(12, [0.9] * 3, [0.9] * 3)], "epochs")
    for row in rows:
        reached = 12 if row["neuron"] == "standard" else own
        row["epochs"] = [0.1 if epoch < reached else 0.9 for epoch in range(1, 13)]
    assert [one.outcome for one in outcomes("learning_speed", rows, recipes).values()] == [half, fewer]


def test_kinds_are_compared_with_the_standard_neuron_and_not_the_papers_own():
    def kind(value):
        return {"robust": value}

    rows = beside(0.1 + NOISE, 0.1 - NOISE, kind) + runs(0.5 - NOISE, kind, "Fashion-MNIST, coupling -0.5")
    assert outcome(outcomes("lite", rows), "robust") == "holds"


def test_one_attack_that_stays_hidden_refutes_that_there_is_none():
    def tried(logits):
        return {"works": [True, True], "classes": [0, 0], "logits": [0.5, logits]}

    for logits, expected in ((0.5, ["fails", "holds"]), (0.001, ["inconclusive", "false as stated"])):
        found = outcomes("stealth", beside([logits] * 3, [logits] * 3, tried)).values()
        assert [one.outcome for one in found] == [*expected, "not measured", "not measured"]


def test_several_solutions_refute_that_there_is_one():
    solved = {"steepest": 1e-9, "from_descent": 1e-9}
    rows = [{"slope": 1.0, "product": p, "solutions": [1], "settled": 1.0, "solved": solved} for p in (-1.0, 0.4, 0.9)]
    rows.append({"slope": 1.0, "product": 2.0, "solutions": [3], "settled": 1.0, "solved": None})
    assert {one.outcome for one in outcomes("energy", rows).values()} == {"holds"}
    rows[1]["solutions"], rows[2]["solved"], rows[3]["solutions"] = [2], {**solved, "from_descent": 1.0}, [1]
    expected = ["false as stated", "false as stated", "holds", "inconclusive"]
    assert [one.outcome for one in outcomes("energy", rows).values()] == expected


DRAWS, SLACK = 400, 0.035
"""Three standard errors of a share of 5% over the draws."""


@pytest.mark.parametrize(("name", "field"), [("pgd", ""), ("expressivity", "width"), ("memorisation", "wrong_labels")])
def test_identical_neurons_are_mostly_inconclusive(name, field):
    """Both neurons drawn from the same distribution: each claim that they differ holds, and fails, in at most 5%."""
    rng = np.random.default_rng(0)
    counts = {}
    for _ in range(DRAWS):
        values = 0.5 + 0.05 * rng.normal(size=(4, 2, 3))
        drawn = (
            curves([(x, *both) for x, both in enumerate(values)], field) if field else [beside(*values[0], attacked)]
        )
        for claim, finding in outcomes(name, *drawn).items():
            if finding.outcome != "not measured" and "masked" not in claim:
                counts.setdefault(claim, []).append(finding.outcome)
    assert counts
    for claim, found in counts.items():
        assert max(found.count("holds"), found.count("fails")) <= DRAWS * (0.05 + SLACK), claim
        assert found.count("inconclusive") >= DRAWS * (0.9 - SLACK), claim
