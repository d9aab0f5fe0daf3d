"""``neuronal data``, and comparing neurons on one's own data."""

from __future__ import annotations

import json

import pytest

from neuronal.cli import app as cli
from tests.data.made_up import write_folders, write_set


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NEURONAL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("NEURONAL_CACHE", str(tmp_path / "cache"))


def call(capsys, *words):
    code = cli.main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_list_is_what_plain_data_prints(capsys):
    assert call(capsys, "data", "list") == call(capsys, "data")
    code, out, _ = call(capsys, "data", "list", "--json")
    assert code == 0
    assert {row["data"] for row in json.loads(out)} >= {"digits", "mnist", "arrows", "wine"}


def test_info(capsys, tmp_path):
    code, out, _ = call(capsys, "data", "info", "digits")
    assert code == 0
    assert [line.split(":")[0] for line in out.splitlines()] == [
        "data",
        "task",
        "shape",
        "train",
        "test",
        "classes",
        "source",
        "where",
    ]
    assert "1,297" in out
    write_set(tmp_path / "data")
    assert json.loads(call(capsys, "data", "info", "mnist", "--json")[1])["train"] == 12
    assert "neuronal data fetch svhn" in call(capsys, "data", "info", "svhn")[1]
    assert call(capsys, "data", "info", "levy")[0] == 0


def test_verify(capsys, tmp_path):
    code, out, err = call(capsys, "data", "verify", "arrows")
    assert (code, err) == (0, "")
    assert out.count("right") == 4
    write_set(tmp_path / "data")
    code, out, err = call(capsys, "data", "verify", "mnist")
    assert code == 1
    assert out.count("WRONG") == 2
    assert err == "neuronal: mnist is not what it should be: 2 of 7 checks failed.\n"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["info", "mnst"], "Unknown dataset 'mnst'. Did you mean 'mnist'?"),
        (["lst"], "Unknown command 'lst'. Did you mean 'list'? There are: fetch, info, list, verify."),
        (["verify", "mnist"], "Get it with: neuronal data fetch mnist"),
        (["fetch", "wine"], "cannot be fetched: put its table at"),
        (["fetch", "digits"], "needs no files"),
        (["info", "./nowhere"], "nowhere: no such file or folder."),
    ],
)
def test_a_mistake_is_one_line(capsys, words, line):
    code, out, err = call(capsys, "data", *words)
    assert (code, out) == (2, "")
    assert line in err
    assert err.count("\n") == 1


QUICK = ["--model", "fcn", "--widths", "8", "--epochs", "1", "--neurons", "zero_bias", "--seeds", "0"]


def test_compare_on_a_folder_of_images(capsys, tmp_path):
    write_folders(tmp_path / "my data/pets", per_class=20)
    for path in ("my data/pets", str(tmp_path / "my data/pets")):
        code, out, err = call(capsys, "compare", "--data", path, *QUICK)
        assert code == 0, err
        assert "fcn on pets, 1 seed" in out
        assert out.rstrip().endswith("report: runs/pets-fcn/report.html")
    assert "cat" in (tmp_path / "runs/pets-fcn/report.html").read_text()


def test_compare_on_a_table_and_on_points(capsys, tmp_path):
    (tmp_path / "mine.csv").write_text("a,b,class\n" + "".join(f"{n},{-n},{n % 2}\n" for n in range(40)))
    assert call(capsys, "compare", "--data", "mine.csv", *QUICK)[0] == 0
    code, out, _ = call(capsys, "compare", "--data", "arrows", *QUICK)
    assert code == 0
    assert "fcn on arrows, 1 seed" in out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["arrows", "--model", "cnn"], "cnn reads images, arrows is a table. Use fcn or mlp1."),
        (["levy", "--model", "cnn"], "cnn reads images, levy is a table. Use fcn or mlp1."),
        (["mnist"], "Get it with: neuronal data fetch mnist"),
    ],
)
def test_compare_refuses_what_it_cannot_train(capsys, words, line):
    code, _, err = call(capsys, "compare", "--data", *words)
    assert code == 2
    assert line in err
    assert err.count("\n") == 1


def test_a_warning_is_one_line_too(capsys, tmp_path, monkeypatch, recwarn):
    import warnings

    warnings.simplefilter("default")
    write_set(tmp_path / "data")
    monkeypatch.setenv("NEURONAL_CACHE", "/proc/nowhere")
    code, _, err = call(capsys, "data", "info", "mnist")
    assert code == 0
    assert err.startswith("neuronal: /proc/nowhere: decoded mnist cannot be kept there")
    assert err.count("\n") == 1
