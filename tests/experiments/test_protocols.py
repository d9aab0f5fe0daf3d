"""Two protocols side by side: what is chosen by what, on records made up for it."""

from dataclasses import asdict, replace
from statistics import stdev

import pytest

from neuronal.experiments.compare import estimate
from neuronal.experiments.procedures.geometric.protocol_table import (
    ahead,
    as_long,
    fastest,
    findings,
    with_larger_batches,
)
from neuronal.experiments.protocols import METHODS, against, both, in_top5, method
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import Failure, Record
from neuronal.recipes.geometric.methods import PARTS, by
from neuronal.report.papers import drawings, tables

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


def row_of(name, values, measure="accuracy", **more):
    place = {"data": "d", "batch": 8, "protocol": "clean", "failed": {}}
    if values is None:
        return {"method": name, "seeds": [], **place, **more}
    found = {"measure": measure, "values": values, "estimate": asdict(estimate(values)), "seeds": [*range(len(values))]}
    return {"method": name, **found, **place, **more}


LOW, MIDDLE, HIGH = [0.80, 0.81, 0.82, 0.81], [0.80, 0.89, 0.75, 0.83], [0.90, 0.92, 0.91, 0.92]


def test_ahead_is_ahead_of_all_and_beyond_chance():
    """Seed by seed; ahead in the mean alone, one method always is."""
    assert ahead([row_of("SP", LOW), row_of("GmP", HIGH)], "GmP") == "reproduced"
    assert ahead([row_of("SP", LOW), row_of("BN", [0.89, 0.99, 0.85, 0.88]), row_of("GmP", HIGH)], "GmP") == (
        "reproduced in part"
    )
    assert ahead([row_of("SP", LOW), row_of("GmP", MIDDLE)], "GmP") == "not reproduced"
    assert ahead([row_of("SP", HIGH), row_of("GmP", LOW)], "GmP") == "not reproduced"
    assert ahead([row_of("SP", HIGH, "rmse"), row_of("GmP", LOW, "rmse")], "GmP") == "reproduced"


def judged_rows(*rows):
    result = {"rows": rows, "differences": against(rows, "GmP"), "best": "GmP"}
    return {one.claim: one for one in findings({"result": result, "reported": {}})}


@pytest.mark.parametrize("measure", ["rmse", "accuracy"])
def test_a_tie_is_no_lead(measure):
    (found,) = judged_rows(row_of("SP", [0.3, 0.1], measure), row_of("GmP", [0.1 + 2e-17, 0.3], measure)).values()
    assert found.verdict == "not reproduced"


def test_methods_that_failed_altogether_are_named():
    (found,) = judged_rows(row_of("SP", LOW), row_of("BN", None), row_of("GmP", HIGH)).values()
    assert found.verdict == "reproduced"
    assert found.numbers.endswith("beyond chance against SP; BN failed with every seed (4 seeds)")
    (found,) = judged_rows(row_of("SP", LOW), row_of("GmP", None)).values()
    assert (found.verdict, found.numbers) == ("not reproduced", "GmP failed with every seed")


def test_worse_beyond_chance_is_said_and_pairs_are_counted():
    (found,) = judged_rows(row_of("SP", HIGH), row_of("BN", LOW[:2]), row_of("GmP", LOW)).values()
    assert "none beyond chance; worse beyond chance than SP (2 to 4 seeds)" in found.numbers


def test_splits_of_the_same_rows_say_less_than_their_spread():
    """By the square root of 1 + n/4 where a fifth of all rows is for testing."""
    rows = [row_of("SP", LOW), row_of("GmP", MIDDLE)]
    plain, split = (against([one | more for one in rows], "GmP")[0] for more in ({}, {"overlap": 0.25}))
    assert split["high"] - split["mean"] == pytest.approx(2**0.5 * (plain["high"] - plain["mean"]))
    work = Made(lambda recipe, seed: (1.0, 1.0))
    found = both([replace(one, redrawn=0.4) for one in by(BASE, "SP")], OPTIONS, work)
    assert [row["overlap"] for row in found] == [0.1, 0.1]


