"""Two protocols side by side: what is chosen by what, on records made up for it."""

from dataclasses import replace

import pytest

from neuronal.experiments.procedures.geometric.protocol_table import ahead, findings
from neuronal.experiments.protocols import METHODS, against, both, method
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import Failure, Record
from neuronal.recipes.geometric.methods import PARTS, by

BASE = Recipe(name="set", data="boston", protocol="published", holdout=0.0, seeds=(0, 1, 2), probes=(), model="mlp1")
OPTIONS = {"rates": (0.01, 0.1), "holdout": 0.25, "tuning_seeds": 2}


class Made:
    """Test errors and held-out errors by a rule; remembers what was asked for."""

    def __init__(self, rule):
        self.rule, self.asked = rule, []

    def say(self, line):
        pass

    def records(self, recipes):
        cells = [(recipe, seed) for recipe in recipes for seed in recipe.seeds]
        self.asked += cells
        return [self.record(*cell) for cell in cells]

    def record(self, recipe, seed):
        test, held = self.rule(recipe, seed)
        failure = Failure(1, recipe.lr, "the loss became nan") if test is None else None
        metrics = {} if failure else {"rmse": test, "loss": 0.0}
        return Record(recipe, seed, metrics, ({"holdout_rmse": held},), {}, failure, 1.0, 0.1, "", {})


def test_the_papers_names_are_neurons_and_norms():
    assert {METHODS[parts]: parts for parts in METHODS} == PARTS
    assert [method(one) for one in by(BASE, *PARTS)] == list(PARTS)
    assert [one.lr for one in by(BASE, "SP", "GmP")] == [0.01, 0.1]


def test_clean_goes_by_held_out_data_and_published_by_the_recipe():
    # On the test data 0.01 is better, on held-out data 0.1: clean must take 0.1 and report what the test says.
    work = Made(lambda recipe, seed: (recipe.lr * 10 + seed, 1 / recipe.lr))
    published, clean = both(by(BASE, "SP"), OPTIONS, work)
    assert (published["protocol"], published["rate"], published["values"]) == ("published", 0.01, [0.1, 1.1, 2.1])
    assert (clean["protocol"], clean["rate"], clean["values"]) == ("clean", 0.1, [1.0, 2.0, 3.0])
    assert [point["value"] for point in clean["tuning"]] == [0.01, 0.1]
    for recipe, _ in work.asked:
        assert recipe.holdout == (0.25 if recipe.protocol == "clean" else 0.0)


def test_every_method_has_the_same_budget():
    work = Made(lambda recipe, seed: (1.0, 1.0))
    both(by(BASE, *PARTS), OPTIONS, work)
    counts = {name: sum(method(recipe) == name for recipe, _ in work.asked) for name in PARTS}
    assert len(set(counts.values())) == 1


def test_a_rate_that_fails_is_not_chosen_and_a_method_that_always_fails_has_no_number():
    work = Made(lambda recipe, seed: (None if recipe.lr == 0.1 else 2.0, 1 / recipe.lr))
    assert both(by(BASE, "SP"), OPTIONS, work)[1]["rate"] == 0.01
    row = both(by(BASE, "SP"), OPTIONS, Made(lambda recipe, seed: (None, 1.0)))[1]
    assert "values" not in row


def rows(**values):
    return [
        row
        for recipe in by(BASE, *values)
        for row in both([recipe], OPTIONS, Made(lambda recipe, seed: (values[method(recipe)] + 0.01 * seed**2, 1.0)))
    ]


@pytest.mark.parametrize(("gmp", "verdict"), [(0.5, "reproduced"), (1.5, "not reproduced")])
def test_verdicts_follow_the_differences(gmp, verdict):
    measured = rows(SP=1.0, GmP=gmp)
    # The same difference for every seed says nothing of chance, so make one of them differ a little.
    measured[0]["values"] = [value + 0.001 * i for i, value in enumerate(measured[0]["values"])]
    gaps = against(measured, "GmP")
    assert gaps[0]["mean"] == pytest.approx(gmp - 1.001, abs=1e-9)
    result = {"rows": measured, "differences": gaps, "best": "GmP"}
    reported = {"boston": {"SP": (1.0, 0.1), "GmP": (9.0, 0.1)}}
    found = findings({"result": result, "reported": reported})
    assert found[0].verdict == verdict
    assert found[-1].verdict == "reproduced in part"
    assert "1 of 2" in found[-1].numbers
    assert "boston GmP" in found[-1].numbers


def test_choices_by_the_training_data_need_no_holdout():
    from neuronal.experiments.run import run

    recipe = Recipe(name="l", model="mlp1", data="levy", holdout=0.0, protocol="training", epochs=4, probes=())
    record = run(replace(recipe, cut_after=1, keep_best=True, lr=0.1), 0)
    assert "training_loss" in record.epochs[0]
    assert record.metrics["best_epoch"] >= 1


def test_ahead_is_more_than_two_standard_errors_of_the_difference():
    def row(name, mean, error, measure="accuracy"):
        return {"method": name, "measure": measure, "estimate": {"mean": mean, "standard_error": error}}

    assert ahead([row("SP", 0.80, 0.01), row("GmP", 0.84, 0.01)], "GmP") == "reproduced"
    assert ahead([row("SP", 0.80, 0.01), row("GmP", 0.81, 0.01)], "GmP") == "reproduced in part"
    assert ahead([row("SP", 0.80, 0.01), row("GmP", 0.79, 0.01)], "GmP") == "not reproduced"
    assert ahead([row("SP", 2.0, None, "rmse"), row("GmP", 1.0, None, "rmse")], "GmP") == "reproduced"
