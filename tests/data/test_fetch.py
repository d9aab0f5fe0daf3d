"""Fetching, with a hub of our own in place of the real one."""

import sys
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace

import pytest

from neuronal.data.cache import array_checksum, contents
from neuronal.data.catalogue import DATASETS, fetch, load, verify
from neuronal.data.files import _alone
from neuronal.data.parquet import read_parquet
from tests.data.made_up import pixels, write_parquet, write_set


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A function to answer ``snapshot_download`` with."""

    def put(answer):
        monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=answer))

    return put


@pytest.fixture
def there(tmp_path, hub, monkeypatch):
    """A hub with a small mnist, and the table of datasets that knows it; its folder there, and what was asked for."""
    write_set(tmp_path / "hub", "mnist", num_train=4)
    test, train = sorted((tmp_path / "hub/mnist").iterdir())
    known = read_parquet([train], [test])
    entry = replace(DATASETS["mnist"], num_train=4, num_test=5, sha256=array_checksum(known), contents=contents(known))
    monkeypatch.setitem(DATASETS, "mnist", entry)
    asked = []

    def download(repository, *, repo_type, allow_patterns, local_dir):
        asked.append((repository, repo_type))
        for file in (tmp_path / "hub").rglob("*.parquet"):
            name = str(file.relative_to(tmp_path / "hub"))
            if any(fnmatch(name, pattern) for pattern in allow_patterns):
                (Path(local_dir) / name).parent.mkdir(exist_ok=True)
                (Path(local_dir) / name).write_bytes(file.read_bytes())

    hub(download)
    return tmp_path / "hub/mnist", asked


def test_files_end_up_where_load_looks_for_them(root, there):
    folder, asked = there
    (folder / "extra-00000-of-00001.parquet").write_text("not asked for")
    files = fetch("mnist")
    assert asked == [("ylecun/mnist", "dataset")]
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
    with pytest.raises(ModuleNotFoundError, match="huggingface_hub is not installed: pip install"):
        fetch("cifar10")


def test_a_hub_without_the_files(root, hub):
    hub(lambda *_, **__: None)
    with pytest.raises(ValueError, match=r"has no data/train-\*\.parquet or data/validation-\*\.parquet"):
        fetch("imagenet32")


@pytest.mark.parametrize("name", [name for name, entry in DATASETS.items() if not entry.hub])
def test_sets_that_are_not_on_the_hub(root, hub, name):
    hub(lambda *_, **__: pytest.fail("asked the hub"))
    with pytest.raises(ValueError, match=r"needs no files|put its (table at|parquet files into)"):
        fetch(name)


def garbage(folder):
    (folder / "train-00000-of-00001.parquet").write_bytes(b"garbage" * 9)


def another_label(folder):
    write_parquet(folder / "train-00000-of-00001.parquet", pixels(4), [5, 1, 2, 3])


WRONG = {
    "garbage": (garbage, "cannot be read as parquet"),
    "another label": (another_label, "checksum: .*, not that of the copy tested with"),
    "fewer rows": (lambda folder: write_set(folder.parent, num_train=3), "training examples: 3, expected 4"),
    "half": (lambda folder: (folder / "test-00000-of-00001.parquet").unlink(), r"has no mnist/test-\*\.parquet"),
}


@pytest.mark.parametrize(
    ("what", "is_known"), [*((what, True) for what in WRONG), ("garbage", False), ("fewer rows", False)]
)
def test_what_is_not_the_set_replaces_nothing(root, there, monkeypatch, what, is_known):
    fetch("mnist")
    before = {file: file.read_bytes() for file in (root / "mnist").iterdir()}
    if not is_known:
        # Of sets without a checksum the rows are counted.
        monkeypatch.setitem(DATASETS, "mnist", replace(DATASETS["mnist"], sha256=""))
    damage, reason = WRONG[what]
    damage(there[0])
    reason = "8 rows, expected 9" if what == "fewer rows" and not is_known else reason
    with pytest.raises(ValueError, match=reason) as raised:
        fetch("mnist")
    assert "\n" not in str(raised.value)
    assert {file: file.read_bytes() for file in (root / "mnist").iterdir()} == before


def test_verify_tells_another_order_from_other_contents(root, there):
    fetch("mnist")
    assert [finding.is_right for finding in verify("mnist")].count(True) == 7
    file = root / "mnist/train-00000-of-00001.parquet"
    write_parquet(file, pixels(4)[[1, 0, 2, 3]], [1, 0, 2, 3])
    assert (verify("mnist")[-1].is_right, verify("mnist")[-1].text.endswith("in another order")) == (None, True)
    another_label(root / "mnist")
    assert verify("mnist")[-1].is_right is False


def test_what_a_killed_fetch_left_is_removed_and_two_do_not_meet(root, there):
    (root / "mnist/.fetch-killed").mkdir(parents=True)
    (root / "mnist/.fetch-killed/29MB").write_text("")
    fetch("mnist")
    assert not list((root / "mnist").glob(".fetch-*"))
    with _alone(root / "mnist"), pytest.raises(ValueError, match="another process is fetching"):
        fetch("mnist")