def test_several_sets_are_summed_up():
    sets = {"a": (LOW, HIGH), "b": (LOW, HIGH), "c": (LOW, MIDDLE), "d": (HIGH, LOW)}
    rows = [row_of(m, v, data=name) for name, pair in sets.items() for m, v in zip(("SP", "GmP"), pair, strict=True)]
    found = judged_rows(*rows)["GmP is the best on all sets, beyond chance on most (clean)"]
    assert found.verdict == "reproduced in part"
    assert found.numbers == "best mean on 3 of 4; not d; beyond chance against all others on 2 (a, b)"
    none = [row for row in rows if row["data"] in "cd"]
    assert judged_rows(*none)["GmP is the best on all sets, beyond chance on most (clean)"].verdict == "not reproduced"
    few = [row for row in rows if row["data"] in "ab"]
    assert judged_rows(*few)["GmP is the best on all sets, beyond chance on most (clean)"].verdict == "reproduced"


def test_tuned_rates_are_compared_over_all_sets():
    def pair(data, sp, gmp):
        return [
            row_of("SP", LOW, data=data, rate=sp, tuning=[]),
            row_of("GmP", LOW, data=data, rate=gmp, tuning=[]),
        ]

    found = judged_rows(*pair("a", 0.01, 0.1), *pair("b", 0.1, 0.1))
    found = found["the best rate of GmP is ten times that of every other method (clean)"]
    assert found.verdict == "reproduced in part"
    assert found.numbers == "on 1 of 2: a SP 0.01, GmP 0.1; b SP 0.1, GmP 0.1"


def test_rates_tried_once_for_all_batches_count_once():
    def pair(batch, *tried):
        return [
            row_of(name, LOW, batch=batch, rate=rate, tuning=[{"value": value} for value in tried])
            for name, rate in (("SP", 0.01), ("GmP", 0.1))
        ]

    claim = "the best rate of GmP is ten times that of every other method (clean)"
    assert judged_rows(*pair(8, 0.1), *pair(16, 0.1))[claim].numbers == (
        "tried once, for all batch sizes: d SP 0.01, GmP 0.1"
    )
    assert judged_rows(*pair(8, 0.1), *pair(16, 0.3))[claim].numbers == (
        "on 2 of 2: d 8 SP 0.01, GmP 0.1; d 16 SP 0.01, GmP 0.1"
    )
    assert claim not in judged_rows(*pair(8, 0.1))


def test_networks_of_the_same_data_are_told_apart():
    rows = [row_of("SP", LOW), row_of("GmP", HIGH)]
    answer = {"result": {"rows": rows, "differences": against(rows, "GmP"), "best": "GmP"}, "reported": {}}
    for model, stop_after, start in (
        ("resnet18", 0, "ResNet-18, 6 epochs, d"),
        ("vgg6", 10, "VGG-6, at most 6 epochs, d"),
        ("mlp1", 0, "d"),
    ):
        recipe = {"model": model, "epochs": 6, "stop_after": stop_after}
        (found,) = findings(answer | {"recipes": [recipe]})
        assert found.claim == f"{start}, batches of 8: GmP has the highest accuracy (clean)"


@pytest.mark.parametrize(
    ("gains", "verdict", "words"),
    [
        ((0.10, 0.10), "reproduced", "more beyond chance over SP, BN (4 seeds)"),
        ((0.10, 0.0001), "reproduced in part", "more beyond chance over SP (4 seeds)"),
        ((0.10, -0.10), "not reproduced", "more beyond chance over SP; less beyond chance over BN (4 seeds)"),
        ((0.0001, 0.0001), "not reproduced", "none more beyond chance (4 seeds)"),
    ],
)
def test_leads_are_compared_between_the_smallest_and_the_largest_batches(gains, verdict, words):
    """GmP does as well with all sizes, and the others worse by what is given; a lead over itself is none."""

    def less(values, by):
        return [value - by + 0.001 * i * (-1) ** i for i, value in enumerate(values)]

    rows = [row_of(name, HIGH, batch=batch) for name in ("GmP", "GmP+IMN") for batch in (64, 8)]
    for name, gain in zip(("SP", "BN"), gains, strict=True):
        rows += [row_of(name, LOW, batch=8), row_of(name, less(LOW, gain), batch=64)]
    (found,) = with_larger_batches(rows, "GmP+IMN", "VGG-6")
    assert found.claim == "VGG-6, d: GmP+IMN is further ahead with larger batches (clean)"
    assert found.verdict == verdict
    assert found.numbers.startswith("lead with batches of 8, 64 over SP +10.25, +")
    assert found.numbers.endswith(words)
    assert with_larger_batches([row for row in rows if row["batch"] == 8], "GmP+IMN") == []


