"""Data that change under an unchanged path: what was made of the old ones is not taken for the new ones'."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from neuronal.cli import app as cli
from neuronal.data.catalogue import load
from neuronal.experiments.cells import Study
from neuronal.experiments.compare import estimates
from neuronal.experiments.record import Record
from neuronal.experiments.sweep import sweep
from neuronal.experiments.work import Work
from tests.experiments.listener import Listener


def table(path, shift=0.0):
    path.write_text("a,b,class\n" + "".join(f"{n + shift},{-n},{n % 2}\n" for n in range(40)))


def images(path, value=0):
    for split in ("train", "test"):
        for label in ("cat", "dog"):
            (path / split / label).mkdir(parents=True, exist_ok=True)
            for n in range(6):
                pixels = np.full((8, 8), 20 * n + (label == "dog") + value, dtype=np.uint8)
                Image.fromarray(pixels).save(path / split / label / f"{n}.png")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NEURONAL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def study(quick, tmp_path):
    return Study(replace(quick, data=str(tmp_path / "own"), seeds=(0,), epochs=1, probes=()), ("standard",))


def trained(study, folder):
    listener = Listener()
    (record,) = sweep(study, folder, watch=listener)
    return record, len(listener.trained), [(file.suffix, reason) for file, reason in listener.aside]


@pytest.mark.parametrize("make", [table, images])
def test_changed_data_are_noticed_and_unchanged_ones_are_not(study, tmp_path, make):
    suffix = ".csv" if make is table else ""
    place = tmp_path / f"own{suffix}"
    study = replace(study, recipe=replace(study.recipe, data=str(place)))
    make(place)
    first, *told = trained(study, tmp_path / "run")
    assert told == [1, []]
    # Written again with the same contents, at another time: nothing has changed.
    make(place)
    assert trained(study, tmp_path / "run") == (first, 0, [])
    make(place, 1)
    changed, *told = trained(study, tmp_path / "run")
    assert told == [1, [(".outdated1", f"the data at {place} have changed since")]]
    assert changed.data != first.data
    assert changed.epochs[0]["loss"] != first.epochs[0]["loss"]
    with pytest.raises(ValueError, match=r"needs records of the same data, but .*own.* changed between"):
        estimates([first, replace(changed, seed=1)])
    # Records of before there were checksums say nothing of their data.
    old = Record.from_json({name: value for name, value in first.to_json().items() if name != "data"})
    assert old == replace(first, data="")
    assert estimates([old, replace(changed, seed=1)])


def test_a_report_says_that_the_data_have_changed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "own.csv")
    words = "compare --data own.csv --model mlp1 --epochs 1 --neurons standard --seeds 0"
    assert cli.main(words.split()) == 0
    assert cli.main(["report", "runs/own-mlp1"]) == 0
    assert "changed" not in capsys.readouterr().out
    table(tmp_path / "own.csv", 0.5)
    assert cli.main(["report", "runs/own-mlp1"]) == 0
    said = "The data at own.csv have changed since"
    assert said in capsys.readouterr().out
    assert said in (tmp_path / "runs/own-mlp1/report.html").read_text()
    assert cli.main(words.split()) == 0
    assert "the data at own.csv have changed since" in " ".join(capsys.readouterr().err.split())


def accuracy_of(recipe, model):
    test = load(recipe.data).scaled(recipe.scaling).test
    return (model(test.x).argmax(1) == test.y).float().mean().item()


@pytest.mark.parametrize("records_first", [True, False], ids=["records first", "network at once"])
def test_a_network_is_that_of_its_record_and_of_the_data_as_they_are(quick, tmp_path, records_first):
    """Records alone are trained again without weights; what lies there is not taken for theirs."""
    place, folder = tmp_path / "own.csv", tmp_path / "runs"
    recipe = replace(quick, data=str(place), seeds=(0,), epochs=3, probes=(), lr=0.05)
    table(place)
    before, _ = Work(folder).network(recipe, 0)
    place.write_text("a,b,class\n" + "".join(f"{n},{(3 * n) % 7},{(n // 3) % 2}\n" for n in range(40)))
    if records_first:
        Work(folder).records([recipe])
    said = []
    record, model = Work(folder, say=said.append).network(recipe, 0)
    assert before.data != record.data == load(recipe.data).checksum()
    assert accuracy_of(recipe, model) == pytest.approx(record.metrics["accuracy"])
    assert len(list((folder / "cells").glob("*.outdated*"))) == 1 + records_first
    assert [line for line in said if "have changed since" in line] == ([] if records_first else said[:1])
    # And once more there is nothing to train.
    said.clear()
    Work(folder, say=said.append).network(recipe, 0)
    assert said == []
