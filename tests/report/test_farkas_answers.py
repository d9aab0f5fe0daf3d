"""The first lines of the Farkas page, on made-up results of every outcome."""

import pytest

from neuronal.experiments.procedures.farkas.claims import learnt
from neuronal.experiments.storage import plain_json
from neuronal.recipes import PAPERS, REPRODUCTIONS
from neuronal.report.findings import findings_page

LOW, HIGH, OFF = (0.40, 0.41, 0.42), (0.50, 0.51, 0.521), (0.1, 0.1, 0.1)
SIZE = "Does the advantage without batch norm survive equal parameter counts?"
RATE = "Does it survive the best learning rate for each (34 layers)?"
PROMISE = "Is it the promise of an active unit that makes it (18 and 34 layers)?"


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
    assert list(found) == [SIZE, RATE, PROMISE]
    for (line,) in found.values():
        assert line.startswith("Not measured yet (`neuronal reproduce farkas/table")
    assert found[PROMISE][0].count("--scale small`") == 3


@pytest.mark.parametrize(
    ("pairs", "word"),
    [
        ({18: (HIGH, LOW), 34: (HIGH, LOW), 50: (HIGH, LOW), 101: (HIGH, LOW)}, "Yes"),
        ({18: (HIGH, LOW), 34: (LOW, HIGH), 50: (HIGH, LOW), 101: (HIGH, LOW)}, "In part"),
        ({18: (LOW, HIGH), 34: (LOW, HIGH), 50: (LOW, HIGH), 101: (LOW, HIGH)}, "No"),
        ({18: (LOW, HIGH), 34: (LOW, HIGH), 50: (LOW, HIGH), 101: (OFF, OFF)}, "No"),
        # Networks that did not leave chance are no comparison, or may only be slower.
        ({18: (HIGH, LOW), 34: (HIGH, LOW), 50: (HIGH, LOW), 101: (OFF, OFF)}, "In part"),
        ({18: (HIGH, LOW), 34: (HIGH, LOW), 50: (HIGH, OFF), 101: (HIGH, LOW)}, "In part"),
        ({18: (OFF, OFF), 34: (OFF, OFF), 50: (OFF, OFF), 101: (OFF, OFF)}, "Nothing to compare"),
    ],
)
def test_the_word_goes_by_all_depths(tmp_path, pairs, word):
    first, *below = answers(tmp_path, result("table1_cifar10", depths(pairs)))[SIZE]
    assert first.startswith(f"{word}, after 8 or 24 epochs (`neuronal reproduce farkas/table1_cifar10 --scale small`)")
    assert "size could not explain its advantage there" in first
    assert [f"FarkasNet{depth} " in line for depth, line in zip(pairs, below, strict=True)] == [True] * 4
    assert ["points of accuracy" in line for line in below] == [pair != (OFF, OFF) for pair in pairs.values()]
    assert ("had not left chance after 24 epochs" in "".join(below)) == ((HIGH, OFF) in pairs.values())


def practice(farkas, plain, fixup=LOW, ending=""):
    """Rows of Table 4 at rates 0.01, 0.05 and so on."""
    rows = {}
    for name, accuracies in (("FarkasNet34", farkas), ("ResNet34, no norm", plain), ("FixUp34", [fixup])):
        rows |= {f"{name}, rate {rate:g}{ending}": a for rate, a in zip((0.01, 0.05, 0.1), accuracies, strict=False)}
    return rows


def test_each_has_its_best_rate_and_failed_runs_count_as_chance(tmp_path):
    best_with_failure = (0.7, 0.7, 0.1)
    rows = practice([LOW, HIGH, OFF], [LOW, (0.45, 0.46, 0.47), best_with_failure])
    first, *below = answers(tmp_path, result("table4_best_practice", rows))[RATE]
    # The mean over all three is 0.5 at rate 0.1: better than 0.46, though one run failed.
    assert "FarkasNet34, rate 0.05, against ResNet34, no norm, rate 0.1: +1.03 points" in below[0]
    assert below[0].startswith("  - not shown: ")
    assert below[1].startswith("  - shown: FarkasNet34, rate 0.05, against FixUp34, rate 0.01: +10.03 points")
    assert len(below) == 2
    assert first.startswith("In part, after 8 epochs (")


@pytest.mark.parametrize(("own", "word"), [(HIGH, "Yes"), (LOW, "Not shown"), (OFF, "Not shown")])
def test_inputs_as_they_are_and_normalised_are_kept_apart(tmp_path, own, word):
    middle, ending = (0.45, 0.46, 0.47), ", inputs normalised"
    rows = practice([own], [middle]) | practice([OFF, own], [OFF, middle], OFF, ending)
    rows |= {"ResNet34, batch norm, rate 0.1": (0.9, 0.9, 0.9)}
    rows[f"FixUp34, rate 0.05{ending}"] = rows["FixUp34, rate 0.01"] = middle
    first, *below = answers(tmp_path, result("table4_best_practice", rows))[RATE]
    assert first.startswith(f"{word}, after 8 epochs (`neuronal reproduce farkas/table4_best_practice --scale small`)")
    assert ["inputs normalised" in line for line in below] == [False, False, True, True]
    assert "batch norm" not in "".join(below)


def with_means(folder, eighteen, thirty_four, scale="small"):
    table1 = result("table1_cifar10", depths({18: (HIGH, LOW), 34: (HIGH, LOW)}))
    means = result("sum_vs_mean", {"FarkasNet18 mean, rate 0.01": eighteen}, scale)
    return answers(folder, table1, means, result("table4_best_practice", practice([thirty_four], [LOW])))[PROMISE]


@pytest.mark.parametrize(
    ("eighteen", "thirty_four", "word"),
    [(HIGH, HIGH, "Yes"), (HIGH, LOW, "In part"), (LOW, LOW, "Not shown")],
)
def test_networks_with_means_keep_the_promise_too(tmp_path, eighteen, thirty_four, word):
    first, *below = with_means(tmp_path, eighteen, thirty_four)
    assert first.startswith(f"{word}, after 8 epochs (")
    names = (
        "FarkasNet18 mean, rate 0.01, against ResNet18, no norm",
        "FarkasNet34, rate 0.01, against ResNet34, no norm",
    )
    assert [name in line for name, line in zip(names, below, strict=True)] == [True, True]


def test_trainings_of_other_lengths_are_not_compared(tmp_path):
    _, *below = with_means(tmp_path, HIGH, HIGH, "paper")
    assert ["FarkasNet34" in line for line in below] == [True]