def test_a_reported_run_is_compared_with_runs():
    """Their deviation is 0.025; two of it, and what the mean of ours may be off by, are 0.056."""
    row = row_of("SP", [0.8, 0.85, 0.83, 0.79], protocol="published")
    deviation = stdev(row["values"])
    for reported, near in ((0.8175 + 2.2 * deviation, True), (0.8175 + 2.3 * deviation, False)):
        answer = {
            "result": {"rows": [row], "differences": [], "best": "GmP"},
            "reported": {"d": {"SP": (reported, None)}},
        }
        (found,) = findings(answer)
        assert found.verdict == ("reproduced" if near else "not reproduced")
        assert "within two deviations of a run" in found.numbers


def test_everything_that_needs_no_choice_is_asked_for_at_once():
    """Several processes divide what is asked for in one go, and nothing else."""
    work = Made(lambda recipe, seed: (1.0, 1.0))
    sizes = []
    records = work.records
    work.records = lambda recipes: (sizes.append(sum(len(one.seeds) for one in recipes)), records(recipes))[1]
    both(by(BASE, "SP", "GmP"), OPTIONS, work)
    # Two methods as published with three seeds, two rates with two; then the chosen ones.
    assert sizes == [2 * 3 + 2 * 2 * 2, 2 * 3]


def test_rates_of_one_batch_size_are_taken_for_all():
    sizes = [replace(one, batch_size=size, name=str(size)) for size in (64, 128) for one in by(BASE, "SP", "GmP")]
    # Batches of 64 would choose 0.01, those of 128 choose 0.1.
    work = Made(lambda recipe, seed: (1.0, recipe.lr if recipe.batch_size == 64 else 1 / recipe.lr))
    found = both(sizes, OPTIONS | {"tuning_batch": 128}, work)
    clean = [row for row in found if row["protocol"] == "clean"]
    assert [(row["batch"], row["rate"]) for row in clean] == [(64, 0.1), (64, 0.1), (128, 0.1), (128, 0.1)]
    tried = [(recipe, seed) for recipe, seed in work.asked if recipe.lr == 0.01 and recipe.protocol == "clean"]
    assert [(method(recipe), recipe.batch_size, seed) for recipe, seed in tried] == [
        (name, 128, seed) for name in ("SP", "GmP") for seed in (0, 1)
    ]
    own = both(sizes, OPTIONS, work)
    assert [row["rate"] for row in own if row["protocol"] == "clean"] == [0.01, 0.01, 0.1, 0.1]


def test_clean_may_have_more_seeds_than_published():
    work = Made(lambda recipe, seed: (float(seed), recipe.lr))
    found = both(by(BASE, "SP", "GmP"), OPTIONS | {"clean_seeds": 5}, work)
    assert [row["seeds"] for row in found] == [[0, 1, 2], [0, 1, 2, 3, 4]] * 2
    # Rates are tried with as many as before.
    tried = [seed for recipe, seed in work.asked if recipe.protocol == "clean" and recipe.lr == 0.1]
    assert sorted(tried) == [0, 0, 1, 1]
    assert {(gap["protocol"], gap["num_seeds"]) for gap in against(found, "GmP")} == {("published", 3), ("clean", 5)}
    answer = {"result": {"rows": found}, "reported": {}, "title": "t", "where": "w", "scale": "small"}
    answer |= {"procedure": "protocol_table", "options": OPTIONS}
    assert "over seeds (published 3, clean 5);" in tables(answer)[0].caption


class Images(Made):
    """Accuracies in the place of errors: the top-5 one is a half more, and every epoch has a tenth of both."""

    def record(self, recipe, seed):
        accuracy, epochs = self.rule(recipe, seed)
        before = "holdout" if recipe.protocol == "clean" else "test"
        rows = tuple(
            {
                "loss": 2.0,
                "accuracy": 0.3,
                f"{before}_loss": 1.0,
                f"{before}_accuracy": e,
                f"{before}_top5": e + 0.12345,
            }
            | {"holdout_accuracy": e}
            for e in epochs
        )
        return Record(recipe, seed, {"accuracy": accuracy, "top5": accuracy + 0.5}, rows, {}, None, 1.0, 0.1, "", {})


