"""The first lines of the implicit-bias page, on made-up results of either outcome."""

import json

from neuronal.core.files import plain_json
from neuronal.recipes import PAPERS, REPRODUCTIONS
from neuronal.report.findings import findings_page

CHECKS = ("success goes to 100% for large epsilon", "black-box never beats white-box")


def result(short, **own):
    facts = {"reproduction": f"implicit_bias/{short}", "scale": "small", "recipes": [], "seconds": 1.0}
    one = REPRODUCTIONS[f"implicit_bias/{short}"]
    facts |= {"title": one.title, "where": one.where, "procedure": one.procedure, "finished": "now"}
    facts |= {"command": f"neuronal reproduce implicit_bias/{short} --scale small", "options": {}}
    return facts | {"environment": {"gpu": "none", "processor": "p", "torch": "t", "commit": "c"}, "result": own}


def attacked(white, passed):
    """Three seeds of a standard network that keeps 50%, and of implicit bias that keeps ``white``; 70% by the protocol."""
    rows = []
    for neuron, left in (("standard", 0.5), ("implicit_bias", white)):
        for seed in (0, 1, 2):
            curves = {"transfer": [0.9, 0.7], "white_box": [0.9, left + seed / 100]}
            checks = [{"name": name, "passed": passed or seed != 1, "numbers": "98 of 99"} for name in CHECKS]
            rows.append({"name": "Fashion-MNIST", "neuron": neuron, "seed": seed, "accuracy": curves, "checks": checks})
    return result("pgd", rows=rows, epsilons=[0.0, 0.02], attacks={"transfer": "t", "white_box": "w"})


def curve(short, axis, standard, implicit):
    rows = []
    for neuron, points in (("standard", standard), ("implicit_bias", implicit)):
        for x, accuracy, epochs in points:
            row = {"name": "n", "neuron": neuron, "seed": 0, "data": "fashion_mnist", "x": x, "accuracy": accuracy}
            rows.append(row | {"epochs": epochs})
    return result(short, rows=rows, axis=axis)


SHARE, EPOCH = "fraction of the training data", "epoch"
GOOD = (
    attacked(0.6, passed=True),
    curve("data_fraction", SHARE, [(0.5, 0.8, [0.8]), (1.0, 0.9, [0.9])], [(0.5, 0.91, [0.9]), (1.0, 0.92, [0.9])]),
    curve("learning_speed", EPOCH, [(4, 0.9, [0.1, 0.1, 0.4, 0.7])], [(4, 0.9, [0.5, 0.7, 0.7, 0.8])]),
)
BAD = (
    attacked(0.4, passed=False),
    curve("data_fraction", SHARE, [(0.5, 0.8, [0.8]), (1.0, 0.9, [0.9])], [(0.5, 0.7, [0.7]), (1.0, 0.8, [0.8])]),
    curve("learning_speed", EPOCH, [(3, 0.7, [0.7, 0.7, 0.7])], [(3, 0.1, [0.1, 0.1, 0.1])]),
)


def first_lines(folder, found):
    (folder / "implicit_bias").mkdir(parents=True, exist_ok=True)
    for one in found:
        short = one["reproduction"].partition("/")[2]
        (folder / "implicit_bias" / f"{short}.small.json").write_text(plain_json(one))
    own = [one for name, one in REPRODUCTIONS.items() if name.startswith("implicit_bias/")]
    page, _ = findings_page(PAPERS["implicit_bias"], own, folder)
    lines = page.splitlines()
    assert lines[0].startswith("# Updating the standard neuron model")
    return lines[2:6]


def test_nothing_is_measured_yet(tmp_path):
    lines = first_lines(tmp_path, ())
    assert len(lines) == 4
    assert all("** Not measured yet (`neuronal " in line for line in lines)
    assert [line.count("reproduce implicit_bias/") for line in lines] == [1, 1, 1, 0]


def test_all_of_it_holds(tmp_path):
    robust, data, epochs, _ = first_lines(tmp_path, GOOD)
    assert "** Yes: Fashion-MNIST, coupling learnt: points of accuracy by epsilon" in robust
    assert "+10.0 (+10.0 to +10.0) at 0.02; all checks for masked gradients pass" in robust
    assert "`neuronal reproduce implicit_bias/pgd --scale small`" in robust
    assert "** Less: fashion_mnist: 90.0% is reached from 50% of the data on" in data
    assert "** Less than half: fashion_mnist: epochs until 40.0%: 1 (1 to 1) against 4" in epochs


