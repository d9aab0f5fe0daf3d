import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuronal.data.dataset import Split
from neuronal.data.generated import moons
from neuronal.data.training_set import fraction, redrawn, with_wrong_labels


def split_of(labels):
    return Split(torch.arange(float(len(labels))), torch.tensor(labels))


labels = st.lists(st.integers(0, 4), min_size=1, max_size=80)
shares = st.floats(0.01, 1)


@settings(max_examples=60, deadline=None)
@given(labels, shares, shares, st.integers(0, 99))
def test_fractions_are_balanced_and_nested(labels, one, other, seed):
    split = split_of(labels)
    small, large = (fraction(split, share, seed) for share in sorted((one, other)))
    assert set(small.x.tolist()) <= set(large.x.tolist())
    assert large.x.tolist() == sorted(set(large.x.tolist()))
    for part, share in ((small, min(one, other)), (large, max(one, other))):
        for label in set(labels):
            assert part.y.tolist().count(label) == max(1, round(share * labels.count(label)))
        assert part.y.tolist() == [labels[int(row)] for row in part.x]


def test_a_whole_is_a_whole_and_the_seed_decides():
    split = split_of([0, 1] * 50)
    assert fraction(split, 1, 0).x.equal(split.x)
    assert fraction(split, 0.3, 0).x.equal(fraction(split, 0.3, 0).x)
    assert not fraction(split, 0.3, 0).x.equal(fraction(split, 0.3, 1).x)
    numbers = Split(torch.arange(10.0), torch.rand(10))
    assert len(fraction(numbers, 0.3, 0)) == 3


@pytest.mark.parametrize("share", [0, -0.1, 1.1, float("nan")])
def test_what_is_no_fraction_is_refused(share):
    with pytest.raises(ValueError, match=r"needs to be in \(0, 1\]"):
        fraction(split_of([0, 1]), share, 0)
    with pytest.raises(ValueError, match=r"needs to be in \(0, 1\]"):
        redrawn(moons(), share, 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.floats(0, 1), st.integers(0, 99))
def test_exactly_the_share_is_wrong_and_every_one_of_them(labels, share, seed):
    split = split_of(labels)
    noisy = with_wrong_labels(split, share, 5, seed)
    before, after = np.array(labels), noisy.y.numpy()
    assert (before != after).sum() == round(share * len(labels))
    assert after.min() >= 0
    assert after.max() < 5
    assert noisy.x.equal(split.x)
    assert split.y.tolist() == labels
    assert noisy.y.equal(with_wrong_labels(split, share, 5, seed).y)


def test_wrong_labels_are_each_other_class_equally_often():
    noisy = with_wrong_labels(split_of([2] * 8000), 1.0, 5, seed=0)
    counts = noisy.y.bincount(minlength=5)
    assert counts[2] == 0
    # 2,000 expected of each; four standard errors.
    assert (counts[[0, 1, 3, 4]] - 2000).abs().max() < 160


def test_wrong_labels_need_classes():
    with pytest.raises(ValueError, match="at least 2 classes, got 1"):
        with_wrong_labels(split_of([0]), 0.5, 1, 0)
    with pytest.raises(ValueError, match=r"needs to be in \[0, 1\], got 2"):
        with_wrong_labels(split_of([0]), 2, 5, 0)
    with pytest.raises(ValueError, match="whose answers are numbers"):
        with_wrong_labels(Split(torch.zeros(2), torch.zeros(2)), 0.5, 2, 0)


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
