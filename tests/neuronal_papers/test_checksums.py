"""Result files have a checksum: what was changed since is told, and not printed as a finding."""

import json
import warnings

import pytest

from neuronal.cli.app import main
from neuronal.core.files import plain_json
from neuronal_papers.reproduce import read_result, reproduce, with_checksum
from tests.conftest import ROOT
from tests.neuronal_papers.toy import AREAS
from tools import seal_results


@pytest.fixture
def file(tmp_path, monkeypatch, toys):
    monkeypatch.chdir(tmp_path)
    return reproduce(AREAS, "small", runs=tmp_path / "runs", results=tmp_path / "results")


CHANGES = {
    "a digit": (lambda text: text.replace('"area": 4', '"area": 5', 1), "is damaged: its checksum"),
    "a byte less": (lambda text: text.replace("Areas", "Area", 1), "is damaged: its checksum"),
    "half": (lambda text: text[: len(text) // 2], "is not a result of neuronal reproduce"),
    "deep": (lambda text: "[" * 200_000, "is not a result of neuronal reproduce"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("words", ["findings toy", "report results/toy"])
def test_a_changed_result_is_one_line_and_no_page(file, capsys, change, words):
    damage, line = CHANGES[change]
    changed = damage(file.read_text())
    assert changed != file.read_text()
    file.write_text(changed)
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert line in err


def test_a_result_without_a_checksum_is_read_with_a_warning(file):
    result = read_result(file)
    assert with_checksum(result) == json.loads(file.read_text())
    file.write_text(plain_json(result) + "\n")
    with pytest.warns(UserWarning, match="has no checksum"):
        assert read_result(file) == result


def test_the_tool_adds_a_line_and_leaves_the_rest(file, capsys):
    right = file.read_text()
    file.write_text(plain_json(read_result(file)) + "\n")
    other = file.with_name("other.json")
    other.write_text("{}")
    assert seal_results.main([], file.parent) == seal_results.main([], file.parent) == 0
    assert (file.read_text(), other.read_text()) == (right, "{}")
    file.write_text(right.replace('"area": 4', '"area": 5', 1))
    assert seal_results.main([], file.parent) == 1
    assert "does not fit" in capsys.readouterr().out
    assert seal_results.main(["--again"], file.parent) == 0
    assert read_result(file)["result"]["rows"] != json.loads(right)["result"]["rows"]


@pytest.mark.parametrize("file", sorted((ROOT / "results").rglob("*.small.json")), ids=lambda file: file.stem)
def test_every_result_of_ours_has_its_checksum(file):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_result(file)
