import cmath
import math

import pytest
import torch

from neuronal.data.catalogue import load
from neuronal.data.generated import arrow_at, arrows, levy, moons


def levy_by_hand(x):
    w = 1 + (x - 1) / 4
    return math.sin(math.pi * w) ** 2 + (w - 1) ** 2 * (1 + math.sin(2 * math.pi * w) ** 2)


def test_levy_is_levys_function():
    data = load("levy")
    assert (data.task, data.shape, data.num_outputs, data.img_size) == ("regression", (1,), 1, 1)
    assert (len(data.train), len(data.test)) == (50, 201)
    assert data.test.x[[0, 110, 200], 0].tolist() == pytest.approx([-10, 1, 10])
    for x, y in zip(data.test.x[:, 0].tolist(), data.test.y.tolist(), strict=True):
        # float32 of values up to about 20.
        assert y == pytest.approx(levy_by_hand(x), abs=1e-4)
    assert data.test.y[110].item() == pytest.approx(0, abs=1e-6)
    clean, noisy = levy(3, num_train=4000, noise=0), levy(3, num_train=4000)
    assert clean.train.x.equal(noisy.train.x)
    # The deviation of 4,000 numbers is within 5% of the true one, with four deviations to spare.
    assert (noisy.train.y - clean.train.y).std().item() == pytest.approx(0.1, rel=0.05)
    assert clean.train.x.min() >= -10
    assert clean.train.x.max() <= 10


def test_moons_are_two_half_circles():
    data = moons(1, noise=0)
    for (x, y), label in zip(data.train.x.tolist(), data.train.y.tolist(), strict=True):
        centre, side = ((0, 0), 1) if label == 0 else ((1, 0.5), -1)
        assert math.dist((x, y), centre) == pytest.approx(1, abs=1e-5)
        assert side * (y - centre[1]) >= -1e-6


def arrow_by_hand(x, y):
    """Walks along both arrows with complex numbers instead of computing widths of many points at once."""
    at = complex(x, y)
    hits = []
    for label, (middle, start, turn) in enumerate(((0.70, 0, 1), (0.42, 230, -1))):
        along = math.degrees(cmath.phase(at * cmath.exp(-1j * math.radians(start)))) * turn
        along = along if along >= 0 else along + 360
        width = 0.1 if along < 240 else 0.28 * (1 - (along - 240) / 50) if along < 290 else None
        if width is not None and abs(abs(at) - middle) <= width:
            hits.append(label)
    return hits


def test_the_arrows_do_not_touch_and_are_where_they_are_drawn():
    random = torch.Generator().manual_seed(0)
    points = (2 * torch.rand(4000, 2, generator=random) - 1).double()
    expected = [arrow_by_hand(x, y) for x, y in points.tolist()]
    assert max(map(len, expected)) == 1
    assert arrow_at(points).tolist() == [hit[0] if hit else -1 for hit in expected]
    assert {0, 1, -1} == set(arrow_at(points).tolist())


def test_arrows_are_drawn_evenly_from_inside():
    data = arrows(2, num_train=4000, num_test=501)
    assert data.train.y.bincount().tolist() == [2000, 2000]
    assert data.test.y.bincount().tolist() == [251, 250]
    assert arrow_at(data.train.x).equal(data.train.y)
    assert arrow_at(data.test.x).equal(data.test.y)
    assert data.train.x.abs().max() <= 1
    # Head of the outer arrow by its area: 50 degrees of ring of half-width falling from 0.28 to 0 around 0.7.
    outer = data.train.x[data.train.y == 0]
    angle = torch.atan2(outer[:, 1], outer[:, 0]).rad2deg() % 360
    head, shaft = math.radians(50) * 0.7 * 0.28, math.radians(240) * 0.7 * 0.2
    # Four standard errors of a share of 2,000.
    assert (angle >= 240).double().mean().item() == pytest.approx(head / (head + shaft), abs=0.04)


def test_levys_points_are_the_papers():
    """The first draws of numpy's old generator with seed 0, as documented there."""
    first = [0.5488135039273248, 0.7151893663724195, 0.6027633760716439]
    assert levy().train.x[:3, 0].tolist() == pytest.approx([20 * u - 10 for u in first], abs=1e-5)


@pytest.mark.parametrize("make", [levy, moons, arrows])
def test_the_seed_decides(make):
    one, same, other = make(5), make(5), make(6)
    assert one.train.x.equal(same.train.x)
    assert one.train.y.equal(same.train.y)
    assert not one.train.x.equal(other.train.x)
    if one.task == "classification":
        assert not one.train.x.equal(one.test.x)
        assert one.train.y.bincount().tolist() == [500, 500]
