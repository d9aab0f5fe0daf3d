"""What the procedures of the implicit-bias paper measure, where the answer is known; and what they say of it."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from neuronal.attacks.result import Attacked
from neuronal.core.inference import evaluating
from neuronal.data.catalogue import load
from neuronal.data.dataset import Split
from neuronal.experiments.procedures.finding import BEYOND, all_or_some
from neuronal.experiments.procedures.implicit_bias import (
    accuracy_curve,
    boundary_2d,
    energy,
    robustness,
    stealth,
    transfer,
    variants,
)
from neuronal.experiments.procedures.tuned import measured
from neuronal.experiments.reproduction import Setting
from neuronal.experiments.run import training_data
from neuronal.experiments.work import Work
from neuronal.geometry.trace import outputs
from neuronal.models.registry import create_model
from neuronal.probes.curvature import curvature
from neuronal.recipes.implicit_bias import REPRODUCTIONS
from neuronal.recipes.implicit_bias.networks import DIGITS, FASHION, fixed, pair, with_fixed
from neuronal.report.drawn import cells
from neuronal.report.papers import drawings, tables


class Disc(nn.Module):
    """Class 1 inside a circle."""

    def __init__(self, radius):
        super().__init__()
        self.radius = nn.Parameter(torch.tensor(radius, dtype=torch.float64))

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


def test_a_network_of_straight_pieces_does_not_bend():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    with evaluating(model):
        model[2].bias -= model(torch.zeros(1, 2).double())[0]
        points = boundary_2d.boundary(model, 41)
        assert len(points)
        # But for the few places where two pieces meet.
        assert boundary_2d.curvature(model, points).median() < 1e-9


@pytest.mark.parametrize(("coupling", "slope"), [(-2.0, 10.0), (0.05, 10.0), (0.5, 1.0)])
def test_the_equation_is_the_gradient_of_the_energy(coupling, slope):
    torch.manual_seed(0)
    a, z = torch.randn(2, 5, 7, dtype=torch.float64)
    z.requires_grad_()
    (gradient,) = torch.autograd.grad(energy.energy(z, a, coupling, slope).sum(), z)
    by_hand = z - a + coupling * torch.tanh(slope * (z[:, None, :] - z[:, :, None])).mean(2)
    torch.testing.assert_close(gradient, by_hand.detach())


def test_two_units_have_three_solutions_beyond_the_threshold():
    # Of equal inputs the difference d solves d = coupling * tanh(slope d): besides 0 one of either sign once that is > 1.
    a = torch.zeros(1, 2, dtype=torch.float64)
    starts = torch.tensor([[[0.0, 0.0]], [[1.0, -1.0]], [[-1.0, 1.0]]], dtype=torch.float64)
    for product, count in ((0.9, 1), (1.5, 3)):
        found, steep = energy.descend(starts, a, product, 1.0, 3000)
        assert steep.max() < energy.CRITICAL
        assert energy._distinct(found[:, 0], 1e-3) == count
        d = found[:, 0, 0] - found[:, 0, 1]
        torch.testing.assert_close(d, product * torch.tanh(d), rtol=1e-5, atol=1e-5)


def test_the_worst_of_several_attacks_counts_input_by_input():
    def made(success, value):
        return Attacked(torch.full((3, 1), value), torch.tensor(success), torch.tensor([1, 2, 3]))

    both = robustness.worst([made([True, False, False], 1.0), made([True, True, False], 2.0)])
    assert both.success.tolist() == [True, True, False]
    assert both.adversarial.flatten().tolist() == [1.0, 2.0, 1.0]
    assert both.queries.tolist() == [2, 4, 6]


def robust_row(name, neuron, seed, transfer, white, passed=True):
    checks = [{"name": "a check", "passed": passed, "numbers": "5 of 6"}]
    curves = {"transfer": transfer, "white_box": white}
    return {"name": name, "neuron": neuron, "seed": seed, "accuracy": curves, "checks": checks}


def test_robustness_is_judged_by_each_attack_and_the_checks():
    rows = [
        robust_row("A", "standard", 0, [0.9, 0.5], [0.9, 0.5]),
        robust_row("A", "implicit_bias", 0, [0.9, 0.7], [0.9, 0.4], passed=False),
        robust_row("A, fixed", "implicit_bias", 0, [0.9, 0.4], [0.9, 0.6]),
    ]
    found = robustness.findings({"result": {"rows": rows, "epsilons": [0.0, 0.1]}})
    assert [one.verdict for one in found] == [
        "reproduced",
        "not reproduced",
        "not reproduced",
        "reproduced",
        "not reproduced",
    ]
    assert "+20.0 (+20.0 to +20.0) at 0.1" in found[0].numbers
    assert "2 of 3 networks; not A, implicit_bias, seed 0: 5 of 6" in found[-1].numbers


def test_changes_by_a_coupling_are_those_of_the_same_network():
    rows = [
        {"name": "A", "seed": s, "coupling": c, "accuracy": 0.9 + s / 10 + c, "jacobian": 2 + c, "robust": [0.5 + c]}
        for s in (0, 1)
        for c in (0.0, -0.1)
    ]
    none, some = transfer.by_coupling(rows)
    assert none["accuracy"] == [0.0, 0.0]
    assert some["accuracy"] == pytest.approx([-0.1, -0.1])
    assert some["jacobian"] == pytest.approx([0.95, 0.95])
    verdicts = [one.verdict for one in transfer.findings({"result": {"rows": rows, "epsilons": [0.1]}})]
    assert verdicts == ["not reproduced", "reproduced", "not reproduced"]


def curve_rows(standard, implicit):
    """Rows of one seed: (x, test accuracy, held-out accuracy epoch by epoch)."""
    both = {"standard": standard, "implicit_bias": implicit}
    return [
        {"name": str(i), "neuron": neuron, "data": "d", "seed": 0, "x": x, "accuracy": accuracy, "epochs": epochs}
        for neuron, points in both.items()
        for i, (x, accuracy, epochs) in enumerate(points)
    ]


@pytest.mark.parametrize(
    ("axis", "standard", "implicit", "verdict", "words"),
    [
        ("fraction of the training data", [(0.5, 0.8, []), (1, 0.9, [])], [(0.5, 0.91, [])], "reproduced", "50%"),
        ("fraction of the training data", [(1, 0.9, [])], [(0.5, 0.8, []), (1, 0.9, [])], "not reproduced", "100%"),
        (
            "parameters",
            [(9, 0.8, []), (19, 0.9, [])],
            [(10, 0.81, []), (20, 0.89, [])],
            "reproduced in part",
            "+1.0 at 9",
        ),
        (
            "share of wrong labels",
            [(0, 0, [0.9]), (0.5, 0, [0.5])],
            [(0, 0, [0.9]), (0.5, 0, [0.6])],
            "reproduced",
            "+10",
        ),
        (
            "epoch",
            [(4, 0, [0.1, 0.1, 0.4, 0.7])],
            [(4, 0, [0.5, 0.7, 0.7, 0.8])],
            "reproduced",
            ": 1 (1 to 1) against 4 (",
        ),
        (
            "epoch",
            [(3, 0, [0.7, 0.7, 0.7])],
            [(3, 0, [0.1, 0.1, 0.1])],
            "not reproduced",
            "70.0%: never against 1 (",
        ),
    ],
)
def test_curves_are_judged(axis, standard, implicit, verdict, words):
    (found,) = accuracy_curve.findings({"result": {"axis": axis, "rows": curve_rows(standard, implicit)}})
    assert found.verdict == verdict
    assert words in found.numbers


def test_leads_with_wrong_labels_are_compared_seed_by_seed():
    """The medians are larger with wrong labels, but not every seed's; then every seed's."""

    def judged(leads):
        rows = [
            {"neuron": neuron, "data": "d", "seed": seed, "x": x, "epochs": [0.5, 0.5 + lead * (neuron != "standard")]}
            for x, own in leads.items()
            for seed, lead in enumerate(own)
            for neuron in ("standard", "implicit_bias")
        ]
        (found,) = accuracy_curve.findings({"result": {"axis": "share of wrong labels", "rows": rows}})
        return found

    part = judged({0.0: [0.0, 0.01, 0.03], 0.5: [0.02, 0.02, 0.02]})
    assert part.verdict == "reproduced in part"
    assert "+1.0 (+0.0 to +3.0) at 0%, +2.0 (+2.0 to +2.0) at 50%" in part.numbers
    assert judged({0.0: [0.0, 0.01, 0.03], 0.5: [0.01, 0.02, 0.04]}).verdict == "reproduced"
    assert judged({0.0: [0.0, 0.01, 0.03], 0.5: [0.0, 0.0, 0.03]}).verdict == "not reproduced"


def test_epochs_until_a_target_are_those_of_every_seed():
    rows = [
        {"neuron": neuron, "epochs": curve}
        for neuron, curve in (
            ("standard", [0.2, 0.2, 0.2, 0.8]),
            ("standard", [0.2, 0.2, 0.2, 0.5]),
            ("standard", [0.2, 0.2, 0.2, 0.2]),
            ("implicit_bias", [0.2, 0.8, 0.8, 0.8]),
        )
    ]
    target, needed = accuracy_curve.epochs_needed(rows)
    assert target == pytest.approx(0.3)
    assert needed == {"standard": [4, 4, float("inf")], "implicit_bias": [2]}
    assert accuracy_curve.epochs_text(needed["standard"]) == "4 (4 to never)"


def test_never_against_never_is_no_less_than_half():
    rows = [
        {"neuron": neuron, "data": "d", "seed": seed, "x": 3, "epochs": curve}
        for neuron, curves in (
            ("standard", ([0.5, 0.6, 0.7], [0.5, 0.6, 0.8])),
            ("implicit_bias", ([0.1, 0.1, 0.1], [0.1, 0.1, 0.1])),
        )
        for seed, curve in enumerate(curves)
    ]
    (found,) = accuracy_curve.findings({"result": {"axis": "epoch", "rows": rows}})
    assert found.verdict == "not reproduced"
    assert "never against never" in found.numbers


def test_sizes_are_compared_by_name():
    """Of the first size all implicit-bias networks failed: what is left is not compared with it."""
    rows = [
        {"name": name, "neuron": neuron, "data": "d", "seed": 0, "x": x, "accuracy": accuracy}
        for name, neuron, x, accuracy in (
            ("1 channel", "standard", 9, 0.5),
            ("2 channels", "standard", 19, 0.9),
            ("2 channels", "implicit_bias", 20, 0.8),
        )
    ]
    (found,) = accuracy_curve.findings({"result": {"axis": "parameters", "rows": rows}})
    assert (found.verdict, found.numbers) == ("not reproduced", "points by parameters: -10.0 at 19")


def test_pairs_have_one_seed():
    own, other = ([{"seed": seed, "of": of} for seed in seeds] for of, seeds in (("own", (0, 2)), ("other", (1, 2))))
    assert robustness.in_pairs(own, other) == [({"seed": 2, "of": "own"}, {"seed": 2, "of": "other"})]
    assert robustness.gaps_that_count([0, 1], []) == {}


def test_an_attack_is_judged_while_some_accuracy_is_left():
    own = [[0.9, 0.5, 0.04, 0.2], [0.9, 0.6, 0.0, 0.0]]
    other = [[0.9, 0.4, 0.0, 0.1], [0.9, 0.4, 0.0, 0.1]]
    gaps = robustness.gaps_that_count([0, 1, 2, 3], list(zip(own, other, strict=True)))
    assert list(gaps) == [1, 3]
    assert gaps[1] == pytest.approx([0.1, 0.2])
    assert robustness.ahead(gaps) == "reproduced in part"
    assert robustness.ahead({1: gaps[1]}) == "reproduced"
    assert robustness.ahead({1: [-0.1, -0.1]}) == "not reproduced"
    assert robustness.ahead({}) == "not reproduced"
    assert robustness.in_points({}) == "none left"
    assert robustness.in_points({2: [0.01, 0.03]}) == "+2.0 (+1.0 to +3.0) at 2"


def kind_rows(**robust):
    """Rows of two seeds by kind; accuracies are alike."""
    names = {"standard": "A", "solved": "A, coupling -0.5", "once": "A, coupling -0.5, one iteration"}
    neurons = {"standard": "standard"}
    return [
        {"name": names.get(kind, "A"), "neuron": neurons.get(kind, "implicit_bias"), "seed": seed, "robust": value}
        | {"accuracy": 0.9, "couplings": [[-0.5]], "slopes": [10.0]}
        for kind, values in robust.items()
        for seed, value in enumerate(values)
    ]


def test_kinds_are_judged_against_the_standard_neuron_and_iterations_against_their_solve():
    rows = kind_rows(standard=[0.1, 0.1], learnt=[0.1, 0.1], solved=[0.5, 0.5], once=[0.3, 0.4])
    cost = {"name": "A, coupling -0.5", "neuron": "implicit_bias", "ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.1}
    found = variants.findings({"result": {"rows": rows, "epsilon": 0.02, "costs": [cost]}})
    by_claim = {one.claim.removeprefix(BEYOND): one for one in found}
    assert all(one.claim.startswith(BEYOND) for one in found)
    assert not any("coupling learnt" in claim for claim in by_claim)
    solved = by_claim["A, coupling -0.5: more robust at 0.02 than the standard neuron"]
    assert solved.verdict == "shown"
    assert "+40.00 points (+40.00 to +40.00); 2.00 (1.90 to 2.10) times as long per step" in solved.numbers
    assert by_claim["A, coupling -0.5: more accurate than the standard neuron"].verdict == "not shown"
    once = by_claim["A, coupling -0.5: one iteration is as robust as a solve, within a point"]
    assert once.verdict == "not shown"
    assert "+25.0 points against the standard neuron at 0.02, a solve +40.0 (medians over seeds)" in once.numbers
    assert "seed by seed -20.0 to -10.0" in once.numbers
    assert (
        "per step"
        not in by_claim["A, coupling -0.5, one iteration: more robust at 0.02 than the standard neuron"].numbers
    )


def test_where_there_is_one_kind_alone_it_is_judged():
    found = variants.findings({"result": {"rows": kind_rows(standard=[0.1, 0.1], learnt=[0.2, 0.2]), "epsilon": 0.1}})
    assert [one.verdict for one in found] == ["not shown", "shown"]
    assert all("A, coupling learnt: " in one.claim for one in found)


def test_steps_are_timed_beside_those_of_the_standard_neuron(tmp_path):
    recipes = (*pair(DIGITS), fixed(DIGITS))
    work = Work(tmp_path)
    costs = variants.step_costs(Setting(recipes), work)
    assert [(one["name"], one["neuron"]) for one in costs] == [(one.name, one.family) for one in recipes[1:]]
    assert all(one["ratio_low"] <= one["ratio"] <= one["ratio_high"] and one["seconds"] > 0 for one in costs)
    assert all(one["machine"] for one in costs)
    # Kept, as all rows are.
    assert variants.step_costs(Setting(recipes), work) == costs


@pytest.mark.parametrize(
    ("good", "total", "verdict"),
    [(2, 2, "reproduced"), (1, 2, "reproduced in part"), (0, 2, "not reproduced"), (0, 0, "not reproduced")],
)
def test_a_claim_about_many_cases(good, total, verdict):
    assert all_or_some(good, total) == verdict


def test_a_network_that_does_not_train_is_left_out_or_an_error(tmp_path):
    good, bad = replace(DIGITS, name="good"), replace(DIGITS, name="bad", lr=1e30, clip=0.0)
    setting, work = Setting((bad, good)), Work(tmp_path)
    rows = measured(setting, work, "p", lambda record, model: {"x": record.metrics["accuracy"]}, may_fail=True)
    assert [row["name"] for row in rows] == ["good"]
    with pytest.raises(ValueError, match="bad with seed 0 did not train"):
        measured(setting, work, "p", lambda record, model: {"x": 0})


def test_small_trains_the_same_networks_for_all_figures_that_can_share_them():
    small = {one.name.partition("/")[2]: one.scales["small"] for one in REPRODUCTIONS}
    prints = {name: {recipe.fingerprint() for recipe in setting.recipes} for name, setting in small.items()}
    assert prints["pgd"] == prints["pixle"] == prints["jacobian"]
    assert prints["transfer"] < prints["learning_speed"] < prints["pgd"] < prints["lite"]
    for name in ("data_fraction", "expressivity", "learned"):
        assert prints["learning_speed"] < prints[name]
    for name, setting in small.items():
        for recipe in setting.recipes:
            assert (recipe.data, len(recipe.seeds)) == ("fashion_mnist", 3), name
        if setting.recipes:
            # As many rates for every network, tried with seeds that are not reported.
            assert len(setting.options["rates"]) == 3
            assert not set(setting.options["tuning_seeds"]) & set(setting.recipes[0].seeds)
        assert setting.options.get("images", 1000) >= 1000, name
        assert setting.options.get("steps", 50) >= 50, name


def test_curvatures_are_those_of_the_training_images_with_the_labels_they_were_given(tmp_path):
    recipe = replace(DIGITS, fraction=1.0, wrong_labels=0.4, family="implicit_bias")
    record, model = Work(tmp_path).network(recipe, 0)
    found = accuracy_curve.curvatures(record, model, 5)
    data = load("digits").scaled(recipe.scaling)
    images, labels = (getattr(data.train.held_out(recipe.holdout, 0)[0], name) for name in "xy")
    given = training_data(recipe, data, 0)[0].y
    assert 0.35 < (given != labels).double().mean() < 0.45
    for name, chosen in (("right", given == labels), ("wrong", given != labels)):
        want = curvature(model, Split(images[chosen][:5], given[chosen][:5]), rows=5)["median"]
        assert found[name] == pytest.approx(want, rel=1e-6)
    clean = replace(record, recipe=replace(recipe, wrong_labels=0.0))
    assert accuracy_curve.curvatures(clean, model, 5)["wrong"] is None


@pytest.mark.parametrize(("wrong", "verdict"), [((2.0, 3.0), "reproduced"), ((2.0, 30.0), "reproduced in part")])
def test_curvatures_are_judged_at_wrong_labels(wrong, verdict):
    rows = curve_rows([(0, 0, [0.9]), (0.5, 0, [0.5])], [(0, 0, [0.9]), (0.5, 0, [0.6])])
    both = ({"right": 4.0, "wrong": None}, {"right": 1.0, "wrong": 6.0})
    own = ({"right": wrong[0], "wrong": None}, {"right": 50.0, "wrong": wrong[1]})
    for row, curved in zip(rows, (*both, *own), strict=True):
        row["curvature"] = curved
    answer = {"title": "t", "where": "w", "scale": "small", "procedure": "accuracy_curve", "reproduction": "p/n"}
    answer["result"] = {"axis": "share of wrong labels", "rows": rows}
    _, found = accuracy_curve.findings(answer)
    assert found.verdict == verdict
    assert found.numbers.endswith(f"0.50 at 0%, {wrong[1] / 6:.2f} at 50%")
    assert [drawing.title for drawing in drawings(answer)] == ["d", "d: curvature"]
    head, cells_of = cells(tables(answer)[0])
    assert dict(zip(head, cells_of[1], strict=True))["curvature, wrong labels"] == "6"
    assert dict(zip(head, cells_of[0], strict=True))["curvature, wrong labels"] == ""


def test_both_neurons_have_the_same_budget():
    """But for the neuron nothing differs: warm-up, epochs, rates to choose from."""
    for one in REPRODUCTIONS:
        for setting in one.scales.values():
            by_name = {}
            for recipe in setting.recipes:
                plain = replace(
                    recipe, family="standard", neuron_options=(), name=recipe.name.partition(", coupling")[0]
                )
                by_name.setdefault(plain.name, set()).add(plain)
            pairs = [group for name, group in by_name.items() if "one iteration" not in name]
            assert all(len(group) == 1 for group in pairs)
    standard, learnt, fixed = with_fixed(FASHION)
    assert standard.standard_epochs == learnt.standard_epochs == fixed.standard_epochs == 2


@pytest.mark.parametrize("options", [None, {"coupling": -0.5, "learn_coupling": False}])
def test_a_new_unit_is_on_at_its_trigger_only(options):
    torch.manual_seed(0)
    shape = {"num_classes": 4, "in_chans": 1, "img_size": 8}
    model = create_model("mlp1", "implicit_bias" if options else "standard", **shape, width=30, neuron_options=options)
    x = torch.rand(200, 1, 8, 8)
    direction = 0.3 * (torch.randint(0, 2, (1, 8, 8)) * 2.0 - 1)
    trigger = (x[0] + direction).clamp(0, 1)
    changed = stealth.with_unit(model.eval(), trigger, trigger - x[0], 2, gain=100.0, strength=50.0)
    plain = nn.Linear if options is None else type(model.features[1])
    assert isinstance(changed.features[1], plain)
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


def test_attacks_stay_hidden_among_bright_things_on_a_dark_ground():
    """Noise on black is half lost, and what is left of it looks like anything bright."""
    torch.manual_seed(0)
    model = create_model("mlp1", "standard", num_classes=4, in_chans=1, img_size=28, width=30).eval()
    x = torch.zeros(300, 1, 28, 28)
    for one in x:
        top, left, height, width = (int(v) for v in torch.randint(2, 14, (4,)))
        one[:, top : top + height, left : left + width] = 0.5 + 0.5 * torch.rand(())
    known = x[20:]
    options = {"noise": 0.2, "gain": 100.0, "strength": 50.0}
    random = torch.Generator().manual_seed(0)
    found = [stealth._attack(model, image, known, outputs(model, known), options, random) for image in x[:20]]
    assert all(one["works"] and not one["classes"] and one["logits"] < stealth.SEEN for one in found)
