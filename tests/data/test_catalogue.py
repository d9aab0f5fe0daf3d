import os
import subprocess
import sys

import pytest

from neuronal.core.folders import cache_root, data_root
from neuronal.data.catalogue import DATASETS, about, label_of, load, summary, verify
from neuronal.data.errors import MissingData
from neuronal.names import UnknownName
from tests.data.made_up import write_folders, write_set


def test_the_root_is_the_argument_then_the_variable_then_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NEURONAL_DATA", str(tmp_path / "variable"))
    assert data_root(tmp_path) == tmp_path
    assert data_root() == tmp_path / "variable"
    monkeypatch.delenv("NEURONAL_DATA")
    monkeypatch.delenv("NEURONAL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert (data_root(), cache_root()) == (tmp_path / "neuronal/data", tmp_path / "neuronal/arrays")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_root() == tmp_path / ".cache/neuronal/data"


def test_the_root_handed_in_is_read(tmp_path):
    write_set(tmp_path, num_train=3)
    assert len(load("mnist", tmp_path).train) == 3
    assert len(load("mnist", str(tmp_path)).train) == 3


@pytest.mark.parametrize("name", [name for name, entry in DATASETS.items() if not entry.make])
def test_a_missing_set_says_where_it_was_looked_for_and_how_to_get_it(root, name):
    with pytest.raises(MissingData) as raised:
        load(name)
    said = str(raised.value)
    assert "\n" not in said
    assert str(root / DATASETS[name].place) in said
    by_hand = ("Put the table there", "Put its parquet files there")
    assert any(words in said for words in ([f"neuronal data fetch {name}"] if DATASETS[name].hub else by_hand))


def test_half_a_set_is_missing_too(root):
    write_set(root)
    (root / "mnist/test-00000-of-00001.parquet").unlink()
    with pytest.raises(MissingData, match=r"there is no .*/mnist/test-\*\.parquet"):
        load("mnist")


def test_a_path_is_a_path_and_a_name_is_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_folders(tmp_path / "digits")
    assert load("digits").img_size == 8
    assert load("./digits").img_size == 6
    (tmp_path / "digits").rename(tmp_path / "pets")
    assert load("pets").img_size == 6
    assert load("pets/").name == "pets"
    assert [label_of(path) for path in ("x/table.csv", "/")] == ["table", "data"]
    with pytest.raises(UnknownName):
        load("cats")
    with pytest.raises(UnknownName):
        load("")
    with pytest.raises(MissingData, match=r"no\.csv: no such file or folder"):
        load("no.csv")


@pytest.mark.parametrize("name", [name for name, entry in DATASETS.items() if entry.make])
def test_the_table_is_right_about_the_sets_that_need_no_files(name):
    assert [finding for finding in verify(name) if finding.is_right is False] == []
    assert load(name).task == DATASETS[name].task
    assert about(name)["where"] == "built in"


def test_the_summary_reads_nothing_and_says_where_sets_are(root, monkeypatch):
    write_set(root)
    monkeypatch.setattr("neuronal.data.parquet.decode", lambda *_: pytest.fail("decoded"))
    rows = {row["data"]: row for row in summary()}
    sizes = {"shape": "1x28x28", "train": 60000, "test": 10000, "classes": 10}
    assert rows["mnist"] == {"data": "mnist", **sizes, "where": str(root / "mnist")}
    assert rows["svhn"]["where"] == "not here, can be fetched"
    assert rows["wine"]["where"] == "not here"


def test_about_a_set_that_is_there_and_one_that_is_not(root, tmp_path):
    write_set(root)
    found = about("mnist")
    assert (found["shape"], found["train"], found["test"]) == ("1x28x28", 12, 5)
    assert (found["task"], found["classes"]) == ("classification", list("0123456789"))
    assert found["where"] == str(root / "mnist")
    wrong = [one.text for one in verify("mnist") if one.is_right is False]
    assert wrong[:2] == ["training examples: 12, expected 60000", "test examples: 5, expected 10000"]
    absent = about("cifar100")
    assert (absent["train"], absent["classes"]) == (50000, 100)
    assert "neuronal data fetch cifar100" in absent["where"]
    write_folders(tmp_path / "pets")
    assert about(str(tmp_path / "pets"))["classes"] == ["cat", "dog"]
    assert all(one.is_right is not False for one in verify(str(tmp_path / "pets")))


def test_the_room_imports_without_the_lab_and_reading_says_what_is_missing(root):
    write_set(root)
    code = (
        "import sys\n"
        "for name in ('pyarrow', 'PIL', 'huggingface_hub'): sys.modules[name] = None\n"
        "from neuronal.data import load\n"
        "print(len(load('digits').train), len(load('arrows').train))\n"
        "try: load('mnist')\n"
        "except ModuleNotFoundError as wrong: print(wrong)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ)
    assert done.stdout == "1297 1000\npyarrow is not installed: pip install 'neuronal[lab]'.\n"
