"""Claims judged from accuracies that leave no doubt."""

import pytest

from neuronal.experiments.procedures.farkas.accuracy_table import JUDGED, findings
from neuronal.experiments.procedures.farkas.claims import epochs_said, judged, learnt, outcome, rows_of
from neuronal.experiments.record import Failure, Record

CHANCE = 0.1


def row(name, accuracy, broken=()):
    seeds = {str(seed): a for seed, a in enumerate(accuracy)}
    return {"name": name} | learnt(seeds, {str(seed): "nan" for seed in broken}, CHANCE)


def verdict(kind, *rows, **more):
    claim = {"kind": kind, "row": "a", "text": "t", **({"than": "b"} if len(rows) > 1 else {}), **more}
    (found,) = judged([claim], rows, CHANCE)
    return found.verdict


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ([0.90, 0.91, 0.92], [0.80, 0.81, 0.82 + 1e-4], "reproduced"),
        ([0.90, 0.91, 0.85], [0.80, 0.90, 0.84], "reproduced in part"),
        ([0.90, 0.91, 0.85], [0.80, 0.92, 0.84], "not reproduced"),
        ([0.90], [0.80], "reproduced in part"),
        ([0.90, 0.91, 0.84], [0.80, 0.90, 0.84], "reproduced in part"),
        ([0.90, 0.90, 0.90], [0.90, 0.90, 0.90], "not reproduced"),
        ([0.80, 0.81, 0.82], [0.90, 0.91, 0.92], "not reproduced"),
    ],
)
def test_better_needs_an_interval_or_no_seed_that_is_worse(own, other, expected):
    assert verdict("better", row("a", own), row("b", other)) == expected


def test_the_seeds_that_are_better_are_counted_where_the_interval_leaves_it_open():
    a, sure, open_ = row("a", [0.90, 0.91, 0.92]), row("b", [0.80, 0.81, 0.82 + 1e-4]), row("b", [0.2, 0.9, 0.5])
    claim = {"kind": "better", "row": "a", "than": "b", "text": "t", "ours": True}
    (shown,), (not_shown,) = (judged([claim], [a, b], CHANCE) for b in (sure, open_))
    assert "seeds;" not in shown.numbers
    assert (not_shown.verdict, not_shown.numbers.endswith("better in 3 of 3 seeds")) == ("not shown", True)


def test_one_that_never_left_chance_may_only_be_slower():
    a, slow = row("a", [0.40, 0.41, 0.42]), row("b", [0.10, 0.11, 0.09]) | {"epochs": 12}
    claim = {"kind": "better", "row": "a", "than": "b", "text": "t"}
    (found,) = judged([claim], [a, slow], CHANCE)
    assert found.verdict == "reproduced in part"
    assert found.numbers.endswith("; better in 3 of 3 seeds; the other had not left chance after 12 epochs")
    # So may one of which only some did.
    (found,) = judged([claim], [a, row("b", [0.10, 0.11, 0.16])], CHANCE)
    assert found.verdict == "reproduced in part"
    assert found.numbers.endswith("; 2 of 3 runs of the other had not left chance")
    # Runs that broke down need no more epochs.
    (found,) = judged([claim], [a, row("b", [], broken=(0, 1, 2))], CHANCE)
    assert (found.verdict, "left chance" in found.numbers) == ("reproduced", False)


def test_a_row_that_never_left_chance_may_only_be_slower_itself():
    claim = {"kind": "better", "row": "a", "than": "b", "text": "t"}
    slow, good = row("a", [0.10, 0.11, 0.09]) | {"epochs": 8, "epochs_at_first_rate": 2.4}, row("b", BEST)
    (found,) = judged([claim], [slow, good], CHANCE)
    assert found.numbers.endswith("; these seeds leave it open; it had not left chance after 8 epochs")
    (found,) = judged([claim], [slow | learnt({"0": 0.1, "1": 0.2, "2": 0.2}, {}, CHANCE), good], CHANCE)
    assert found.numbers.endswith("; 1 of 3 of its runs had not left chance after 8 epochs")
    # Those that had time enough, or broke down, are worse.
    for other in (slow | {"epochs_at_first_rate": 5}, row("a", [], broken=(0, 1, 2))):
        (found,) = judged([claim], [other, good], CHANCE)
        assert (found.verdict, found.numbers.endswith("; worse beyond chance")) == ("not reproduced", True)
    assert "the contrary in 0; " in each(a=(slow, good)).numbers
    assert "the contrary in 1; " in each(a=(slow | {"epochs_at_first_rate": 5}, good)).numbers