def test_top5_and_curves_are_kept_seed_by_seed():
    work = Images(lambda recipe, seed: (0.1 * seed, [0.1, 0.2][: 1 + seed % 2]))
    published, clean = both(by(BASE, "SP"), OPTIONS | {"curves": True}, work)
    assert published["top5"]["values"] == pytest.approx([0.5, 0.6, 0.7])
    assert published["top5"]["estimate"]["mean"] == pytest.approx(0.6)
    for row in (published, clean):
        assert row["curves"]["accuracy"] == [[0.3], [0.3, 0.3], [0.3]]
        assert row["curves"]["followed_accuracy"] == [[0.1], [0.1, 0.2], [0.1]]
        assert row["curves"]["followed_top5"] == [[0.2235], [0.2235, 0.3235], [0.2235]]
    (five, _) = in_top5([published, {"method": "BN", "failed": {"0": "the loss became nan"}}])
    assert (five["measure"], five["values"]) == ("top5", published["top5"]["values"])
    assert in_top5(both(by(BASE, "SP"), OPTIONS, Made(lambda recipe, seed: (1.0, 1.0)))) == []


def test_findings_and_tables_of_top5():
    """GmP is ahead in the first measure and behind in the other, which is made up to be so."""
    work = Images(lambda recipe, seed: (0.3 + 0.1 * (method(recipe) == "GmP") + 0.001 * seed**2, [0.1]))
    measured = both(by(BASE, "SP", "GmP"), OPTIONS, work)
    for row in measured:
        if row["method"] == "GmP":
            row["top5"]["values"] = [0.01 * seed for seed in row["seeds"]]
            row["top5"]["estimate"]["mean"] = 0.01
    result = {"rows": measured, "differences": against(measured, "GmP"), "best": "GmP"}
    result["top5_differences"] = against(in_top5(measured), "GmP")
    reported = {"boston": {"SP": (0.3, 0.01)}, "top5": {"boston": {"SP": (0.1, 0.01), "GmP": (0.01, 0.01)}}}
    answer = {"result": result, "reported": reported, "title": "t", "where": "w", "scale": "paper", "reproduction": "r"}
    answer |= {"procedure": "protocol_table"}
    found = {one.claim: one for one in findings(answer)}
    assert found["boston, batches of 64: GmP has the highest top-5 accuracy (clean)"].verdict == "not reproduced"
    assert found["the reported numbers, by the published protocol"].numbers == "1 of 1 within two standard errors"
    assert found["the reported top-5 accuracies, by the published protocol"].numbers.startswith("1 of 2")
    one, five, tried = tables(answer | {"options": OPTIONS})
    assert [list(table.columns[2].cells) for table in (one, five)] == [
        ["30.00 ± 1.00", ""],
        ["10.00 ± 1.00", "1.00 ± 1.00"],
    ]
    assert next(iter(five.columns[3].cells)).startswith("80.17")
    assert "top-5" in five.caption
    assert [str(column.header) for column in tried.columns] == ["data", "method", "0.01", "0.1"]
    assert [list(column.cells) for column in tried.columns] == [
        ["boston, 64"] * 2,
        ["SP", "GmP"],
        ["10.00"] * 2,
        ["10.00"] * 2,
    ]
    assert "tried with 2 seeds;" in tried.caption


def test_rates_tried_with_one_batch_size_stand_once():
    def row(batch):
        tuning = [{"value": 0.1, "mean": 0.5, "failed": 0}, {"value": 1.0, "mean": None, "failed": 1}]
        more = {"top5": {"values": LOW, "estimate": asdict(estimate(LOW))}, "tuning": tuning, "rate": 0.1}
        return row_of("SP", LOW, batch=batch, **more)

    answer = {"result": {"rows": [row(8), row(16)]}, "reported": {}, "title": "t", "where": "w", "scale": "small"}
    answer |= {"procedure": "protocol_table", "options": {"tuning_batch": 16, "tuning_seeds": 1}}
    *_, tried = tables(answer)
    assert [list(column.cells) for column in tried.columns] == [["d"], ["SP"], ["50.00"], ["failed"]]
    assert "tried with one seed and batches of 16, for all batch sizes" in tried.caption


