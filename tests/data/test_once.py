"""A process reads a dataset once, until its files or its tensors change."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from neuronal.data import catalogue, dataset
from neuronal.data.catalogue import load
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.sweep import Study, prepare, sweep
from tests.data.made_up import write_set


@pytest.fixture
def reads(monkeypatch):
    """Names of the sets that were read."""
    names, read = [], catalogue._read
    monkeypatch.setattr(catalogue, "_read", lambda name, found: names.append(name) or read(name, found))
    return names


@pytest.fixture
def hashes(monkeypatch):
    """Names of the sets whose checksum was computed."""
    names, compute = [], dataset.Dataset._checksum
    monkeypatch.setattr(dataset.Dataset, "_checksum", lambda data: names.append(data.name) or compute(data))
    return names


def test_a_comparison_reads_and_hashes_its_data_once(root, tmp_path, reads, hashes):
    write_set(root, num_train=40, num_test=10)
    recipe = Recipe("once", data="mnist", model="fcn", widths=(4,), epochs=1, batch_size=20, seeds=(0, 1))
    study = Study(recipe, ("standard", "zero_bias"))
    prepare(study, tmp_path / "run")
    assert len(sweep(study, tmp_path / "run")) == 4
    assert len(sweep(study, tmp_path / "run")) == 4
    assert (reads, hashes) == (["mnist"], ["mnist"])


def test_threads_get_one_dataset(root, reads):
    write_set(root, num_train=100)
    with ThreadPoolExecutor(4) as threads:
        loaded = list(threads.map(load, ["mnist"] * 8))
    assert all(data is loaded[0] for data in loaded)
    assert reads == ["mnist"]


def test_a_changed_file_is_read_again(root, reads):
    write_set(root, num_train=12)
    before = load("mnist").checksum()
    write_set(root, num_train=13)
    assert load("mnist").checksum() != before
    assert reads == ["mnist", "mnist"]


@pytest.mark.parametrize("name", ["digits", "mnist"])
def test_tensors_that_were_written_to_are_not_handed_out_again(root, name):
    write_set(root)
    data = load(name)
    before, expected = data.checksum(), data.test.stored.clone()
    data.test.stored[0].zero_()
    assert data.checksum() != before
    assert load(name).test.stored.equal(expected)
    assert load(name).checksum() == before
    assert load(name) is load(name)


def test_data_loaded_in_inference_mode_can_be_trained_on(root):
    write_set(root)
    with torch.inference_mode():
        load("mnist")
    weight = torch.ones(28, 28, requires_grad=True)
    (load("mnist").train.x * weight).sum().backward()
    assert weight.grad.equal(load("mnist").train.x.sum((0, 1)))


def test_data_follow_the_default_type():
    assert load("moons").train.x.dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert load("moons").train.x.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_no_more_is_held_than_there_is_room_for_but_always_the_last(root, reads, monkeypatch):
    for name in ("mnist", "fashion_mnist", "cifar10"):
        write_set(root, name, shape=(3, 32, 32) if name == "cifar10" else (1, 28, 28))
    monkeypatch.setattr(catalogue, "ROOM", load("mnist").nbytes * 2)
    for name in ("mnist", "fashion_mnist", "mnist", "cifar10", "mnist"):
        load(name)
    # The fifth is read again: the fourth alone is larger than the room.
    assert reads == ["mnist", "fashion_mnist", "cifar10", "mnist"]
    assert len(catalogue._LOADED) == 1