def test_seeds_in_which_both_failed_decide_nothing():
    # One seed is better and none worse: a part where two of three are told, and nothing where one is.
    assert verdict("better", row("a", [0.5, 0.1, 0.4]), row("b", [0.2, 0.1, 0.39])) == "reproduced in part"
    assert verdict("better", row("a", [0.5, 0.1, 0.1]), row("b", [0.2, 0.1, 0.1])) == "not reproduced"


@pytest.mark.parametrize(
    ("kind", "own", "words"),
    [
        ("better", [0.70, 0.71, 0.72], "worse beyond chance"),
        ("better", [0.70, 0.91, 0.72], "these seeds leave it open"),
        ("better", [0.90, 0.85, 0.70], "these seeds leave it open"),
        ("better", [0.80, 0.81, 0.82 + 1e-4], "these seeds leave it open"),
        ("alike", [0.70, 0.71, 0.72], "apart beyond chance"),
        ("alike", [0.90, 0.91, 0.92], "apart beyond chance"),
        ("alike", [0.70, 0.91, 0.90], "these seeds leave it open"),
        # Different beyond chance, but perhaps by no more than allowed.
        ("alike", [0.817, 0.82, 0.837], "these seeds leave it open"),
    ],
)
def test_what_is_not_reproduced_is_refuted_or_open(kind, own, words):
    claim = {"kind": kind, "row": "a", "than": "b", "text": "t", "within": 1.0}
    (found,) = judged([claim], [row("a", own), row("b", [0.80, 0.81, 0.82 + 1e-4])], CHANCE)
    assert (found.verdict, found.numbers.endswith(f"; {words}")) == ("not reproduced", True)


def each(**pairs):
    """A claim about these pairs, judged."""
    rows = [one | {"name": f"{label}{n}"} for label, pair in pairs.items() for n, one in enumerate(pair)]
    claim = {"kind": "better_each", "cases": {label: (f"{label}0", f"{label}1") for label in pairs}, "text": "t"}
    (found,) = judged([claim], rows, CHANCE)
    return found


BEST, GOOD, POOR = [0.90, 0.91, 0.92], [0.80, 0.81, 0.82 + 1e-3], [0.10, 0.11, 0.09]


def test_a_claim_about_several_pairs_needs_an_interval_of_each():
    one, two = (row("", values) for values in (BEST, GOOD))
    found = each(a=(one, two), b=(one, two))
    assert found.verdict == "reproduced"
    # 10, 10 and 9.9 points; Student's t of two degrees at 97.5% is 4.303.
    assert found.numbers == (
        "holds beyond chance in 2 of 2, the contrary in 0; points of accuracy: "
        "a +9.97 (95%: +9.82 to +10.11), 3 seeds; b +9.97 (95%: +9.82 to +10.11), 3 seeds"
    )
    found = each(a=(row("", [0.9]), row("", [0.8])))
    assert (found.verdict, found.numbers.endswith("a +10.00 (no interval), 1 seed")) == ("not reproduced", True)


@pytest.mark.parametrize(
    ("second", "expected"),
    [((GOOD, BEST), "1 of 2, the contrary in 1"), (([0.9, 0.5, 0.7], GOOD), "1 of 2, the contrary in 0")],
)
def test_what_holds_of_some_pairs_is_a_part(second, expected):
    found = each(a=(row("", BEST), row("", GOOD)), b=tuple(row("", values) for values in second))
    assert found.verdict == "reproduced in part"
    assert found.numbers.startswith(f"holds beyond chance in {expected}; ")


def test_pairs_whose_runs_failed():
    best, poor, broken = row("", BEST), row("", POOR), row("", [], broken=(0, 1, 2))
    # One that stayed at chance may only be slower, one that broke down is beaten.
    found = each(slow=(best, poor | {"epochs": 4}), broken=(best, broken))
    assert found.verdict == "reproduced in part"
    assert found.numbers.count(", runs that failed 0 of 3 against 3 of 3") == 2
    assert found.numbers.count("; the other had not left chance after 4 epochs") == 1
    assert "holds beyond chance in 1 of 2, the contrary in 0" in found.numbers


