"""The first line of the Farkas page, on made-up results of every outcome."""

import pytest

from neuronal.experiments.procedures.farkas.claims import learnt
from neuronal.experiments.storage import plain_json
from neuronal.recipes import PAPERS, REPRODUCTIONS
from neuronal.report.findings import findings_page

TABLE = REPRODUCTIONS["farkas/table1_cifar10"]
LOW, HIGH, OFF = (0.40, 0.41, 0.42), (0.50, 0.51, 0.521), (0.1, 0.1, 0.1)


def row(name, accuracies):
    seeds = {str(seed): accuracy for seed, accuracy in enumerate(accuracies)}
    curves = {"while_training": {seed: [a, a] for seed, a in seeds.items()}}
    return {"name": name, "neuron": "farkas", "parameters": 1, "seconds": 1.0} | curves | learnt(seeds, {}, 0.1)


def result(pairs):
    """Table 1 with these accuracies of FarkasNet and ResNet without norm, by depth."""
    rows = []
    for depth, (farkas, plain) in pairs.items():
        rows += [row(f"FarkasNet{depth}, no norm", farkas), row(f"ResNet{depth}, no norm", plain)]
    setting = TABLE.scales["small"]
    facts = {"reproduction": TABLE.name, "scale": "small", "seconds": 1.0, "finished": "now", "reported": {}}
    facts |= {"title": TABLE.title, "where": TABLE.where, "procedure": TABLE.procedure, "options": setting.options}
    facts |= {"recipes": [recipe.to_json() for recipe in setting.recipes], "command": "neuronal reproduce it"}
    facts |= {"environment": {"gpu": "none", "processor": "p", "torch": "t", "commit": "c"}}
    return facts | {"result": {"rows": rows, "chance": 0.1}}


def first_line(folder, pairs=None):
    (folder / "farkas").mkdir()
    if pairs:
        (folder / "farkas" / "table1_cifar10.small.json").write_text(plain_json(result(pairs)))
    own = [one for name, one in REPRODUCTIONS.items() if name.startswith("farkas/")]
    page, _ = findings_page(PAPERS["farkas"], own, folder)
    line = page.splitlines()[2]
    assert line.startswith("- **Does the advantage without batch norm survive equal parameter counts?** ")
    assert "(`neuronal reproduce farkas/table1_cifar10 --scale small`)" in line
    assert "size could not explain its advantage there" in line
    return line.partition("?** ")[2]


def test_nothing_is_measured_yet(tmp_path):
    assert first_line(tmp_path).startswith("Not measured yet (")


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
    line = first_line(tmp_path, pairs)
    assert line.startswith(f"{word}: FarkasNet18: ")
    assert line.count("points of accuracy") == sum(pair != (OFF, OFF) for pair in pairs.values())
    assert ("had not left chance after 24 epochs" in line) == ((HIGH, OFF) in pairs.values())
