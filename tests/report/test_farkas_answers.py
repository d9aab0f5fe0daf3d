"""The first lines of the Farkas page, on made-up results of every outcome."""

import pytest

from neuronal.core.files import plain_json
from neuronal.experiments.procedures.farkas.claims import learnt
from neuronal.recipes import PAPERS, REPRODUCTIONS
from neuronal.report.findings import findings_page

LOW, HIGH, OFF = (0.40, 0.41, 0.42), (0.50, 0.51, 0.521), (0.1, 0.1, 0.1)
SIZE = "Does the advantage without batch norm survive equal parameter counts?"
RATE = "Is FarkasNet34 of Table 4 better than ResNet34 at the best rate of each?"
FIXUP = "Is it better than Fixup?"
ENOUGH = "Is an active unit in every layer enough to train at rate 0.1?"
REASON = "Are networks with means better than ResNets, as those with sums are at 0.01?"


def row(name, accuracies):
    seeds = {str(seed): accuracy for seed, accuracy in enumerate(accuracies)}
    curves = {"while_training": {seed: [a, a] for seed, a in seeds.items()}}
    return {"name": name, "neuron": "farkas", "parameters": 1, "seconds": 1.0} | curves | learnt(seeds, {}, 0.1)


def result(short, rows, scale="small"):
    """Of that reproduction, with these accuracies by the name of a network."""
    one = REPRODUCTIONS[f"farkas/{short}"]
    setting = one.scales[scale]
    facts = {"reproduction": one.name, "scale": scale, "seconds": 1.0, "finished": "now", "reported": {}}
    facts |= {"title": one.title, "where": one.where, "procedure": one.procedure, "options": setting.options}
    facts |= {"recipes": [recipe.to_json() for recipe in setting.recipes], "command": "neuronal reproduce it"}
    facts |= {"environment": {"gpu": "none", "processor": "p", "torch": "t", "commit": "c"}}
    return facts | {"result": {"rows": [row(*pair) for pair in rows.items()], "chance": 0.1}}


def depths(pairs):
    """Rows of Table 1 without norm: FarkasNet and ResNet by depth."""
    rows = {}
    for depth, (farkas, plain) in pairs.items():
        rows |= {f"FarkasNet{depth}, no norm": farkas, f"ResNet{depth}, no norm": plain}
    return rows


def answers(folder, *results):
    """What stands behind each question on the page, its first line and those below it."""
    (folder / "farkas").mkdir()
    for one in results:
        (folder / f"{one['reproduction']}.{one['scale']}.json").write_text(plain_json(one))
    own = [one for name, one in REPRODUCTIONS.items() if name.startswith("farkas/")]
    page, _ = findings_page(PAPERS["farkas"], own, folder)
    head = page.partition("\n\n")[2].partition("\n\n")[0]
    blocks = [block.split("\n") for block in f"\n{head}".split("\n- **")[1:]]
    return {first.partition("** ")[0]: [first.partition("** ")[2], *below] for first, *below in blocks}


def test_nothing_is_measured_yet(tmp_path):
    found = answers(tmp_path)
    assert list(found) == [SIZE, RATE, FIXUP, ENOUGH, REASON]
    for (line,) in found.values():
        assert line.startswith("Not measured yet (`neuronal reproduce farkas/table")
    assert found[REASON][0].count("--scale small`") == 4


@pytest.mark.parametrize(
    ("pairs", "word"),
    [
        ({18: (HIGH, LOW), 34: (HIGH, LOW), 50: (HIGH, LOW), 101: (HIGH, LOW)}, "Yes"),
        ({18: (HIGH, LOW), 34: (LOW, HIGH), 50: (HIGH, LOW), 101: (HIGH, LOW)}, "In part"),
        ({18: (LOW, HIGH), 34: (LOW, HIGH), 50: (LOW, HIGH), 101: (LOW, HIGH)}, "No"),
        ({18: (LOW, HIGH), 34: (LOW, HIGH), 50: (LOW, HIGH), 101: (OFF, OFF)}, "No"),
        # Seeds that disagree are no proof of the contrary.
        ({18: (LOW, HIGH), 34: (LOW, HIGH), 50: (LOW, HIGH), 101: ((0.5, 0.3, 0.4), LOW)}, "Not shown"),
        # Networks that did not leave chance are no comparison, or may only be slower, unless they had time enough.
        ({18: (HIGH, LOW), 34: (HIGH, LOW), 50: (HIGH, LOW), 101: (OFF, OFF)}, "In part"),
        ({18: (HIGH, LOW), 34: (HIGH, OFF), 50: (HIGH, LOW), 101: (HIGH, LOW)}, "In part"),
        ({18: (HIGH, LOW), 34: (HIGH, LOW), 50: (HIGH, OFF), 101: (HIGH, LOW)}, "Yes"),
        ({18: (LOW, HIGH), 34: (OFF, HIGH), 50: (LOW, HIGH), 101: (LOW, HIGH)}, "Not shown"),
        ({18: (LOW, HIGH), 34: (LOW, HIGH), 50: (OFF, HIGH), 101: (LOW, HIGH)}, "No"),
        ({18: (OFF, OFF), 34: (OFF, OFF), 50: (OFF, OFF), 101: (OFF, OFF)}, "Nothing to compare"),
    ],
)
def test_the_word_goes_by_all_depths(tmp_path, pairs, word):
    first, *below = answers(tmp_path, result("table1_cifar10", depths(pairs)))[SIZE]
    assert first.startswith(f"{word}, after 8 or 24 epochs (`neuronal reproduce farkas/table1_cifar10 --scale small`)")
    assert "The authors' sizes differ much only at 18 layers" in first
    assert [f"FarkasNet{depth} " in line for depth, line in zip(pairs, below, strict=True)] == [True] * 4
    assert ["points of accuracy" in line for line in below] == [pair != (OFF, OFF) for pair in pairs.values()]
    slow = OFF in pairs[34] and pairs[34] != (OFF, OFF)
    assert ("had not left chance after 8 epochs" in "".join(below)) == slow
    assert "after 24 epochs" not in "".join(below)


