import pytest
import torch

from neuronal.data.dataset import Dataset, Split


def test_a_split_needs_as_many_labels_as_inputs():
    with pytest.raises(ValueError, match="got 3 inputs and 2 labels"):
        Split(torch.zeros(3, 1), torch.zeros(2))


def test_held_out_is_balanced_disjoint_complete_and_fixed_by_the_seed():
    y = torch.tensor([0] * 40 + [1] * 20 + [2] * 10)
    split = Split(torch.arange(70.0), y)
    rest, held = split.held_out(0.2, seed=3)
    assert held.y.bincount().tolist() == [8, 4, 2]
    assert sorted([*rest.x.tolist(), *held.x.tolist()]) == list(range(70))
    assert torch.equal(split.held_out(0.2, seed=3)[1].x, held.x)
    assert not torch.equal(split.held_out(0.2, seed=4)[1].x, held.x)
    assert len(split.held_out(0, seed=0)[1]) == 0


@pytest.mark.parametrize("fraction", [-0.1, 1.0, float("nan")])
def test_held_out_refuses_what_is_not_a_fraction(fraction):
    with pytest.raises(ValueError, match=r"needs to be in \[0, 1\)"):
        Split(torch.zeros(2), torch.zeros(2)).held_out(fraction, 0)


def test_the_checksum_is_that_of_the_contents():
    x, y = torch.arange(12.0).reshape(4, 3), torch.tensor([0, 1, 0, 1])

    def made(x=x, y=y, classes=("a", "b"), name="n"):
        return Dataset(name, Split(x, y), Split(x[:1], y[:1]), classes, "source")

    plain = made().checksum()
    assert len(plain) == 16
    assert made(x.clone(), name="other").checksum() == plain == made().scaled("standardise").checksum()
    other = x.clone()
    other[3, 2] += 1
    different = [made(other), made(x.double()), made(x.reshape(4, 3, 1)), made(y=1 - y), made(classes=("a", "c"))]
    assert len({plain, *(one.checksum() for one in different)}) == 6


def test_inputs_that_do_not_fit_a_device_go_there_row_by_row(monkeypatch):
    split = Split(torch.arange(24, dtype=torch.uint8).view(6, 4), torch.arange(6))
    whole = split.to(torch.device("cpu"))
    monkeypatch.setattr("neuronal.data.dataset._fits", lambda size, device: False)
    apart = split.to(torch.device("meta"))
    assert apart.stored is split.stored
    assert apart.rows(slice(2)).stored.device.type == apart.answers.device.type == "meta"
    apart = split.to(torch.device("cpu"))
    for index in (torch.tensor([4, 1]), slice(1, 3), torch.tensor([True, False] * 3)):
        assert apart.rows(index).x.equal(whole.rows(index).x)
        assert apart.rows(index).y.equal(whole.rows(index).y)
