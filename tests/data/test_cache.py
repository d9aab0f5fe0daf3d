import os
import subprocess
import sys
import warnings

import pytest
import torch

from neuronal.data import cache as cache_module
from neuronal.data.cache import kept
from neuronal.data.catalogue import load, locate
from tests.damage import cut, empty, flip_a_bit, no_space
from tests.data.made_up import write_set


@pytest.fixture
def only_from_cache(monkeypatch, new_process):
    """Call it, and another process begins, in which reading images fails the test."""

    def start():
        new_process()
        monkeypatch.setattr("neuronal.data.parquet.decode", lambda *_: pytest.fail("decoded again"))

    return start


def entry(cache):
    (folder,) = cache.iterdir()
    return folder


def test_images_are_decoded_once_and_then_memory_mapped(root, cache, only_from_cache):
    write_set(root)
    first = load("mnist")
    only_from_cache()
    second = load("mnist")
    for one, other in ((first.train, second.train), (first.test, second.test)):
        assert one.stored.equal(other.stored)
        assert one.y.equal(other.y)
    assert second.classes == first.classes
    assert sorted(file.name for file in entry(cache).iterdir()) == [
        "seal.json",
        "test_x.npy",
        "test_y.npy",
        "train_x.npy",
        "train_y.npy",
    ]
    with open("/proc/self/maps") as maps:
        assert str(entry(cache) / "train_x.npy") in maps.read()


def test_writing_to_a_loaded_tensor_does_not_reach_the_cache(root, only_from_cache):
    write_set(root)
    data = load("mnist")
    before = data.train.stored.clone()
    data.train.stored.zero_()
    only_from_cache()
    assert load("mnist").train.stored.equal(before)


def test_a_changed_or_touched_source_is_read_again(root, monkeypatch):
    write_set(root)
    load("mnist")
    write_set(root, num_train=7)
    assert len(load("mnist").train) == 7
    file = root / "mnist/test-00000-of-00001.parquet"
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1))
    monkeypatch.setattr("neuronal.data.parquet.decode", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        load("mnist")


DAMAGES = {
    **{f"a bit of {part}": (f"{part}.npy", flip_a_bit) for part in ("train_x", "train_y", "test_x", "test_y")},
    "cut": ("train_x.npy", cut),
    "empty": ("train_y.npy", empty),
    "gone": ("test_x.npy", lambda file: file.unlink()),
    "foreign": ("test_y.npy", lambda file: file.write_text("hello")),
    "no seal": ("seal.json", lambda file: file.write_text("{}")),
    "half a seal": ("seal.json", lambda file: file.write_text(file.read_text()[:20])),
    "list for a seal": ("seal.json", lambda file: file.write_text("[]")),
    "other classes": ("seal.json", lambda file: file.write_text(file.read_text().replace('"3"', '"4"'))),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_entry_is_noticed_said_and_made_anew(root, cache, what, new_process):
    write_set(root)
    first = load("mnist")
    name, damage = DAMAGES[what]
    pixels = first.train.stored.clone()
    damage(entry(cache) / name)
    new_process()
    with pytest.warns(UserWarning, match=r"damaged \(.*\); made anew from its source") as said:
        again = load("mnist")
    assert len(said) == 1
    assert "\n" not in str(said[0].message)
    assert again.train.stored.equal(pixels)
    new_process()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load("mnist").classes == tuple("0123456789")


@pytest.mark.parametrize("place", ["file/below", "/proc/nowhere"])
def test_a_cache_that_cannot_be_written_is_said_and_done_without(root, tmp_path, monkeypatch, place):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NEURONAL_CACHE", str(tmp_path / place))
    train_x, *_ = write_set(root)
    with pytest.warns(UserWarning, match="decoded mnist cannot be kept there") as said:
        data = load("mnist")
    assert len(said) == 1
    assert data.train.stored.equal(torch.from_numpy(train_x))


def test_a_full_disk_leaves_nothing_behind(root, cache, monkeypatch):
    write_set(root)
    monkeypatch.setattr(cache_module.np, "save", no_space)
    with pytest.warns(UserWarning, match="No space left on device"):
        assert len(load("mnist").train) == 12
    assert list(cache.iterdir()) == []


def test_whoever_finishes_second_uses_the_entry_of_the_first(root, cache):
    write_set(root)
    found = locate("mnist")

    def read_while_another_does():
        kept("mnist", found.files, found.read)
        return found.read()

    arrays = kept("mnist", found.files, read_while_another_does)
    assert len(arrays.train_x) == 12
    assert [folder.name.startswith("mnist-") for folder in cache.iterdir()] == [True]


def test_processes_at_the_same_time_all_get_the_data(root, cache):
    write_set(root, num_train=200)
    code = "from neuronal.data import load; print(int(load('mnist').train.stored.sum()))"
    running = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    answers = {process.communicate(timeout=100)[0] for process in running}
    assert answers == {f"{int(load('mnist').train.stored.sum())}\n"}
    assert len(list(cache.iterdir())) == 1