def practice(farkas, plain, fixup=(), ending=""):
    """Rows of Table 4 at rates 0.01, 0.05 and so on."""
    rows = {}
    for name, accuracies in (("FarkasNet34", farkas), ("ResNet34, no norm", plain), ("FixUp34", fixup)):
        rates = zip(("0.01", "0.05", "0.1"), accuracies, strict=False)
        rows |= {f"{name}, rate {rate}{ending}": accuracy for rate, accuracy in rates}
    return rows


def test_each_has_its_best_rate_by_training_images(tmp_path):
    rows = practice([LOW, HIGH, OFF], [LOW, (0.45, 0.46, 0.47), (0.44, 0.45, 0.46)])
    one = result("table4_best_practice", rows)
    *_, last = one["result"]["rows"]
    assert last["name"] == "ResNet34, no norm, rate 0.1"
    # The mean over all three is then 0.5, though one of them stayed at chance and test images speak for rate 0.05.
    last["while_training"] = {"0": [0.1, 0.7], "1": [0.1, 0.7], "2": [0.1, 0.1]}
    first, *below = answers(tmp_path, one)[RATE]
    assert len(below) == 1
    assert below[0].startswith("  - yes: FarkasNet34, rate 0.05, against ResNet34, no norm, rate 0.1: +6.03 ")
    assert first.startswith("Yes, after 8 epochs (`neuronal reproduce farkas/table4_best_practice --scale small`)")


def test_a_run_that_broke_down_is_one_at_chance_when_rates_are_chosen(tmp_path):
    one = result("table4_best_practice", practice([LOW, HIGH], [LOW, (0.7, 0.7, 0.7)]))
    *_, last = one["result"]["rows"]
    # Two of three broke down, after epochs that were good: 0.3 on average, where the other rate has 0.41.
    last |= learnt({"0": 0.7}, {"1": "nan", "2": "nan"}, 0.1)
    _, *below = answers(tmp_path, one)[RATE]
    assert "against ResNet34, no norm, rate 0.01: " in below[0]


@pytest.mark.parametrize(("own", "word"), [(HIGH, "Yes"), (LOW, "No")])
def test_inputs_as_they_are_and_normalised_are_kept_apart(tmp_path, own, word):
    middle, ending = (0.45, 0.46, 0.475), ", inputs normalised"
    cells = ([OFF, OFF, own], [OFF, OFF, middle], [OFF, OFF, middle])
    normalised = {name: a for name, a in practice(*cells, ending).items() if "0.01" not in name}
    rows = practice(*cells) | normalised
    rows |= {"ResNet34, batch norm, rate 0.1": (0.9, 0.9, 0.9)}
    found = answers(tmp_path, result("table4_best_practice", rows))
    for question, other in ((RATE, "ResNet34, no norm"), (FIXUP, "FixUp34")):
        first, *below = found[question]
        assert first.startswith(f"{word}, after 8 epochs (")
        assert [f"against {other}, rate" in line for line in below] == [True, True]
        assert ["inputs normalised" in line for line in below] == [False, True]
        assert ["worse beyond chance" in line for line in below] == [word == "No"] * 2
        assert [line.startswith(f"  - {word.lower()}: ") for line in below] == [True] * 2


def test_fixup_is_compared_at_the_large_rate_as_well(tmp_path):
    rows = practice([LOW, HIGH, OFF], [], [HIGH, LOW, LOW])
    _, *below = answers(tmp_path, result("table4_best_practice", rows))[FIXUP]
    pairs = ("FarkasNet34, rate 0.05, against FixUp34, rate 0.01", "FarkasNet34, rate 0.1, against FixUp34, rate 0.1")
    assert [pair in line for pair, line in zip(pairs, below, strict=True)] == [True, True]


