"""Motion of boundaries, against a plain loop over steps and units, and where the answer is known beforehand."""

import copy
import math

import pytest
import torch
from torch import nn

from neuronal.data.dataset import Split
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.run import run
from neuronal.models.registry import create_model
from neuronal.ops.hinge import Hinge, hinge
from neuronal.probes import hinge_motion
from neuronal.probes.hinge_motion import PLACES, STEPS, HingeMotion, motion
from neuronal.train.loop import fit
from neuronal.train.optim import Plan

NETS = [("standard", "none"), ("standard", "batch"), ("standard", "weight"), ("standard", "weight_alone")]
NETS += [("geometric", "none"), ("geometric", "input_mean")]


def test_a_turn_and_a_shift_by_hand():
    turn = torch.tensor(1e-4, dtype=torch.float64)
    before = Hinge(torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]).double(), torch.tensor([0.0, 2.0, 0.0]).double())
    normals = torch.stack([torch.stack([turn.cos(), turn.sin()]), *torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).double()])
    angle, distance = motion(before, Hinge(normals, torch.tensor([0.0, 2.5, 0.0]).double()))
    # The arc cosine in float64 would have half of the digits of the first angle.
    assert angle.tolist() == pytest.approx([1e-4, 0, math.pi], rel=1e-9)
    assert distance.tolist() == pytest.approx([0, 0.5, 0], abs=1e-12)


@pytest.mark.parametrize(("neuron", "norm"), NETS)
def test_against_a_plain_loop(neuron, norm):
    """The boundary is found from the outputs of the layer and its norm, which are affine; no weights are looked at."""
    torch.manual_seed(0)
    x, y = torch.randn(24, 2), torch.randint(2, (24,))
    model = create_model("mlp1", neuron, num_classes=2, in_chans=2, img_size=1, width=5, norm=norm)
    model(x + 0.5)

    def boundaries():
        eyes = [torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])]
        model.eval()
        with torch.no_grad():
            at = [model.features[:-1](point)[0].double() for point in eyes]
        model.train()
        return [(math.atan2(b - z, a - z), z / math.hypot(a - z, b - z)) for z, a, b in zip(*at, strict=True)]

    probe = HingeMotion(model)
    seen, plain = [], []
    optimiser = torch.optim.SGD(model.parameters(), lr=0.3)
    for step in range(4):
        before = boundaries()
        nn.functional.cross_entropy(model(x), y).backward()
        # Running means move with the forward pass, weights with the step: one step is both.
        optimiser.step()
        optimiser.zero_grad()
        after = boundaries()
        seen.append(probe(model, step))
        turns, shifts = [], []
        for (theta, off), (theta2, off2) in zip(before, after, strict=True):
            turns.append(abs(math.degrees(math.remainder(theta2 - theta, 2 * math.pi))))
            one, other = (complex(-o * math.cos(t), -o * math.sin(t)) for t, o in ((theta, off), (theta2, off2)))
            shifts.append(abs(one - other))
        plain.append((max(turns), max(shifts)))
    # The first call has nothing to compare with but what the first forward pass saw.
    for found, (angle, distance) in zip(seen[1:], plain[1:], strict=True):
        assert found["hinge_angle"] == pytest.approx(angle, rel=1e-3, abs=1e-3)
        assert found["hinge_distance"] == pytest.approx(distance, rel=1e-3, abs=1e-5)
    result = probe.close()
    assert result.steps == 4
    assert result.angle[1:] == pytest.approx([angle for angle, _ in plain[1:]], rel=1e-3, abs=1e-3)
    assert len(result.places[0][1]) == 5


def test_every_step_of_a_training_counts_once_is_as_without_and_the_hook_goes():
    torch.manual_seed(0)
    model = create_model("fcn", "geometric", num_classes=2, in_chans=1, img_size=1, widths=(4, 3), norm="batch")
    unwatched = copy.deepcopy(model)
    probe = HingeMotion(model)
    data = Split(torch.randn(30, 1), torch.randint(2, (30,)))
    plan = Plan(epochs=300, batch_size=10, optim="sgd", lr=0.1)
    fitted = fit(model, data, plan, probes=[probe])
    fit(unwatched, data, plan)
    assert all(value.equal(unwatched.state_dict()[name]) for name, value in model.state_dict().items())
    assert "hinge_angle" in fitted.epochs[0].measured
    result = probe.close()
    assert result.steps == 900
    assert len(result.angle) <= STEPS
    assert len(result.places) <= PLACES
    assert result.largest_angle == pytest.approx(max(result.angle), rel=1e-4)
    angle, distance = probe.units("features.1")
    assert angle.shape == distance.shape == (4,)
    assert angle.max() * 180 / math.pi <= result.largest_angle * 1.0001
    assert not model.features[1]._forward_pre_hooks


