"""PGD: exact where the worst case is known, never outside its ball, and the gradient of every neuron."""

import pytest
import torch
from torch import nn

from neuronal.attacks import Ball, apgd, pgd
from neuronal.certify.ball import certify_ball
from tests.attacks.problems import implicit, linear, tiny
from tests.geometry.networks import Does

ATTACKS = {
    "pgd": lambda *args, **more: pgd(*args, **{"steps": 20, **more}),
    "apgd": lambda *args, **more: apgd(*args, **{"steps": 20, **more}),
    "apgd-dlr": lambda *args, **more: apgd(*args, **{"steps": 20, "loss": "dlr", **more}),
    "pgd-margin": lambda *args, **more: pgd(*args, **{"steps": 20, "loss": "margin", **more}),
}
TWO_CLASSES = [name for name in ATTACKS if name != "apgd-dlr"]


def normal(model, y):
    """Of the margin of the label over the other class, and its offset."""
    weight, bias = model[1].weight.detach(), model[1].bias.detach()
    return weight[y] - weight[1 - y], bias[y] - bias[1 - y]


@pytest.mark.parametrize("attack", TWO_CLASSES)
@pytest.mark.parametrize("norm", [2, "inf"])
def test_a_linear_classifier_falls_exactly_where_its_margin_says(attack, norm):
    model, x, y = linear()
    w, b = normal(model, y)
    distance = ((w * x).sum(1) + b) / w.norm(p=2 if norm == 2 else 1, dim=1)
    # Between two of them, so that none is so near that the last step decides.
    ordered = distance.sort().values
    middle = 20 + int(ordered.log().diff()[20:40].argmax())
    epsilon = ordered[middle : middle + 2].mean().item()
    # Nothing is cut off at the box, or the distance would be another one.
    assert epsilon < 0.3
    found = ATTACKS[attack](model, x, y, Ball(norm, epsilon), steps=100)
    assert found.success.equal(distance < epsilon)
    assert found.robust_accuracy == (distance >= epsilon).double().mean()


def test_the_box_counts_for_a_linear_classifier():
    model, x, _ = linear()
    y, epsilon = torch.zeros(len(x), dtype=torch.long), 0.4
    w, _ = normal(model, y)
    worst = torch.where(w > 0, (x - epsilon).clamp(min=0), (x + epsilon).clamp(max=1))
    # An offset at which about half of them fall.
    ordered = (w * worst).sum(1).sort().values
    model[1].bias.data = torch.stack([-ordered[29:31].mean(), torch.zeros(()).double()])
    w, b = normal(model, y)
    found = pgd(model, x, y, Ball("inf", epsilon), loss="margin", steps=30)
    assert found.success.equal((w * worst).sum(1) + b < 0)
    assert 0 < found.robust_accuracy < 1


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("norm", [2, "inf"])
def test_points_stay_in_the_ball_and_in_the_box(attack, norm):
    model, x, y = linear(classes=4)
    x[0], x[1] = 0, 1
    ball = Ball(norm, 0.4)
    found = ATTACKS[attack](model, x, y, ball, restarts=2)
    change = (found.adversarial - x).flatten(1)
    lengths = change.norm(dim=1) if norm == 2 else change.abs().amax(1)
    assert lengths.max() <= ball.epsilon * (1 + 1e-12)
    assert found.adversarial.min() >= 0
    assert found.adversarial.max() <= 1
    assert (model(found.adversarial).argmax(1) != y).equal(found.success)


@pytest.mark.parametrize("seed", range(3))
def test_a_grid_over_the_ball_finds_nothing_more(seed):
    model, x, y = tiny(seed)
    epsilon = 0.08
    line = torch.linspace(-epsilon, epsilon, 41)
    grid = torch.cartesian_prod(line, line)
    around = (x[:, None] + grid).clamp(0, 1)
    exhaustive = (model(around).argmax(2) != y[:, None]).any(1)
    assert 0 < exhaustive.sum() < len(x)
    worst = torch.zeros(len(x), dtype=torch.bool)
    for attack in ATTACKS.values():
        found = attack(model, x, y, Ball("inf", epsilon), restarts=5).success
        # One loss may lead to the wrong one of two other classes; all together miss nothing.
        assert (exhaustive & ~found).sum() <= 1
        worst |= found
    assert not (exhaustive & ~worst).any()
    # Between the points of the grid there may be another class, but hardly ever.
    assert (worst & ~exhaustive).sum() <= 1


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("norm", [2, "inf"])
def test_no_attack_succeeds_where_the_class_is_certified(attack, norm):
    model, x, y = tiny(classes=4)
    tried = 0
    for one, label in zip(x[:10], y[:10], strict=True):
        certificate = certify_ball(model, one, norm=norm)
        if certificate.verdict == "certified":
            ball = Ball(norm, certificate.evidence.radius)
            assert not ATTACKS[attack](model, one[None], label[None], ball, restarts=3).success.any()
            tried += 1
    assert tried


