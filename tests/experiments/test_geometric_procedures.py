"""Procedures of the geometric paper against numbers known from elsewhere, and their verdicts on made-up results."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from neuronal.experiments.compare import estimate
from neuronal.experiments.procedures.finding import BEYOND
from neuronal.experiments.procedures.geometric import (
    boundaries,
    hinge_motion,
    learning_rates,
    perturbation,
    same_rate,
    widths,
)
from neuronal.experiments.protocols import against
from neuronal.experiments.record import read
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.work import Work
from neuronal.recipes.geometric import FIGURE2, PERTURBATION


class Silent:
    def say(self, line):
        pass


@pytest.fixture(scope="module")
def perturbed():
    options = {**PERTURBATION.scales["small"].options, "units": 20, "inputs": (2, 5)}
    return perturbation.measure(Setting(options=options), Silent())


def test_the_papers_unit_turns_as_was_measured_from_its_code(perturbed):
    """Degrees at changes of 1e-4, 1e-3, 1e-2 and 1e-1: measured once with numpy alone, and as the figure has them."""
    rows = {(row["method"], row["epsilon"]): row for row in perturbed["rows"]}
    for method, angles in {"SP": (4.1, 29.1, 59.6, 65.0), "GmP": (0.0057, 0.057, 0.57, 5.7)}.items():
        found = [rows[method, e]["angle"] for e in (1e-4, 1e-3, 1e-2, 1e-1)]
        assert found == pytest.approx(angles, rel=0.02)
    drawn = [rows["SP", e]["published_angle"] for e in (1e-4, 1e-3, 1e-2, 1e-1)]
    assert drawn == pytest.approx((4.1, 12.2, 18.3, 23.7), rel=0.02)


def test_angles_against_plain_trigonometry(perturbed):
    w0, w1, _ = 1e-3 * np.random.RandomState(1).randn(3)
    for row in perturbed["rows"]:
        e = row["epsilon"]
        if row["method"] == "GmP":
            turned = e
        else:
            turned = math.remainder(math.atan2(w1 + e, w0 + e) - math.atan2(w1, w0), 2 * math.pi)
        assert row["angle"] == pytest.approx(math.degrees(abs(turned)), rel=1e-6)


def test_all_parameterisations_start_from_one_boundary():
    w, b = torch.randn(7, 3, dtype=torch.float64), torch.randn(7, dtype=torch.float64)
    for perturb in perturbation.PERTURBED.values():
        found = perturb(w, b, 0.0)
        torch.testing.assert_close(found.normal, w / w.norm(dim=1, keepdim=True))
        torch.testing.assert_close(found.offset, b / w.norm(dim=1))


def test_verdicts_of_perturbations(perturbed):
    found = perturbation.findings({"result": perturbed})
    assert [one.verdict for one in found] == ["reproduced", "not true as stated", "reproduced", "reproduced in part"]
    assert "understates how far SP, WN and BN turn" in found[1].numbers
    # Two sizes, three norms and four changes: of GmP alone, as the theorem is about no other.
    assert "over 24 sets of units; checked is this inequality" in found[2].numbers


def test_a_boundary_that_turns_as_little_as_another_does_not_turn_least(perturbed):
    rows = [dict(row) for row in perturbed["rows"]]
    for row in rows:
        if row["method"] in ("WN", "GmP"):
            row["angle"] = 0.0
    assert perturbation.findings({"result": perturbed | {"rows": rows}})[0].verdict == "not reproduced"


@pytest.mark.parametrize(
    ("small", "large", "verdict"),
    [(10.5, 2.9, "reproduced in part"), (10.5, 3.0, "reproduced"), (10.0, 9.0, "not reproduced")],
)
def test_drastic_is_ten_times_at_small_weights_and_a_part_below_three_at_large_ones(perturbed, small, large, verdict):
    many = [
        {"method": method, "inputs": 2, "norm": norm, "epsilon": 1e-3, "median": turned, "of_bound": 1.0}
        for norm, sp in ((1e-3, small), (1.0, large))
        for method, turned in (("SP", sp), ("GmP", 1.0))
    ]
    assert perturbation.findings({"result": perturbed | {"many": many}})[-1].verdict == verdict
    for number in ("ten times", "three times"):
        assert number in perturbation.JUDGED


@pytest.mark.parametrize("inputs", [1, 2])
def test_a_boundary_lies_where_its_radius_and_angle_say(inputs):
    angles = (0.0, 1.0) if inputs == 1 else (0.3, 1.7)
    setting = Setting(options={"inputs": inputs, "radii": (-0.5, 2.0), "angles": angles})
    result = boundaries.measure(setting, Silent())
    for row in result["rows"]:
        u = [math.cos(row["angle"] * math.pi), math.sin(row["angle"] * math.pi)][:inputs]
        assert row["location"] == pytest.approx([-row["radius"] * value for value in u], abs=1e-6)
        for end in row["ends"]:
            assert sum(a * b for a, b in zip(u, end, strict=True)) + row["radius"] == pytest.approx(0, abs=1e-5)
    assert boundaries.findings({"result": result})[0].verdict == "reproduced"


def rate_rows(values):
    rows, chosen = [], []
    for method, by_rate in values.items():
        for rate, value in by_rate.items():
            values = [value, value + 0.001, value - 0.0015]
            place = {"data": "d", "batch": 8, "protocol": "clean", "measure": "accuracy", "seeds": [0, 1, 2]}
            rows.append({"method": method, "rate": rate, **place, "values": values, "largest_angle": [rate]})
            # Differences of the two methods are not all the same.
            rows[-1]["values"][0] += 0.002 * (method == "GmP")
            rows[-1]["estimate"] = asdict(estimate(values))
        chosen.append({"data": "d", "method": method, "best": max(by_rate, key=by_rate.get), "curve": []})
    return {"result": {"rows": rows, "chosen": chosen}}


def test_verdicts_of_learning_rates():
    """Ten times; best at the own rate; best at the largest; turns least there, which a tie is not."""
    ten = learning_rates.findings(rate_rows({"SP": {0.01: 0.9, 0.1: 0.8}, "GmP": {0.01: 0.8, 0.1: 0.95}}))
    assert [one.verdict for one in ten] == ["reproduced"] * 3 + ["not reproduced"]
    same = learning_rates.findings(rate_rows({"SP": {0.01: 0.8, 0.1: 0.95}, "GmP": {0.01: 0.8, 0.1: 0.9}}))
    assert [one.verdict for one in same] == ["not reproduced"] * 4
    three = learning_rates.findings(rate_rows({"SP": {0.03: 0.9, 0.1: 0.8}, "GmP": {0.03: 0.8, 0.1: 0.9}}))
    assert three[0].verdict == "reproduced in part"


def test_a_method_that_failed_at_every_rate_does_not_hide_the_others():
    answer = rate_rows({"SP": {0.01: 0.9}, "BN": {0.01: 0.7}, "GmP": {0.01: 0.95}})
    answer["result"]["chosen"][1]["best"] = None
    rows = answer["result"]["rows"]
    rows[1] = {key: value for key, value in rows[1].items() if key not in ("values", "estimate", "largest_angle")}
    ten, own, largest, _ = learning_rates.findings(answer)
    assert ten.numbers == "SP 0.01, BN failed, GmP 0.01"
    assert own.verdict == largest.verdict == "reproduced"


def test_verdicts_of_widths():
    def row(start, width, signal, error):
        return {"start": start, "width": width, "signal": signal, "failed": 0, "estimate": {"mean": error}}

    rows = [row("GmP, scale 1", 10, 0.5, 3.0), row("GmP, scale 1", 1000, 0.6, 3.1)]
    rows += [row("SP, deviation 1", 10, 1.0, 3.0), row("SP, deviation 1", 1000, 100.0, 30.0)]
    found = widths.findings({"result": {"rows": rows}})
    # Nobody starts with deviation 1 but we.
    assert [one.verdict for one in found] == ["reproduced"] * 2 + ["shown"] * 2
    assert [one.claim.startswith(BEYOND) for one in found] == [False] * 2 + [True] * 2
    rows[1]["estimate"]["mean"] = 30.0
    assert widths.findings({"result": {"rows": rows}})[1].verdict == "not reproduced"
    rows[1]["signal"] = 5.0
    assert widths.findings({"result": {"rows": rows}})[0].verdict == "not reproduced"


def start(name, width, values, **further):
    mean = {"estimate": asdict(estimate(values))}
    known = {"start": name, "width": width, "signal": 0.5, "values": values, "failed": 0, "overlap": 0.0}
    return known | {"seeds": list(range(len(values)))} | mean | further


def against_glorot(*rows):
    return [one for one in widths.findings({"result": {"rows": rows}}) if "does as well as SP, Glorot" in one.claim]


def test_the_start_of_geometric_units_against_glorots_width_by_width():
    glorot = [start("SP, Glorot", width, [4.0, 5.0, 6.0, 5.0]) for width in (10, 100)]
    as_well, worse = [4.01, 5.0, 5.99, 5.01], [4.3, 5.31, 6.3, 5.29]
    (found,) = against_glorot(*glorot, *(start("GmP, scale 1", width, as_well) for width in (10, 100)))
    assert (found.verdict, found.claim.startswith(BEYOND)) == ("shown", True)
    (found,) = against_glorot(*glorot, start("GmP, scale 1", 10, as_well), start("GmP, scale 1", 100, worse))
    assert found.verdict == "not shown"
    assert "+0.30 (" in found.numbers
    assert found.numbers.endswith("ends within 5% at 1 of 2 widths; larger beyond chance at 100")


def test_starts_are_paired_by_seed():
    """Differences are small seed by seed, and large from one seed to the next."""
    glorot = start("SP, Glorot", 10, [4.0, 5.0, 6.0], seeds=[0, 1, 2])
    (found,) = against_glorot(glorot, start("GmP, scale 1", 10, [6.01, 5.0, 4.01], seeds=[2, 1, 0]))
    assert found.verdict == "shown"
    # No seed has both.
    assert not against_glorot(glorot, start("GmP, scale 1", 10, [6.01, 5.0], failed=1, seeds=[3, 4]))


def test_starts_on_splits_of_the_same_rows_have_wider_intervals():
    glorot = start("SP, Glorot", 10, [4.0, 5.0, 6.0, 5.0])
    own = start("GmP, scale 1", 10, [4.1, 5.3, 6.1, 5.35])
    (plain,), (split,) = (against_glorot(*(one | {"overlap": by} for one in (glorot, own))) for by in (0.0, 0.25))
    assert plain.numbers.endswith("larger beyond chance at 10")
    assert "beyond chance" not in split.numbers


def moved(method, values, steps, inputs=2):
    sound = {"measure": "rmse" if inputs == 1 else "accuracy", "values": values, "estimate": asdict(estimate(values))}
    place = {"data": "d", "batch": 8, "protocol": "published", "rate": 0.1, "seeds": list(range(len(values)))}
    return {"method": method, "largest_angle": steps, "largest_distance": steps} | place | sound


def of_motion(*rows, inputs=2):
    result = {"rows": [], "differences": [], "best": "GmP", "same_rates": rows, "inputs": inputs}
    return hinge_motion.findings({"result": result, "reported": {}})


@pytest.mark.parametrize(
    ("steps", "verdict"), [([1.0, 2.0, 9.0], "reproduced"), ([1.0, 3.0, 3.0], "not reproduced")], ids=["less", "tie"]
)
def test_least_is_less_than_every_other(steps, verdict):
    rows = [moved("SP", [0.8, 0.8, 0.9], [3.0, 3.0, 3.0]), moved("GmP", [0.8, 0.9, 0.9], steps)]
    assert of_motion(*rows)[0].verdict == verdict


def test_what_holds_by_construction_on_a_line_is_said():
    rows = [moved("SP", [1.0, 1.1], [9.0, 9.0], 1), moved("GmP", [0.5, 0.6], [0.1, 0.2], 1)]
    assert "fixed sign: its units turn by 0 by construction" in of_motion(*rows, inputs=1)[0].numbers
    assert "construction" not in of_motion(*rows, inputs=2)[0].numbers


def test_seeds_of_two_kinds_are_told_by_their_median_and_range():
    rows = [moved("SP", [1.1, 1.2, 1.2], [9.0] * 3, 1), moved("GmP", [0.44, 0.45, 1.21], [0.1] * 3, 1)]
    numbers = of_motion(*rows, inputs=1)[1].numbers
    assert "GmP 0.700 ± 0.255 (median 0.450, 0.440 to 1.210)" in numbers


@pytest.fixture
def line():
    """Two methods at two rates, for two epochs."""
    small = FIGURE2.scales["smoke"]
    recipes = tuple(replace(one, epochs=2, seeds=(0,)) for one in small.recipes if one.name in ("levy SP", "levy GmP"))
    return replace(small, recipes=recipes, options={**small.options, "same_rates": (0.01, 0.1)})


def test_pictures_are_of_every_method_at_the_same_rates(line, tmp_path):
    result = hinge_motion.measure(line, Work(tmp_path))
    assert [(one["method"], one["rate"]) for one in result["pictures"]] == [
        (method, rate) for method in ("SP", "GmP") for rate in (0.01, 0.1)
    ]
    for picture, row in zip(result["pictures"], result["same_rates"], strict=True):
        assert picture["test"] == row["values"][0]
        assert len(picture["value"]) == len(picture["value_at_start"])
        # The same start at every rate, and something learnt.
        assert picture["value"] != picture["value_at_start"]
        assert [at for at, _ in picture["places"]] == [0, 1, 2]
    first, second = (one["value_at_start"] for one in result["pictures"][:2])
    assert first == second


def test_weights_of_another_training_are_not_drawn(line, tmp_path):
    work = Work(tmp_path)
    hinge_motion.measure(line, work)
    other, own = (
        next(
            path for path in (tmp_path / "cells").glob("*.safetensors") if read(path.with_suffix(".json")).recipe == one
        )
        for one in (replace(line.recipes[0], lr=rate) for rate in (0.01, 0.1))
    )
    own.write_bytes(other.read_bytes())
    with pytest.raises(ValueError, match=rf"not those of its record: .* Remove .*{own.name} and run again"):
        hinge_motion.measure(line, work)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ([0.90, 0.91, 0.92, 0.93], "shown"),
        ([0.90, 0.70, 0.92, 0.93], "not shown"),
        ([0.70, 0.71, 0.72, 0.73], "not shown"),
    ],
)
def test_two_methods_at_one_rate_are_compared_seed_by_seed(own, expected):
    def row(method, values):
        sound = {"measure": "accuracy", "values": values, "estimate": asdict(estimate(values)), "seeds": [0, 1, 2, 3]}
        place = {"data": "banana", "batch": 128, "protocol": "clean", "rate": 0.1}
        return {"method": method} | place | sound

    rows = [row("SP", [0.8, 0.81, 0.8, 0.8]), row("GmP", own)]
    (found,) = same_rate.findings({"result": {"rows": rows, "differences": against(rows, "GmP")}})
    assert found.verdict == expected
    assert found.claim == "Beyond the paper: banana: GmP does better than SP at the same rate, 0.1 (clean)"
    assert found.numbers.startswith(f"GmP {100 * sum(own) / 4:.2f}%, SP 80.25%; difference ")
    assert found.numbers.endswith("4 seeds")


def test_one_seed_has_no_interval():
    place = {"data": "banana", "batch": 128, "protocol": "clean", "rate": 0.1, "measure": "accuracy", "seeds": [0]}
    rows = [
        {"method": m, **place, "values": [v], "estimate": asdict(estimate([v]))} for m, v in (("SP", 0.8), ("GmP", 0.9))
    ]
    (found,) = same_rate.findings({"result": {"rows": rows, "differences": against(rows, "GmP")}})
    assert (found.verdict, found.numbers) == ("not shown", "GmP 90.00%, SP 80.00%; difference +10.00, 1 seed")