def test_a_recipe_asks_for_it_by_name_and_has_a_hidden_layer():
    recipe = Recipe(name="m", model="mlp1", data="moons", epochs=2, probes=("hinge_motion",), fraction=0.1)
    record = run(recipe, 0)
    assert record.probes["hinge_motion"].steps == record.epochs[-1]["steps"]
    assert record.epochs[0]["hinge_angle"] >= 0
    with pytest.raises(ValueError, match="hidden layer"):
        HingeMotion(nn.Linear(2, 2))


def test_a_negative_scale_behind_the_relu_leaves_the_boundary_where_it_is():
    model = create_model("mlp1", "geometric", num_classes=2, in_chans=3, img_size=1, width=4, outside=True)
    probe = HingeMotion(model)
    model(torch.randn(5, 3))
    with torch.no_grad():
        model.features[1].scale.neg_()
    assert probe(model, 1) == {"hinge_angle": 0.0, "hinge_distance": 0.0}


@pytest.mark.parametrize("at_once", [(1, 2**17), (4, 2**17), (64, 2**17), (64, 150)])
def test_steps_worked_out_together_are_those_one_by_one(monkeypatch, at_once):
    """Eleven steps, told in two epochs, against the hinges of copied weights: slots that are left over count too."""
    monkeypatch.setitem(hinge_motion.AT_ONCE, "cpu", at_once)
    torch.manual_seed(0)
    model = create_model("fcn", num_classes=2, in_chans=1, img_size=2, widths=(4, 3))
    layers = [model.features[1], model.features[3]]
    probe, told, plain, before = HingeMotion(model), [], [], None
    for number in range(11):
        now = [hinge(layer.weight.detach().clone(), layer.bias.detach().clone()) for layer in layers]
        model(torch.randn(2, 1, 2, 2))
        if before:
            moved = [motion(one, other) for one, other in zip(before, now, strict=True)]
            plain.append([max(pair[i].max().item() for pair in moved) for i in (0, 1)])
        if number == 6:
            # What is seen here is what the last forward pass saw: a step of nothing.
            told.append(probe(model, number))
            probe._is_new = True
        before = now
        with torch.no_grad():
            for layer in layers:
                layer.weight += 0.1 * torch.randn_like(layer.weight)
                layer.bias += 0.1 * torch.randn_like(layer.bias)
    angle, distance = probe.units("features.3")
    result = probe.close()
    assert told[0]["hinge_angle"] == pytest.approx(math.degrees(max(angle for angle, _ in plain[:6])), rel=1e-4)
    plain.insert(6, [0.0, 0.0])
    assert result.steps == 11
    assert result.angle == pytest.approx([math.degrees(angle) for angle, _ in plain], rel=1e-4)
    assert result.distance == pytest.approx([distance for _, distance in plain], rel=1e-4)
    assert [angle.tolist(), distance.tolist()] == [pytest.approx(one.tolist(), rel=1e-4) for one in moved[1]]


def test_a_unit_without_a_boundary_does_not_move_and_hides_no_other():
    model = create_model("mlp1", num_classes=2, in_chans=2, img_size=1, width=3)
    layer = model.features[1]
    with torch.no_grad():
        layer.weight[0] = 0
        layer.weight[1] = torch.tensor([1.0, 0.0])
    probe = HingeMotion(model)
    model(torch.randn(5, 2))
    with torch.no_grad():
        layer.weight[1] = torch.tensor([0.0, 1.0])
    assert probe(model, 1)["hinge_angle"] == pytest.approx(90)
    assert probe.units("features.1")[0].tolist() == pytest.approx([0, math.pi / 2, 0], abs=1e-6)
