"""What the tables and figures of the implicit-bias paper measure, where the answer is known."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from neuronal.attacks import Attacked
from neuronal.core.inference import evaluating
from neuronal.data import Split, load
from neuronal.experiments import Work, training_data
from neuronal.models import create_model
from neuronal.probes import curvature
from neuronal_papers.implicit_bias import accuracy_curve, boundary_2d, energy, stealth
from neuronal_papers.implicit_bias.attacks import worst
from neuronal_papers.implicit_bias.networks import DIGITS


class Disc(nn.Module):
    """Class 1 inside a circle."""

    def __init__(self, radius):
        super().__init__()
        self.radius = radius

    def forward(self, x):
        inside = self.radius**2 - x.square().sum(1)
        return torch.stack([torch.zeros_like(inside), inside], 1)


@pytest.mark.parametrize("radius", [0.3, 0.7])
def test_a_circle_bends_by_one_over_its_radius(radius):
    with evaluating(Disc(radius)) as model:
        points = boundary_2d.boundary(model, 41)
        torch.testing.assert_close(points.norm(dim=1), torch.full((len(points),), radius).double())
        bends = boundary_2d.curvature(model, points)
        torch.testing.assert_close(bends, torch.full_like(bends, 1 / radius), rtol=1e-6, atol=0)
        assert boundary_2d.hollowness(model, 41, 1) == 0
        assert boundary_2d.hollowness(model, 41, 0) > 0.05


def test_two_units_have_three_solutions_beyond_the_threshold():
    # Of equal inputs the difference d solves d = coupling * tanh(slope d): besides 0 one of either sign once that is > 1.
    a = torch.zeros(1, 2, dtype=torch.float64)
    starts = torch.tensor([[[0.0, 0.0]], [[1.0, -1.0]], [[-1.0, 1.0]]], dtype=torch.float64)
    for product, count in ((0.9, 1), (1.5, 3)):
        found, steep = energy.descend(starts, a, product, 1.0, 3000)
        assert steep.max() < energy.CRITICAL
        assert energy.distinct(found[:, 0], 1e-3) == count
        d = found[:, 0, 0] - found[:, 0, 1]
        torch.testing.assert_close(d, product * torch.tanh(d), rtol=1e-5, atol=1e-5)


def test_the_worst_of_several_attacks_counts_input_by_input():
    def made(success, value):
        return Attacked(torch.full((3, 1), value), torch.tensor(success), torch.tensor([1, 2, 3]))

    both = worst(made([True, False, False], 1.0), made([True, True, False], 2.0))
    assert both.success.tolist() == [True, True, False]
    assert both.adversarial.flatten().tolist() == [1.0, 2.0, 1.0]
    assert both.queries.tolist() == [2, 4, 6]


def test_epochs_until_a_target_are_those_of_running_means():
    curves = [[0.2, 0.2, 0.2, last] for last in (0.8, 0.5, 0.2)]
    rows = [{"neuron": "standard", "data": "d", "epochs": curve} for curve in curves]
    rows.append({"neuron": "implicit_bias", "data": "d", "epochs": [1.0]})
    rows = accuracy_curve.followed({"result": {"rows": rows}})["result"]["rows"]
    assert [row["target"] for row in rows] == pytest.approx([0.3] * 4)
    assert [row["needed"] for row in rows] == [4, 4, float("inf"), 1]


def test_curvatures_are_those_of_the_training_images_with_the_labels_they_were_given(tmp_path):
    recipe = replace(DIGITS, fraction=1.0, wrong_labels=0.4, family="implicit_bias")
    record, model = Work(tmp_path).network(recipe, 0)
    found = accuracy_curve.curvatures(record, model, 5)
    data = load("digits").scaled(recipe.scaling)
    images, labels = (getattr(data.train.held_out(recipe.holdout, 0)[0], name) for name in "xy")
    given = training_data(recipe, data, 0)[0].y
    assert 0.35 < (given != labels).double().mean() < 0.45
    for name, chosen in (("right", given == labels), ("wrong", given != labels)):
        expected = curvature(model, Split(images[chosen][:5], given[chosen][:5]), rows=5).median
        assert found[name] == pytest.approx(expected, rel=1e-6)
    clean = replace(record, recipe=replace(recipe, wrong_labels=0.0))
    assert accuracy_curve.curvatures(clean, model, 5)["wrong"] is None


@pytest.mark.parametrize("options", [None, {"coupling": -0.5, "learn_coupling": False}])
def test_a_new_unit_is_on_at_its_trigger_only(options):
    torch.manual_seed(0)
    neuron, shape = "implicit_bias" if options else "standard", {"num_classes": 4, "in_chans": 1, "img_size": 8}
    model = create_model("mlp1", neuron, **shape, width=30, neuron_options=options)
    x = torch.rand(200, 1, 8, 8)
    trigger = (x[0] + 0.3 * (torch.randint(0, 2, (1, 8, 8)) * 2.0 - 1)).clamp(0, 1)
    changed = stealth.with_unit(model.eval(), trigger, trigger - x[0], 2, gain=100.0, strength=50.0)
    on = changed.features[:3](torch.cat([trigger[None], x]))[:, 30] > 0
    assert on.tolist() == [True] + [False] * 200
    with torch.no_grad():
        gain = changed(trigger[None]) - model(trigger[None])
        apart = (changed(x) - model(x)).abs().max()
    assert gain.argmax() == 2
    assert gain.max() > 40
    # Without coupling nobody notices a unit that is off; with it the others move, by up to 2 * 0.5 / 31 each.
    rounding, reach = 1e-5, 2 * 0.5 / 31 * model.head.weight.abs().sum(1).max()
    assert apart < rounding if options is None else rounding < apart < reach
