"""Two protocols side by side: what is chosen by what, on records made up for it."""

from dataclasses import replace

from neuronal.core.records import to_json
from neuronal.experiments import Recipe, Record
from neuronal.experiments.record import Failure
from neuronal_papers.core import Setting
from neuronal_papers.geometric.comparison import CONTROLS, METHODS, by, measure, measure_clean, method_of, tables

BASE = Recipe(name="set", data="boston", protocol="published", holdout=0.0, seeds=(0, 1, 2), probes=(), model="mlp1")
OPTIONS = {"rates": (0.01, 0.1), "holdout": 0.25, "tuning_seeds": 2}


class Made:
    """Test errors and held-out errors by a rule; remembers what was asked for, and in which portions."""

    def __init__(self, rule):
        self.rule, self.asked, self.sizes = rule, {}, []

    def say(self, line):
        pass

    def records(self, recipes):
        cells = [(recipe, seed) for recipe in recipes for seed in recipe.seeds]
        self.sizes.append(len({*cells} - self.asked.keys()))
        self.asked |= dict.fromkeys(cells)
        return [record(recipe, seed, *self.rule(recipe, seed)) for recipe, seed in cells]


def record(recipe, seed, test, held):
    failure = Failure(1, recipe.lr, "the loss became nan") if test is None else None
    metrics = {} if failure else {"rmse": test, "loss": 0.0}
    return Record(recipe, seed, metrics, ({"holdout_rmse": held},), {}, failure, 1.0, 0.1, "", {})


def both(recipes, options, work):
    return to_json(measure(Setting(tuple(recipes), options), work))["rows"]


def test_clean_goes_by_held_out_data_and_published_by_the_recipe():
    # On the test data 0.01 is better, on held-out data 0.1: clean must take 0.1 and report what the test says.
    work = Made(lambda recipe, seed: (recipe.lr * 10 + seed, 1 / recipe.lr))
    published, clean = both(by(BASE, "SP"), OPTIONS, work)
    assert (published["protocol"], published["rate"], published["values"]) == ("published", 0.01, [0.1, 1.1, 2.1])
    assert (clean["protocol"], clean["rate"], clean["values"]) == ("clean", 0.1, [1.0, 2.0, 3.0])
    assert [point["value"] for point in clean["tuning"]] == list(OPTIONS["rates"])
    assert all(recipe.holdout == (0.25 if recipe.protocol == "clean" else 0.0) for recipe, _ in work.asked)


def test_every_method_has_the_same_budget_and_all_that_needs_no_choice_is_asked_for_at_once():
    work = Made(lambda recipe, seed: (1.0, 1.0))
    both(by(BASE, *METHODS), OPTIONS, work)
    assert len({sum(method_of(recipe) == name for recipe, _ in work.asked) for name in METHODS}) == 1
    # As published with three seeds, two rates with two; then the chosen ones.
    assert [size for size in work.sizes if size] == [len(METHODS) * (3 + 2 * 2), len(METHODS) * 3]


def test_a_rate_that_fails_is_not_chosen_and_a_method_that_always_fails_has_no_number():
    work = Made(lambda recipe, seed: (None if recipe.lr == 0.1 else 2.0, 1 / recipe.lr))
    assert both(by(BASE, "SP"), OPTIONS, work)[1]["rate"] == 0.01
    assert "values" not in both(by(BASE, "SP"), OPTIONS, Made(lambda recipe, seed: (None, 1.0)))[1]


def test_rates_of_one_batch_size_are_taken_for_all():
    sizes = [replace(one, batch_size=size, name=str(size)) for size in (64, 128) for one in by(BASE, "SP", "GmP")]
    # Batches of 64 would choose 0.01, those of 128 choose 0.1.
    work = Made(lambda recipe, seed: (1.0, recipe.lr if recipe.batch_size == 64 else 1 / recipe.lr))
    clean = both(sizes, OPTIONS | {"tuning_batch": 128}, work)[1::2]
    assert [(row["batch"], row["rate"]) for row in clean] == [(64, 0.1), (64, 0.1), (128, 0.1), (128, 0.1)]
    tried = [(method_of(one), one.batch_size, seed) for one, seed in work.asked if one.lr == 0.01 and one.holdout]
    assert tried == [("SP", 128, 0), ("SP", 128, 1), ("GmP", 128, 0), ("GmP", 128, 1)]
    assert [row["rate"] for row in both(sizes, OPTIONS, work)[1::2]] == [0.01, 0.01, 0.1, 0.1]


def test_the_clean_protocol_alone_tunes_with_seeds_of_its_own_at_one_batch_size():
    clean = replace(BASE, protocol="clean", holdout=0.25)
    sizes = [replace(one, batch_size=size, name=str(size)) for size in (64, 128) for one in by(clean, "SP", *CONTROLS)]
    options = {"rates": (0.01, 0.1), "tuning_seeds": (100,), "tuned_at": {"batch_size": 128, "epochs": 3}}
    # Batches of 64 would choose 0.01, those of 128 choose 0.1.
    work = Made(lambda recipe, seed: (1.0, recipe.lr if recipe.batch_size == 64 else 1 / recipe.lr))
    rows = to_json(measure_clean(Setting(tuple(sizes), options), work))["rows"]
    assert [(row["method"], row["batch"]) for row in rows] == [(m, b) for b in (64, 128) for m in ("SP", *CONTROLS)]
    assert {(row["rate"], row["protocol"], *row["seeds"]) for row in rows} == {(0.1, "clean", 0, 1, 2)}
    assert {(one.batch_size, one.epochs) for one, seed in work.asked if seed == 100} == {(128, 3)}
    assert len(work.asked) == 3 * 2 + 6 * 3
    whole = {"title": "t", "where": "w", "scale": "paper", "reported": {}, "options": options, "result": {"rows": rows}}
    (table,) = tables(whole)
    assert table.head == ("data", "method", "clean", "its rate", "failed")
    assert [row[3] for row in table.rows] == ["0.1 ↑"] * 6
