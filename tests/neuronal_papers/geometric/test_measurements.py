"""Units under perturbation and boundaries against plain trigonometry; pictures of trained networks."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from neuronal.experiments import Work
from neuronal_papers.core import Setting
from neuronal_papers.geometric import motion, units
from neuronal_papers.judge import judge


def outcomes(claims, result):
    return [one.outcome for one in judge(claims, {"command": "", "reproduction": "r", "result": result})]


@pytest.fixture(scope="module")
def perturbed():
    return units.measure(Setting(options={**units.OPTIONS, "units": 20, "inputs": (2, 5)}), None)


def test_the_papers_unit_turns_as_was_measured_from_its_code(perturbed):
    """Degrees at changes of 1e-4, 1e-3, 1e-2 and 1e-1: measured once with numpy alone, and as the figure has them."""
    rows = {(row["method"], row["epsilon"]): row for row in perturbed["rows"]}
    for method, angles in {"SP": (4.1, 29.1, 59.6, 65.0), "GmP": (0.0057, 0.057, 0.57, 5.7)}.items():
        assert [rows[method, e]["angle"] for e in (1e-4, 1e-3, 1e-2, 1e-1)] == pytest.approx(angles, rel=0.02)
    drawn = [rows["SP", e]["published_angle"] for e in (1e-4, 1e-3, 1e-2, 1e-1)]
    assert drawn == pytest.approx((4.1, 12.2, 18.3, 23.7), rel=0.02)


def test_angles_against_plain_trigonometry(perturbed):
    w0, w1, _ = 1e-3 * np.random.RandomState(1).randn(3)
    for row in perturbed["rows"]:
        e = row["epsilon"]
        turned = e
        if row["method"] != "GmP":
            turned = math.remainder(math.atan2(w1 + e, w0 + e) - math.atan2(w1, w0), 2 * math.pi)
        assert row["angle"] == pytest.approx(math.degrees(abs(turned)), rel=1e-6)


def test_all_parameterisations_start_from_one_boundary():
    w, b = torch.randn(7, 3, dtype=torch.float64), torch.randn(7, dtype=torch.float64)
    for method in units.FOUR:
        hinge = units.perturbed(method, w, b, 0.0)
        torch.testing.assert_close(hinge.normal, w / w.norm(dim=1, keepdim=True))
        torch.testing.assert_close(hinge.offset, b / w.norm(dim=1))


def test_claims_about_perturbations(perturbed):
    assert outcomes(units.CLAIMS, perturbed) == ["holds", "false as stated", "holds", "holds", "holds"]
    # One that turns as little as GmP, one beyond the bound.
    rows = [row | {"angle": 0.0} if row["method"] in ("WN", "GmP") else row for row in perturbed["rows"]]
    many = [row | {"of_bound": 1.01} for row in perturbed["many"]]
    assert outcomes(units.CLAIMS, {"rows": rows, "many": many})[::2][:2] == ["false as stated"] * 2


@pytest.mark.parametrize("inputs", [1, 2])
def test_a_boundary_lies_where_its_radius_and_angle_say(inputs):
    angles = (0.0, 1.0) if inputs == 1 else (0.3, 1.7)
    setting = Setting(options={"inputs": inputs, "radii": (-0.5, 2.0), "angles": angles})
    result = units.measure_places(setting, None)
    for row in result["rows"]:
        u = [math.cos(row["angle"] * math.pi), math.sin(row["angle"] * math.pi)][:inputs]
        assert row["location"] == pytest.approx([-row["radius"] * value for value in u], abs=1e-6)
        assert row["normal"] == pytest.approx(u, abs=1e-6)
    claims = units.BOUNDARY_1D.claims
    assert outcomes(claims, result) == ["holds"]
    for wrong in ({"on_it": 0.1}, {"active": -1.0}, {"radius": 9.0}):
        assert outcomes(claims, {"rows": [*result["rows"][1:], result["rows"][0] | wrong]}) == ["false as stated"]


def test_pictures_are_of_every_method_at_the_same_rates(tmp_path):
    small, work = motion.FIGURE2.scales["smoke"], Work(tmp_path)
    recipes = tuple(replace(small.recipes[number], epochs=2, seeds=(0,)) for number in (0, 3))
    line = replace(small, recipes=recipes, options={**small.options, "same_rates": (0.01, 0.1)})
    result = motion.measure(line, work)
    every = [(method, rate) for method in ("SP", "GmP") for rate in (0.01, 0.1)]
    assert [(one["method"], one["rate"]) for one in result["pictures"]] == every
    for picture, row in zip(result["pictures"], result["same_rates"], strict=True):
        assert picture["test"] == row["values"][0]
        assert len(picture["value"]) == len(picture["value_at_start"])
        assert picture["value"] != picture["value_at_start"]
        assert [at for at, _ in picture["places"]] == [0, 1, 2]
    first, second = (one["value_at_start"] for one in result["pictures"][:2])
    assert first == second