def test_the_large_rate_is_not_told_twice(tmp_path):
    rows = practice([OFF, OFF, HIGH], [], [OFF, OFF, LOW])
    _, *below = answers(tmp_path, result("table4_best_practice", rows))[FIXUP]
    assert len(below) == 1


@pytest.mark.parametrize(
    ("sums", "word", "lines"),
    [
        (HIGH, "Yes", ("yes", "yes", "yes")),
        ((0.5, 0.1, 0.1), "No", ("yes", "in part", "yes")),
        (OFF, "No", ("yes", "no", "yes")),
    ],
)
def test_one_run_that_fails_says_that_an_active_unit_is_not_enough(tmp_path, sums, word, lines):
    first, *below = answers(
        tmp_path,
        result(
            "table4_best_practice",
            practice([LOW, OFF, HIGH], [OFF, OFF, OFF]) | practice([OFF] * 3, [], (), ", inputs normalised"),
        ),
        result("sum_vs_mean", {"FarkasNet18 sum, rate 0.1": sums, "FarkasNet18 sum, rate 0.01": OFF}),
        result("deep_large_lr", {"FarkasNet101 mean, rate 0.1": LOW, "ResNet101, rate 0.1": OFF}),
    )[ENOUGH]
    assert first.startswith(f"{word}, after 5 or 8 epochs (")
    names = [f"FarkasNet{name}, rate 0.1" for name in ("34", "18 sum", "101 mean")]
    expected = zip(lines, names, below, strict=True)
    assert [line.startswith(f"  - {one}: {name}: ") for one, name, line in expected] == [True] * 3


def reason(folder, eighteen, thirty_four, deep, scale="small"):
    """What is said of networks with these accuracies and means, where those of ResNets are low."""
    return answers(
        folder,
        result("table1_cifar10", depths({18: (HIGH, LOW), 34: (HIGH, LOW)})),
        result("sum_vs_mean", {"FarkasNet18 mean, rate 0.01": eighteen}, scale),
        result("table4_best_practice", practice([thirty_four] * 3, [LOW] * 3)),
        result("deep_large_lr", {"FarkasNet101 mean, rate 0.1": deep, "ResNet101, rate 0.1": LOW}),
    )[REASON]


@pytest.mark.parametrize(
    ("accuracies", "word"),
    [
        ((HIGH, HIGH, HIGH), "Yes"),
        ((HIGH, LOW, HIGH), "In part"),
        ((LOW, LOW, LOW), "Not shown"),
        ([OFF] * 3, "Not shown"),
    ],
)
def test_networks_with_means_should_have_the_advantage_too(tmp_path, accuracies, word):
    first, *below = reason(tmp_path, *accuracies)
    assert first.startswith(f"{word}, after 5 or 8 epochs (")
    names = (
        "FarkasNet18 mean, rate 0.01, against ResNet18, no norm: ",
        *(f"FarkasNet34, rate {rate}, against ResNet34, no norm, rate {rate}: " for rate in ("0.01", "0.05", "0.1")),
        "FarkasNet101 mean, rate 0.1, against ResNet101, rate 0.1: ",
    )
    assert [name in line for name, line in zip(names, below, strict=True)] == [True] * 5


def test_trainings_of_other_lengths_are_not_compared(tmp_path):
    first, second, *below = reason(tmp_path, HIGH, HIGH, HIGH, "paper")
    # And leave the yes of the others a part.
    assert first.startswith("In part, after 5 or 8 epochs (")
    assert second.startswith("  - nothing to compare: FarkasNet18 mean, rate 0.01, against ResNet18, no norm: ")
    assert second.endswith("trained for 200 and 8 epochs")
    assert all(line.startswith("  - yes: ") for line in below)


def test_results_without_a_pair_leave_nothing_to_compare(tmp_path):
    first, line, *_ = answers(tmp_path, result("table1_cifar10", {"FarkasNet18, no norm": HIGH}))[SIZE]
    assert first.startswith("Nothing to compare (")
    assert (
        line
        == "  - nothing to compare: FarkasNet18, no norm, against ResNet18, no norm: the result has no ResNet18, no norm"
    )


def test_a_pair_that_is_missing_leaves_the_yes_of_others_a_part(tmp_path):
    first, *_ = answers(tmp_path, result("table1_cifar10", depths({18: (HIGH, LOW)})))[SIZE]
    assert first.startswith("In part, after 8 epochs (")


def test_results_that_do_not_say_how_long_they_took(tmp_path):
    table1 = result("table1_cifar10", depths(dict.fromkeys((18, 34, 50, 101), (HIGH, LOW)))) | {"recipes": []}
    first, *_ = answers(tmp_path, table1)[SIZE]
    assert first.startswith("Yes (")