@pytest.mark.parametrize("surrogate", [False, True])
def test_models_are_left_as_they_were(surrogate):
    model, x, y = implicit()
    other = implicit(0.0)[0] if surrogate else None
    before = {name: value.clone() for name, value in model.state_dict().items()}
    flags = [module.training for module in model.modules()]
    found = pgd(model, x, y, Ball("inf", 0.1), steps=3, surrogate=other)
    assert all(before[name].equal(value) for name, value in model.state_dict().items())
    assert [module.training for module in model.modules()] == flags
    assert all(p.grad is None for p in model.parameters())
    # Judged on the victim, in evaluation: the labels are its own answers.
    model.eval()
    assert (model(found.adversarial).argmax(1) != y).equal(found.success)


def test_with_a_surrogate_only_that_one_is_climbed():
    model, x, y = linear()
    without_gradient = nn.Sequential(Does(torch.detach), model)
    with pytest.raises(RuntimeError, match="not have been used"):
        pgd(without_gradient, x, y, Ball("inf", 0.05))
    direct = pgd(model, x, y, Ball("inf", 0.05))
    through = pgd(without_gradient, x, y, Ball("inf", 0.05), surrogate=model)
    assert through.success.equal(direct.success)


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_seed_decides_and_the_batch_does_not(attack):
    model, x, y = tiny(hidden=8, classes=4)
    model, x = model.double(), x.double()
    ball = Ball("inf", 0.05)
    one = ATTACKS[attack](model, x, y, ball, seed=3, restarts=2)
    same = ATTACKS[attack](model, x, y, ball, seed=3, restarts=2)
    parts = ATTACKS[attack](model, x, y, ball, seed=3, restarts=2, batch_size=7)
    other = ATTACKS[attack](model, x, y, ball, seed=4, restarts=2)
    assert one.adversarial.equal(same.adversarial)
    assert one.success.equal(parts.success)
    assert not one.adversarial.equal(other.adversarial)


def test_queries_are_counted():
    model, x, y = linear()
    y[0] = 1 - y[0]
    found = pgd(model, x, y, Ball("inf", 0.0), steps=4, restarts=2)
    # One at the start; then the start and four steps of two climbs, but for what was wrong already.
    assert found.queries.tolist() == [1] + [11] * (len(x) - 1)
    assert found.success.tolist() == [True] + [False] * (len(x) - 1)
    assert found.adversarial.equal(x)
    asked = pgd(model, x, y, Ball("inf", 0.0), steps=4, surrogate=model)
    assert asked.queries.tolist() == [1] + [8] * (len(x) - 1)


@pytest.mark.parametrize("norm", [2, "inf"])
def test_starts_fill_the_ball(norm):
    x = torch.full((4000, 2), 0.5)
    starts = Ball(norm, 0.4).starts(x, torch.Generator().manual_seed(0)) - x
    lengths = starts.norm(dim=1) if norm == 2 else starts.abs().amax(1)
    # In two dimensions the share within r of the radius is r^2.
    for r in (0.5, 0.8):
        assert (lengths < 0.4 * r).float().mean() == pytest.approx(r * r, abs=0.03)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda m, x, y: Ball(1, 0.1), 'norm needs to be 2 or "inf", got 1'),
        (lambda m, x, y: Ball(2, -1.0), "epsilon needs to be a number that is not negative, got -1"),
        (lambda m, x, y: Ball(2, 1.0, (1.0, 0.0)), "box needs a smaller and a larger value"),
        (lambda m, x, y: pgd(m, x + 1, y, Ball(2, 1.0)), r"inputs need to be in \[0, 1\], got 1\..* to"),
        (lambda m, x, y: pgd(m, x, y[1:], Ball(2, 1.0)), "one label per input, got 60 inputs and 59 labels"),
        (lambda m, x, y: pgd(m, x, y, Ball(2, 1.0), loss="hinge"), "Unknown loss of an attack 'hinge'"),
        (lambda m, x, y: pgd(m, x, y, Ball(2, 1.0), steps=-1), "steps needs to be 0 or more, got -1"),
        (lambda m, x, y: apgd(m, x, y, Ball(2, 1.0), steps=0), "steps needs to be at least 1, got 0"),
        (lambda m, x, y: apgd(m, x, y, Ball(2, 1.0), restarts=0), "restarts needs to be at least 1, got 0"),
        (lambda m, x, y: apgd(m, x, y, Ball(2, 1.0), loss="dlr"), "dlr needs at least 3 classes, got 2"),
    ],
)
def test_what_cannot_be_asked_for(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong(*linear())


class WithoutGradient(nn.Module):
    """Right about inputs below a half; its gradient is not a number where the first entry is below 0.2."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(1, 1)

    def forward(self, x):
        first, low = x[:, 0], x[:, 0] < 0.2
        nothing = torch.zeros_like(first).masked_scatter(low, (first[low] - first[low]).sqrt())
        return torch.stack([0.5 - first + nothing, first - 0.5], 1)


@pytest.mark.parametrize("attack", TWO_CLASSES)
@pytest.mark.parametrize("norm", [2, "inf"])
def test_what_has_no_gradient_is_not_fooled_by_what_is_no_number(attack, norm):
    """The other input, which has one, falls all the same."""
    x, y = torch.tensor([[0.1, 0.5], [0.45, 0.5]]), torch.tensor([0, 0])
    with pytest.warns(RuntimeWarning, match="not finite at 1 of 2 inputs"):
        found = ATTACKS[attack](WithoutGradient(), x, y, Ball(norm, 0.09))
    assert found.success.tolist() == [False, True]
    assert found.adversarial.isfinite().all()
