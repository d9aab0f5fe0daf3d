"""Fetching, with a hub of our own in place of the real one."""

import sys
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import pytest

from neuronal.data.catalogue import DATASETS, fetch, load
from tests.data.made_up import write_set


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A function to answer ``snapshot_download`` with."""

    def put(answer):
        monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=answer))

    return put


def test_files_end_up_where_load_looks_for_them(root, tmp_path, hub):
    write_set(tmp_path / "hub", "mnist", num_train=4)
    (tmp_path / "hub/mnist/extra-00000-of-00001.parquet").write_text("not asked for")

    def download(repository, *, repo_type, allow_patterns, local_dir):
        assert (repository, repo_type) == ("ylecun/mnist", "dataset")
        for file in (tmp_path / "hub").rglob("*.parquet"):
            name = str(file.relative_to(tmp_path / "hub"))
            if any(fnmatch(name, pattern) for pattern in allow_patterns):
                (Path(local_dir) / name).parent.mkdir(exist_ok=True)
                (Path(local_dir) / name).write_bytes(file.read_bytes())

    hub(download)
    files = fetch("mnist")
    assert files == sorted((root / "mnist").iterdir())
    assert [file.name[:5] for file in files] == ["test-", "train"]
    assert [entry.name for entry in root.iterdir()] == ["mnist"]
    assert len(load("mnist").train) == 4


def test_without_a_network_one_line_says_so_and_nothing_is_left(root, hub):
    def download(*_, **__):
        raise ConnectionError("Name or service not known\nTry again." * 50)

    hub(download)
    with pytest.raises(ValueError, match=r"cannot fetch 'mnist' from .*/ylecun/mnist: is there a network\?") as raised:
        fetch("mnist")
    assert "\n" not in str(raised.value)
    assert str(root / "mnist") in str(raised.value)
    assert list((root / "mnist").iterdir()) == []
    with pytest.raises(ValueError, match=r"cannot write to /proc/nowhere/mnist .* with NEURONAL_DATA"):
        fetch("mnist", "/proc/nowhere")


def test_without_the_package_one_line_says_what_to_install(root, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match="needs huggingface_hub: pip install"):
        fetch("cifar10")


def test_a_hub_without_the_files(root, hub):
    hub(lambda *_, **__: None)
    with pytest.raises(ValueError, match=r"has no data/train-\*\.parquet or data/validation-\*\.parquet"):
        fetch("imagenet32")


@pytest.mark.parametrize("name", [name for name, entry in DATASETS.items() if not entry.hub])
def test_sets_that_are_not_on_the_hub(root, hub, name):
    hub(lambda *_, **__: pytest.fail("asked the hub"))
    with pytest.raises(ValueError, match=r"needs no files|put its table at"):
        fetch(name)
