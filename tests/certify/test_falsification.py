"""A million points in certified sets: none has another class."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from neuronal.certify.check_class import check_segment
from neuronal.certify.segment import certify_segments
from neuronal.certify.simplex import certify_hull
from neuronal.data import load
from tests.certify.networks import counterexamples, same_class_pairs, worst_by_gradient


def trained(model: nn.Module) -> nn.Module:
    data = load("digits")
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(30):
        for rows in torch.randperm(len(data.train.y)).split(64):
            part = data.train.rows(rows)
            loss = nn.functional.cross_entropy(model(part.x), part.y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model.eval()


def hidden() -> list[nn.Module]:
    return [nn.Linear(64, 64), nn.ReLU()]


def last() -> nn.Module:
    return nn.Linear(32, 10)


MODELS = {
    "mlp": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    ),
    "cnn": lambda: nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32, 10),
    ),
}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("promise", ["real", "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_a_million_points(name, promise):
    """Four cases of 250,000 each on segments, and as many again on triangles."""
    torch.manual_seed(0)
    model, x = trained(MODELS[name]()), load("digits").test.x
    a, b = same_class_pairs(model, x, 400)
    answers = [c for c in certify_segments(model, a, b, promise=promise) if c.verdict == "certified"]
    assert len(answers) > 300
    points = 0
    for c in answers:
        ends = torch.stack([c.evidence.a, c.evidence.b])
        assert counterexamples(model, ends, c.evidence.label, promise, 250_000 // len(answers) + 1) == 0
        points += 250_000 // len(answers) + 1
    assert points >= 250_000
    for c in answers[:20]:
        ends = torch.stack([c.evidence.a, c.evidence.b])
        assert worst_by_gradient(model, ends, c.evidence.label) > 0
        assert check_segment(c, model)
    hulls = 0
    for triple in torch.stack([a[:60], b[:60], a[:60].roll(1, 0)], 1):
        c = certify_hull(model, triple, promise=promise)
        if c.verdict == "certified":
            hulls += 1
            assert counterexamples(model, triple, c.evidence.label, promise, 5000) == 0
    assert hulls > 20
