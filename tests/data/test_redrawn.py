import pytest
import torch

from neuronal.data.generated import moons
from neuronal.data.redrawn import redrawn


def rows(split):
    return {tuple(row) for row in torch.cat([split.x, split.y[:, None]], 1).tolist()}


def test_every_row_is_in_one_part_and_seeds_differ():
    data = moons(num_train=70, num_test=30)
    one, other = redrawn(data, 1.0, 0), redrawn(data, 1.0, 1)
    assert (len(one.train), len(one.test)) == (80, 20)
    assert rows(one.train) | rows(one.test) == rows(data.train) | rows(data.test)
    assert not rows(one.train) & rows(one.test)
    assert rows(one.test) != rows(other.test)
    assert redrawn(data, 1.0, 0).test.x.equal(one.test.x)


def test_a_share_of_the_rows():
    few = redrawn(moons(num_train=70, num_test=30), 0.5, 3)
    assert (len(few.train), len(few.test)) == (40, 10)
    with pytest.raises(ValueError, match="share of rows"):
        redrawn(moons(), 1.5, 0)