def test_pairs_that_cannot_be_compared_are_none_it_holds_in():
    best, good, poor, broken = row("", BEST), row("", GOOD), row("", POOR), row("", [], broken=(0, 1, 2))
    found = each(a=(best, good), none=(poor, broken))
    assert (found.verdict, found.numbers.endswith("; nothing to compare: none")) == ("reproduced in part", True)
    assert each(none=(poor, broken)).verdict == "not measured"
    # Seeds of one that are not of the other, and rows that are not there.
    other = {"accuracy": {"7": 0.9, "8": 0.9}, "failed": {}, "seeds": 2, "mean": 0.9, "standard_error": 0.0}
    assert each(a=(best, other)).numbers == "nothing to compare: a"
    claim = {"kind": "better_each", "cases": {"a": ("nobody", "none")}, "text": "t"}
    assert judged([claim], [best], CHANCE)[0].numbers == "nothing to compare: a"
    claim = {"kind": "better", "row": "a", "than": "b", "text": "t"}
    (found,) = judged([claim], [best | {"name": "a"}, other | {"name": "b"}], CHANCE)
    assert (found.verdict, found.numbers.endswith(": there is nothing to compare")) == ("not measured", True)
    (found,) = judged([claim], [best | {"name": "a"}], CHANCE)
    assert (found.verdict, found.numbers) == ("not measured", "the result has no b")


def test_how_long_a_network_was_trained_is_said():
    one = row("a", [0.9, 0.91]) | {"epochs": 8}
    (found,) = judged([{"kind": "trains", "row": "a", "text": "t"}], [one], CHANCE)
    assert found.numbers == "error 9.50% ± 0.50 (2 seeds, 8 epochs)"
    gone = row("a", [], broken=(0,)) | {"epochs": 1}
    (found,) = judged([{"kind": "trains", "row": "a", "text": "t"}], [gone], CHANCE)
    assert (found.verdict, found.numbers) == (
        "not reproduced",
        "1 of 1 runs failed, 1 epoch (1 broke down, 0 stayed at chance)",
    )


def test_epochs_are_counted_in_words():
    assert [epochs_said(1), epochs_said(8), epochs_said(8, 24)] == ["1 epoch", "8 epochs", "8 or 24 epochs"]


@pytest.mark.parametrize(
    ("schedule", "epochs", "broken", "expected"),
    [
        ("constant", 6, False, "reproduced"),
        ("step", 24, False, "reproduced"),
        ("step", 8, False, "reproduced in part"),
        ("constant", 4, False, "reproduced in part"),
        ("step", 4, True, "reproduced"),
    ],
)
def test_a_network_has_five_epochs_at_its_first_rate_to_fail(schedule, epochs, broken, expected):
    """As in the paper; one that broke down needs none."""
    failed = row("a", [], broken=(0, 1)) if broken else row("a", [0.1, 0.1])
    recipe = {"name": "a", "epochs": epochs, "schedule": schedule, "scaling": "unit"}
    answer = {"recipes": [recipe], "result": {"rows": [failed]}}
    (found,) = judged([{"kind": "fails", "row": "a", "text": "t"}], rows_of(answer), CHANCE)
    assert found.verdict == expected
    assert ("2 broke down, 0 stayed at chance" if broken else "0 broke down, 2 stayed at chance") in found.numbers
    assert ("it may be slow" in found.numbers) == (expected != "reproduced")


@pytest.mark.parametrize(
    ("own", "expected"),
    [([0.90, 0.91, 0.92], "shown"), ([0.90, 0.8101, 0.90], "not shown"), ([0.7, 0.7, 0.7], "not shown")],
)
def test_what_the_paper_does_not_claim_is_shown_or_not(own, expected):
    claim = {"kind": "better", "row": "a", "than": "b", "text": "This is ours", "ours": True}
    (found,) = judged([claim], [row("a", own), row("b", [0.80, 0.81, 0.82 + 1e-4])], CHANCE)
    assert (found.claim, found.verdict) == ("Beyond the paper: This is ours", expected)


def test_a_run_that_broke_down_counts_as_chance():
    a, b = row("a", [0.9, 0.9, 0.9]), row("b", [0.95], broken=(1, 2))
    (found,) = judged([{"kind": "better", "row": "a", "than": "b", "text": "t"}], [a, b], CHANCE)
    # Seed by seed -0.05, 0.8 and 0.8.
    assert found.numbers.startswith("+51.67 points")
    assert "error 5.00% (1 seed), 2 of 3 runs failed" in found.numbers


