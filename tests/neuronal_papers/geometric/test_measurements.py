"""Units under perturbation and boundaries against plain trigonometry; pictures of trained networks."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from neuronal.core.records import to_json
from neuronal.experiments import Work
from neuronal_papers.core import Setting
from neuronal_papers.geometric import motion, units


def outcomes(one, result):
    return [finding.outcome for finding in one.findings({"command": "", "reproduction": "r", "result": result})]


@pytest.fixture(scope="module")
def perturbed():
    return to_json(units.measure(Setting(options={**units.OPTIONS, "units": 20, "inputs": (2, 5)}), None))


def test_angles_of_the_papers_unit_against_plain_trigonometry(perturbed):
    w0, w1, _ = 1e-3 * np.random.RandomState(1).randn(3)
    for row in perturbed["rows"]:
        e = row["epsilon"]
        turned = math.remainder(math.atan2(w1 + e, w0 + e) - math.atan2(w1, w0), 2 * math.pi)
        assert row["angle"] == pytest.approx(math.degrees(e if row["method"] == "GmP" else abs(turned)), rel=1e-6)
    # As the figure has them.
    drawn = [row["published_angle"] for row in perturbed["rows"] if row["method"] == "SP"]
    assert drawn == pytest.approx((4.1, 12.2, 18.3, 23.7), rel=0.02)


def test_all_parameterisations_start_from_one_boundary():
    w, b = torch.randn(7, 3, dtype=torch.float64), torch.randn(7, dtype=torch.float64)
    for method in units.FOUR:
        hinge = units.perturbed(method, w, b, 0.0)
        torch.testing.assert_close((hinge.normal.T, hinge.offset), (w.T / w.norm(dim=1), b / w.norm(dim=1)))


def test_claims_about_perturbations(perturbed):
    assert outcomes(units.PERTURBATION, perturbed) == ["holds", "false as stated", "holds", "holds"]
    # One that turns as little as GmP, one beyond the bound, one that turns hardly further.
    rows = [row | {"angle": 0.0} if row["method"] in ("WN", "GmP") else row for row in perturbed["rows"]]
    many = [row | {"of_bound": 1.01, "median": 1.0} for row in perturbed["many"]]
    assert outcomes(units.PERTURBATION, {"rows": rows, "many": many}) == ["false as stated"] * 4


@pytest.mark.parametrize("inputs", [1, 2])
def test_a_boundary_lies_where_its_radius_and_angle_say(inputs):
    angles = (0.0, 1.0) if inputs == 1 else (0.3, 1.7)
    setting = Setting(options={"inputs": inputs, "radii": (-0.5, 2.0), "angles": angles})
    result = to_json(units.measure_places(setting, None))
    for row in result["rows"]:
        u = [math.cos(row["angle"] * math.pi), math.sin(row["angle"] * math.pi)][:inputs]
        assert row["location"] == pytest.approx([-row["radius"] * value for value in u], abs=1e-6)
        assert row["normal"] == pytest.approx(u, abs=1e-6)
    assert outcomes(units.BOUNDARY_1D, result) == ["holds"]
    for wrong in ({"on_it": 0.1}, {"active": -1.0}, {"radius": 9.0}):
        rows = [*result["rows"][1:], result["rows"][0] | wrong]
        assert outcomes(units.BOUNDARY_1D, {"rows": rows}) == ["false as stated"]


def test_pictures_are_of_every_method_at_the_same_rates(tmp_path):
    small = motion.FIGURE2.scales["smoke"]
    recipes = tuple(replace(small.recipes[number], epochs=2, seeds=(0,)) for number in (0, 3))
    result = to_json(motion.measure(replace(small, recipes=recipes), Work(tmp_path)))
    every = [(method, rate) for method in ("SP", "GmP") for rate in (0.01, 0.1)]
    assert [(one["method"], one["rate"]) for one in result["pictures"]] == every
    for picture, row in zip(result["pictures"], result["same_rates"], strict=True):
        assert picture["test"] == row["values"][0]
        assert len(picture["value"]) == len(picture["value_at_start"])
        assert picture["value"] != picture["value_at_start"]
        assert [at for at, _ in picture["places"]] == [0, 1, 2]
    assert result["pictures"][0]["value_at_start"] == result["pictures"][1]["value_at_start"]