def test_nothing_of_it_holds(tmp_path):
    robust, data, epochs, _ = first_lines(tmp_path, BAD)
    assert "** No: Fashion-MNIST" in robust
    assert "-10.0 (-10.0 to -10.0) at 0.02; BUT of the checks for masked gradients fail: " in robust
    assert all(name in robust for name in CHECKS)
    assert "4 of 6 networks" in robust
    assert "** None less: fashion_mnist: 90.0% is reached with no share of the data" in data
    assert "** None fewer: fashion_mnist: epochs until 70.0%: never against 1 (1 to 1)" in epochs


def test_one_network_of_two_is_a_part(tmp_path):
    both = attacked(0.6, passed=True)
    worse = [row | {"name": "Fashion-MNIST, coupling -0.5"} for row in attacked(0.4, passed=True)["result"]["rows"][3:]]
    both["result"]["rows"] += worse
    robust, *_ = first_lines(tmp_path, [both])
    assert "** In part: Fashion-MNIST, coupling learnt: " in robust
    assert "; Fashion-MNIST, coupling -0.5: points" in robust


def write_times(folder, name, **known):
    (folder / "bench").mkdir(exist_ok=True)
    machine = {"gpu": "NVIDIA X", "processor": "p"}
    (folder / "bench" / name).write_text(json.dumps({"environment": machine, **known}))


def test_the_cost_is_that_of_the_best_file_there_is(tmp_path):
    def cost():
        return first_lines(tmp_path, ())[3]

    layers = [{"time": {"ratio": 50.0, "seconds": 1.0}, "case": {}}]
    write_times(tmp_path, "implicit_h200.json", table=layers)
    assert "50.00 (50.00 to 50.00) times a Conv2d layer on NVIDIA X (`results/bench/implicit_h200.json`)" in cost()
    rows = [{"name": name, "measured": ratio} for name, ratio in (("UCN a", 2.0), ("UCN b", None), ("ResNet", 9.0))]
    write_times(tmp_path, "gpu_h200.json", sections=[{"name": "implicit", "rows": rows}, {"name": "ntk", "rows": []}])
    assert "2.00 (2.00 to 2.00) times the block" in cost()
    # A run of other sections says nothing of it.
    write_times(tmp_path, "gpu_h200.json", sections=[{"name": "ntk", "rows": []}])
    assert "50.00 (50.00 to 50.00) times a Conv2d layer" in cost()


def test_one_iteration_has_a_cost_of_its_own(tmp_path):
    def cost():
        return first_lines(tmp_path, ())[3]

    shape = {"side": 8, "limit": 15.0, "iterations": 0}
    layers = [{"time": {"ratio": 50.0, "seconds": 4.0}, "case": shape}]
    layers += [{"time": {"ratio": 7.0, "seconds": 1.0}, "case": shape | {"limit": None, "iterations": 1}}]
    write_times(tmp_path, "implicit_cpu.json", table=layers)
    assert "50.00 (50.00 to 50.00) times a Conv2d layer on" in cost()
    assert "one iteration takes 0.14 (0.14 to 0.14) of the time of a solve on" in cost()
    rows = [{"name": "UCN a", "measured": 2.0}, {"name": "UCN a, wide", "measured": 8.0}]
    rows += [{"name": "UCN a, one iteration", "measured": 1.5}]
    write_times(tmp_path, "gpu_h200.json", sections=[{"name": "implicit", "rows": rows}])
    assert "2.00 (2.00 to 2.00) times the block" in cost()
    assert "one iteration in the place of a solve takes 0.75 (0.75 to 0.75) of that on" in cost()
    assert "8.0" not in cost()
    assert "0.14" not in cost()


def test_the_cost_of_whole_networks_is_from_those_timed_in_turn(tmp_path):
    row = {"accuracy": 0.9, "robust": 0.5, "parameters": 1, "slopes": [], "couplings": []}
    rows = [row | {"name": "F", "neuron": neuron, "seed": 0} for neuron in ("standard", "implicit_bias")]
    one = {"name": "F", "neuron": "implicit_bias", "ratio": 2.5, "ratio_low": 2.4, "ratio_high": 2.6, "machine": "X"}
    *_, cost = first_lines(tmp_path, [result("lite", rows=rows, epsilon=0.02, costs=[one])])
    assert "2.50 (2.40 to 2.60) times forward and backward of F on X (`neuronal reproduce implicit_bias/lite" in cost
    *_, cost = first_lines(tmp_path, [result("lite", rows=rows, epsilon=0.02)])
    assert "Not measured yet" in cost
