"""The real sets, where they are: NEURONAL_DATA names the folder."""

import os
import time

import pytest

from neuronal.core.folders import data_root
from neuronal.data.arrays import Arrays
from neuronal.data.cache import array_checksum
from neuronal.data.catalogue import DATASETS, load
from neuronal.data.errors import MissingData


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory):
    # The workers of pytest-xdist share one, so that each set is decoded once.
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    return tmp_path_factory.getbasetemp().parent / "arrays" if is_worker else tmp_path_factory.mktemp("arrays")


@pytest.fixture
def real(shared_cache, monkeypatch):
    monkeypatch.setenv("NEURONAL_CACHE", str(shared_cache))

    def loaded(name):
        try:
            return load(name)
        except MissingData:
            pytest.skip(f"{name} is not at {data_root() / DATASETS[name].place}; set NEURONAL_DATA")

    return loaded


@pytest.mark.parametrize("name", [name for name, entry in DATASETS.items() if entry.place])
def test_counts_shapes_and_checksums_are_the_published_ones(real, name):
    data, entry = real(name), DATASETS[name]
    assert (len(data.train), len(data.test)) == (entry.num_train, entry.num_test)
    assert (data.shape, len(data.classes), data.task) == (entry.shape, entry.num_classes, entry.task)
    if entry.sha256:
        train, test = data.train, data.test
        arrays = (train.stored.numpy(), train.y.numpy(), test.stored.numpy(), test.y.numpy())
        assert array_checksum(Arrays(*arrays, data.classes)) == entry.sha256


def test_sixty_thousand_images_load_from_the_cache_in_under_a_second(real):
    real("fashion_mnist")
    started = time.perf_counter()
    real("fashion_mnist")
    assert time.perf_counter() - started < 1


def test_banana_has_its_two_classes(real):
    data = real("banana")
    assert (data.train.y.bincount() + data.test.y.bincount()).tolist() == [2924, 2376]