@pytest.mark.parametrize(
    ("gmp", "verdict"),
    [([0.2, 0.6, 0.6], "reproduced"), ([0.2, 0.5, 0.6], "reproduced in part"), ([0.2, 0.3, 0.5], "not reproduced")],
)
def test_fastest_is_the_first_near_the_best_of_the_others(gmp, verdict):
    def row(name, *curves, batch=1024):
        place = {"data": "d", "batch": batch, "protocol": "clean", "method": name}
        return place | {"curves": {"followed_accuracy": curves}}

    # BN gets to 0.59 in the third epoch: 99% of that is 0.584. Its other seed has stopped after the second.
    bn = row("BN", [0.3, 0.5, 0.61], [0.3, 0.57])
    rows = [row("SP", [0.1, 0.1, 0.1]), bn, row("GmP", gmp)]
    (found,) = fastest(rows, "GmP")
    assert found.verdict == verdict
    assert found.numbers.startswith("of 3 epochs, mean over seeds: to 58.4% on held-out images SP never, BN 3, GmP ")
    assert "training" not in found.numbers
    for one in rows:
        one["curves"]["accuracy"] = [[0.1, 0.9] if one["method"] == "GmP" else [0.1, 0.5]]
    (found,) = fastest(rows, "GmP")
    assert found.verdict == verdict
    assert found.numbers.endswith("; to 49.5% on training images SP 2, BN 2, GmP 2")
    # Figure 4 is of batches of 1,024.
    (found,) = fastest([one | {"batch": 256} for one in rows], "GmP")
    assert found.claim == "Beyond the paper: d, batches of 256: GmP converges fastest (clean)"
    assert found.verdict == ("shown" if verdict == "reproduced" else "not shown")
    assert as_long([[1.0], [2.0, 3.0]]) == [[1.0, 1.0], [2.0, 3.0]]
    assert fastest([row("GmP", gmp)], "GmP") == []


def test_curves_are_drawn_by_protocol_and_batch():
    work = Images(lambda recipe, seed: (0.5, [0.1, 0.2, 0.3][: 1 + seed]))
    recipes = [replace(one, batch_size=size, name=str(size)) for size in (64, 128) for one in by(BASE, "SP", "GmP")]
    answer = {"result": {"rows": both(recipes, OPTIONS | {"curves": True}, work)}, "reproduction": "r", "title": "t"}
    drawn = drawings(answer | {"procedure": "protocol_table"})[2:]
    assert [one.title for one in drawn] == [
        f"Convergence, {protocol}, batches of {size}" for size in (64, 128) for protocol in ("published", "clean")
    ]
    for one, followed in zip(drawn[:2], ("test", "held-out"), strict=True):
        for words in ("training loss", "training accuracy", f"{followed} accuracy", f"{followed} top-5", "SP", "GmP"):
            assert words in one.svg


def test_ahead_of_all_but_within_chance_is_not_reproduced():
    """What the page says of verdicts: beyond chance against some is a part, against none it is not reproduced."""

    def verdict(spread):
        measured = rows(SP=1.0, BN=0.9, GmP=0.5)
        for row in measured:
            wide = 0.9 if row["method"] in spread else 0.001 * (row["method"] != "GmP")
            row["values"] = [value + gap for value, gap in zip(row["values"], (0.0, wide, -wide), strict=True)]
        result = {"rows": measured, "differences": against(measured, "GmP"), "best": "GmP"}
        return findings({"result": result, "reported": {}})[0].verdict

    assert verdict(()) == "reproduced"
    assert verdict(("SP",)) == "reproduced in part"
    assert verdict(("SP", "BN")) == "not reproduced"


@pytest.mark.parametrize(
    ("best", "written"), [(0.001, "0.001 ↓"), (0.01, "0.01"), (0.1, "0.1 ↑")], ids=["smallest", "middle", "largest"]
)
def test_a_rate_at_the_end_of_the_list_is_marked(best, written):
    work = Made(lambda recipe, seed: (0.5, abs(recipe.lr - best)))
    rows = both(by(BASE, "SP"), OPTIONS | {"rates": (0.001, 0.01, 0.1)}, work)
    answer = {
        "result": {"rows": rows},
        "reported": {},
        "title": "t",
        "where": "w",
        "scale": "small",
        "reproduction": "r",
    }
    (table,) = tables(answer | {"procedure": "protocol_table"})
    # Nothing is reported, and nothing has a column for it.
    assert [str(column.header) for column in table.columns][2:6] == ["published", "its rate", "clean", "its rate"]
    published, clean = (list(table.columns[place].cells) for place in (3, 5))
    # The paper's rate was not chosen from a list.
    assert (published, clean) == (["0.01"], [written])
    assert ("↑ ↓" in table.caption) == (best != 0.01)
