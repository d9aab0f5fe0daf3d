"""APGD's steps: the published rule, transcribed line by line for one input, beside the batched one."""

from fractions import Fraction
from math import ceil

import pytest
import torch

from neuronal.attacks import Ball, apgd, pgd
from neuronal.attacks.apgd import ascent
from neuronal.attacks.climb import Landscape
from neuronal.attacks.loss import LOSSES, dlr
from tests.attacks.problems import linear, tiny


def published_checkpoints(steps):
    """p_0 = 0, p_1 = 0.22, p_{j+1} = p_j + max(p_j - p_{j-1} - 0.03, 0.06), all at most 1; w_j = ceil(p_j steps)."""
    p = [Fraction(0), Fraction("0.22")]
    while (following := p[-1] + max(p[-1] - p[-2] - Fraction("0.03"), Fraction("0.06"))) < 1:
        p.append(following)
    return [ceil(one * steps) for one in p]


def published(loss, gradient, x, start, epsilon, steps):
    """Algorithm 1 for one input and the largest-change norm: step sizes and points."""

    def project(z):
        return torch.min(torch.max(z, x - epsilon), x + epsilon).clamp(0, 1)

    w = published_checkpoints(steps)
    eta, xs, etas = 2 * epsilon, [start], []
    f = [loss(start)]
    fmax, xmax = f[0], start
    # At every checkpoint: the step size it was reached with, and the best loss by then.
    eta_at, fmax_at = {0: eta}, {0: fmax}
    ups = []
    current, previous = start, start
    for k in range(steps):
        etas.append(eta)
        z = project(current + eta * gradient(current).sign())
        new = z if k == 0 else project(current + 0.75 * (z - current) + 0.25 * (current - previous))
        ups.append(loss(new) > loss(current))
        previous, current = current, new
        xs.append(new)
        if loss(new) > fmax:
            fmax, xmax = loss(new), new
        if k + 1 in w:
            j = w.index(k + 1)
            eta_at[k + 1], fmax_at[k + 1] = eta, fmax
            few = sum(ups[w[j - 1] : w[j]]) < 0.75 * (w[j] - w[j - 1])
            stuck = eta_at[w[j - 1]] == eta_at[w[j]] and fmax_at[w[j - 1]] == fmax_at[w[j]]
            if few or stuck:
                eta, current = eta / 2, xmax
    return etas, xs


@pytest.mark.parametrize(("name", "steps"), [("cross_entropy", 50), ("dlr", 50), ("dlr", 30), ("dlr", 100)])
def test_step_sizes_and_points_follow_the_published_rule(name, steps):
    model, x, y = tiny(hidden=12, classes=4)
    model, x = model.double(), x.double()
    epsilon = 0.15
    start = Ball("inf", epsilon).starts(x, torch.Generator().manual_seed(0))
    sizes = []
    views = list(ascent(Landscape(model, y, name), x, start, Ball("inf", epsilon), steps, sizes))
    halved = 0
    for i in range(len(x)):

        def loss(z, i=i):
            return LOSSES[name](model(z[None]), y[i : i + 1])[0].item()

        def gradient(z, i=i):
            z = z.clone().requires_grad_()
            return torch.autograd.grad(LOSSES[name](model(z[None]), y[i : i + 1])[0], z)[0]

        etas, points = published(loss, gradient, x[i], start[i], epsilon, steps)
        # A checkpoint resumes from the best point; where rounding of the batched sums decides a sign, paths part.
        torch.testing.assert_close(torch.stack([view.points[i] for view in views]), torch.stack(points))
        assert [size[i].item() for size in sizes] == pytest.approx(etas)
        halved += etas[-1] < etas[0]
    assert halved


def test_the_ratio_does_not_change_with_the_scale_of_the_logits():
    logits = torch.randn(20, 5, dtype=torch.float64)
    y = torch.arange(20) % 5
    torch.testing.assert_close(dlr(1000 * logits + 3, y), dlr(logits, y))
    assert ((dlr(logits, y) > 0) == (logits.argmax(1) != y)).all()
    by_hand = [
        -(z[k] - max(v for i, v in enumerate(z) if i != k)) / (sorted(z)[-1] - sorted(z)[-3])
        for z, k in zip(logits.tolist(), y.tolist(), strict=True)
    ]
    assert dlr(logits, y).tolist() == pytest.approx(by_hand)


def test_saturated_cross_entropy_hides_what_the_ratio_shows():
    model, x, y = linear(classes=3)
    y = model(x).argmax(1)
    model[1].weight.data *= 1e6
    model[1].bias.data *= 1e6
    ball = Ball("inf", 0.2)
    ratio = apgd(model, x, y, ball, steps=20, loss="dlr")
    entropy = pgd(model, x, y, ball, steps=20, random_start=False)
    assert ratio.success.sum() > entropy.success.sum()