def test_so_does_a_run_that_is_stuck():
    a, b = row("a", [0.9, 0.9, 0.9]), row("b", [0.95, 0.13, 0.07])
    (found,) = judged([{"kind": "better", "row": "a", "than": "b", "text": "t"}], [a, b], CHANCE)
    assert found.numbers.startswith("+51.67 points")


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        ([0.900, 0.901, 0.902], [0.898, 0.900, 0.899], "reproduced"),
        ([0.900, 0.901, 0.902], [0.910, 0.890, 0.900], "reproduced in part"),
        ([0.90], [0.895], "reproduced in part"),
        ([0.900, 0.901, 0.1], [0.898, 0.900, 0.899], "reproduced in part"),
        ([0.90], [0.88], "not reproduced"),
        ([0.900, 0.901, 0.902], [0.880, 0.881, 0.880], "not reproduced"),
        ([0.90, 0.10], [0.10, 0.90], "not measured"),
        ([0.10, 0.10], [0.90, 0.90], "not measured"),
    ],
)
def test_alike_needs_the_interval_within_the_points(own, other, expected):
    assert verdict("alike", row("a", own), row("b", other), within=1.0) == expected


def test_alike_says_its_interval():
    a, b = row("a", [0.90, 0.91, 0.92]), row("b", [0.90, 0.90, 0.90])
    (found,) = judged([{"kind": "alike", "row": "a", "than": "b", "text": "t", "within": 1.0}], [a, b], CHANCE)
    # Student's t of two degrees of freedom is 4.303, and 1 / sqrt(3) points the error of the mean.
    assert found.numbers.startswith("+1.00 points of accuracy (95%: -1.48 to +3.48)")


@pytest.mark.parametrize(
    ("accuracy", "broken", "trains", "fails"),
    [
        ([0.5, 0.6], (), "reproduced", "not reproduced"),
        ([0.5, 0.1], (), "reproduced in part", "reproduced in part"),
        ([0.1, 0.14], (), "not reproduced", "reproduced"),
        ([], (0, 1), "not reproduced", "reproduced"),
    ],
)
def test_failed_is_broken_down_or_at_chance(accuracy, broken, trains, fails):
    assert verdict("trains", row("a", accuracy, broken)) == trains
    assert verdict("fails", row("a", accuracy, broken)) == fails


@pytest.mark.parametrize("kind", ["better", "alike"])
def test_failures_on_both_sides_are_no_comparison(kind):
    assert verdict(kind, row("a", [0.1, 0.1]), row("b", [], broken=(0, 1)), within=1.0) == "not measured"


def test_the_rules_name_both_thresholds_of_failing():
    assert "below 1.5 times chance (15% for 10 classes)" in JUDGED
    assert "no progress in the first five epochs" in JUDGED


def test_rows_know_the_epochs_of_their_recipes():
    recipes = [{"name": "a", "epochs": 20, "schedule": "step", "scaling": "unit"}]
    one, other = rows_of({"result": {"rows": [row("a", [0.5]), row("b", [0.5])]}, "recipes": recipes})
    assert (one["epochs"], one["epochs_at_first_rate"]) == (20, pytest.approx(6))
    assert one["scaling"] == "unit"
    assert "epochs" not in other


def test_outcomes_of_records(quick_records):
    good = quick_records[0]
    bad = Record(**{**vars(good), "seed": 7, "metrics": {}, "failure": Failure(3, 0.1, "the loss became nan")})
    found = outcome([good, bad], CHANCE)
    assert found["failed"] == {"7": "the loss became nan"}
    assert found["accuracy"] == {str(good.seed): good.metrics["accuracy"]}
    assert found["mean"] == good.metrics["accuracy"]
    assert found["seeds"] == 2


@pytest.mark.parametrize(("error", "verdicts"), [(10.3, ["reproduced"]), (12.0, ["not reproduced"]), (None, [])])
def test_reported_errors_are_compared_at_the_papers_own_scale(error, verdicts):
    reported = {} if error is None else {"a": {"error": error}}
    answer = {"result": {"rows": [row("a", [0.9, 0.9])], "chance": CHANCE}, "options": {}, "reported": reported}
    assert [one.verdict for one in findings(answer | {"scale": "paper"})] == verdicts
    assert findings(answer | {"scale": "small"}) == []
