"""Patterns against hooks on the modules, and the law that a pattern determines the affine map."""

import pytest
import torch
from torch import nn

from neuronal.geometry import pattern
from neuronal.geometry.affine import affine_map
from neuronal.geometry.pattern import Patterns, activation_pattern, group_by_pattern
from tests.certify.networks import TwoPools
from tests.geometry.networks import NAMES, network


def test_signs_are_those_of_the_relus():
    model, shape = network("mlp")
    x = torch.randn(7, *shape, dtype=torch.float64)
    seen = [model[:2](x) > 0, model[:4](x) > 0]
    found = activation_pattern(model, x)
    assert [bend.path for bend in found.bends] == ["1", "3"]
    assert [bend.kind for bend in found.bends] == ["sign", "sign"]
    assert all(torch.equal(a, b) for a, b in zip(found.unpacked(), seen, strict=True))
    assert found.bits.shape == (7, 2)
    for layer, place in ((nn.LeakyReLU(), 0), (nn.PReLU(), 0), (nn.Hardtanh(), -1)):
        assert torch.equal(activation_pattern(layer, x).unpacked()[0], x > place)


def test_pool_winners_are_those_of_the_pool():
    pool = nn.MaxPool1d(2)
    x = torch.randn(9, 1, 6)
    found = activation_pattern(pool, x)
    assert [bend.kind for bend in found.bends] == ["winner"]
    assert torch.equal(found.unpacked()[0].view(9, 1, 3), x[..., ::2] > x[..., 1::2])


def test_at_exactly_zero_a_unit_is_off_and_the_second_of_two_equals_wins():
    model = nn.Sequential(nn.ReLU(), nn.MaxPool1d(2))
    signs, winners = activation_pattern(model, torch.tensor([[[0.0, -0.0, 1.0, 1.0]]])).unpacked()
    assert signs.flatten().tolist() == [False, False, True, True]
    assert winners.flatten().tolist() == [False, False]


@pytest.mark.parametrize("name", NAMES)
def test_equal_patterns_equal_affine_maps(name):
    model, shape = network(name)
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(30, *shape, generator=generator, dtype=torch.float64)
    x = torch.cat([x, x + 1e-7 * torch.randn(x.shape, generator=generator, dtype=torch.float64)])
    groups = group_by_pattern(model, x)
    maps = affine_map(model, x)
    assert sum(len(group) > 1 for group in groups) > 10
    for group in groups:
        # A matrix product may round each row of a batch in its own way.
        assert (maps.weight[group] - maps.weight[group[0]]).abs().max() < 1e-14
        assert (maps.bias[group] - maps.bias[group[0]]).abs().max() < 1e-14


def test_relu_signs_alone_do_not_determine_the_map_where_pools_are():
    model, x = TwoPools(), torch.tensor([[1, 0.01], [0.01, 1]], dtype=torch.float64)
    assert (x > 0).all()
    assert model(x).argmax(1).tolist() == [0, 0]
    assert model(x.mean(0, keepdim=True)).argmax(1).tolist() == [1]
    assert [len(group) for group in group_by_pattern(model, x)] == [1, 1]


@pytest.mark.parametrize("name", ["mlp", "pools", "leaky"])
def test_groups_are_those_of_comparing_each_with_each(name):
    model, shape = network(name)
    x = 0.1 * torch.randn(200, *shape, dtype=torch.float64)
    x[150:] = x[:50]
    rows = torch.cat([part.flatten(1) for part in activation_pattern(model, x).unpacked()], 1)
    groups = {}
    for i, row in enumerate(rows.tolist()):
        groups.setdefault(tuple(row), []).append(i)
    assert [group.tolist() for group in group_by_pattern(model, x)] == list(groups.values())


def test_equal_hashes_of_different_patterns_do_no_harm(monkeypatch):
    model, shape = network("mlp")
    x = torch.randn(40, *shape, dtype=torch.float64)
    want = [group.tolist() for group in group_by_pattern(model, x)]
    assert len(want) > 1
    monkeypatch.setattr(pattern, "_hashes", lambda bits: pattern.np.zeros(len(bits), pattern.np.int64))
    assert [group.tolist() for group in group_by_pattern(model, x)] == want


def test_a_loader_gives_what_a_tensor_gives():
    model, shape = network("cnn")
    x = torch.randn(50, *shape, dtype=torch.float64)
    x[40:] = x[:10]
    want = [group.tolist() for group in group_by_pattern(model, x)]
    assert [len(group) for group in want[:10]] == [2] * 10
    labels = torch.zeros(50)
    loader = list(zip(x.split(7), labels.split(7), strict=True))
    assert [group.tolist() for group in group_by_pattern(model, loader)] == want
    assert [group.tolist() for group in group_by_pattern(model, iter(x.split(7)))] == want
    assert group_by_pattern(model, []) == []
    with pytest.raises(TypeError, match="str"):
        group_by_pattern(model, ["image.png"])


def test_batches_do_not_change_a_pattern(monkeypatch):
    model, shape = network("residual")
    x = torch.randn(20, *shape, dtype=torch.float64)
    want = activation_pattern(model, x)
    monkeypatch.setattr(pattern, "BATCH", 1)
    found = activation_pattern(model, x)
    assert torch.equal(want.bits, found.bits)
    assert torch.equal(want.hashes, found.hashes)


def test_a_network_that_never_bends_has_one_pattern():
    found = activation_pattern(nn.Linear(3, 2), torch.randn(4, 3))
    assert isinstance(found, Patterns)
    assert len(found) == 4
    assert found.bits.shape == (4, 0)
    assert [group.tolist() for group in found.groups()] == [[0, 1, 2, 3]]
