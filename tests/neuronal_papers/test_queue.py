"""Reproductions by the minute: what is finished is kept, moves to other folders, and makes the same result there."""

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep, time

import pytest

from neuronal.cli.app import main
from neuronal_papers.core import Setting
from neuronal_papers.pages import findings_page
from neuronal_papers.queue import Queue, kind_of
from neuronal_papers.reproduce import read_result, reproduce
from tests.conftest import ROOT
from tests.neuronal_papers.toy import ACCURACY, STANDARD

FOUR = replace(ACCURACY, scales={"smoke": ACCURACY.scales["smoke"], "paper": ACCURACY.scales["smoke"]})


def cells(results):
    return {file.name: json.loads(file.read_text())["values"] for file in results.glob("trials/cells/*.json")}


def numbers(record):
    return {name: record[name] for name in ("recipe", "seed", "metrics", "epochs", "data")}


def run(results, minutes=2.0, one=FOUR, **how):
    queue = Queue([one], "paper", results)
    report = queue.run(minutes, monotonic(), **how)
    return queue, report, queue.write_results(report.at_once, report.paces)


@pytest.fixture(scope="session")
def finished_once(tmp_path_factory):
    place = tmp_path_factory.mktemp("queue") / "results"
    _, report, _ = run(place, workers=2)
    assert len(report.finished) == 4
    return place


@pytest.fixture
def done(finished_once, tmp_path):
    """A folder of its own with all four trials and their result."""
    return Path(shutil.copytree(finished_once, tmp_path / "done"))


def test_it_makes_the_result_of_an_ordinary_run(done, tmp_path):
    file, queue = done / "toy/accuracy.paper.json", Queue([FOUR], "paper", done)
    assert queue.tasks() == []
    result, usual = (
        read_result(one) for one in (file, reproduce(FOUR, "paper", runs=tmp_path / "runs", results=tmp_path / "usual"))
    )
    assert result["result"] == usual["result"]
    assert result["recipes"] == usual["recipes"]
    assert (result["trials"], result["lacks"], "minutes_left" in result) == (4, [], False)
    assert result["environment"]["torch"] == usual["environment"]["torch"]


def test_trials_that_are_there_are_not_trained_again(done):
    before, first = cells(done), read_result(done / "toy/accuracy.paper.json")
    _, report, (file,) = run(done)
    assert report.finished == []
    assert cells(done) == before
    assert read_result(file)["result"] == first["result"]


def test_a_result_names_the_trials_it_lacks_and_the_page_shows_what_is_there(done, tmp_path, toys):
    file = next(done.glob("trials/cells/zero_bias-*.json"))
    seed = json.loads(file.read_text())["values"]["seed"]
    file.unlink()
    _, _, (file,) = run(done, minutes=0)
    result = read_result(file)
    assert result["lacks"] == [{"name": "net", "neuron": "zero_bias", "seeds": [seed]}]
    assert result["trials"] == 3
    assert [len(recipe["seeds"]) for recipe in result["recipes"]] == [2, 1]
    page, _ = findings_page("toy", done)
    assert f"Not measured yet (about 1 min on this machine): net (zero_bias), seeds {seed}." in page
    # What lacks nothing is shown instead.
    reproduce(ACCURACY, "small", runs=tmp_path / "runs", results=done)
    assert "Not measured yet" not in findings_page("toy", done)[0]


def test_minutes_that_are_left_are_estimated_by_trials_that_are_there(done):
    next(done.glob("trials/cells/zero_bias-*.json")).unlink()
    queue = Queue([FOUR], "paper", done)
    paces = queue.paces()
    assert set(paces) == {kind_of(recipe) for recipe in FOUR.scales["paper"].recipes}
    assert all(pace.epoch > 0 and pace.besides >= 0 for pace in paces.values())
    result = read_result(queue.write_results(2, paces)[0])
    zero_bias = FOUR.scales["paper"].recipes[1]
    assert result["minutes_left"] == pytest.approx(paces[kind_of(zero_bias)].seconds(1) / 60 / 2)


def test_without_a_finished_trial_there_is_no_result(tmp_path):
    _, _, files = run(tmp_path, minutes=0)
    assert files == []


def test_choices_are_made_when_their_trials_are_there(tmp_path):
    """Rates are tried first; what is chosen is trained in the same call."""
    setting = Setting((replace(STANDARD, seeds=(0,)),), {"rates": (1e-3, 1e-2), "tuning_seeds": (100,)})
    from neuronal_papers.farkas.errors import measure

    def with_classes(setting, work):
        return measure(replace(setting, options={"classes": 10, **setting.options}), work)

    one = replace(FOUR, scales={"paper": setting}, measure=with_classes)
    queue = Queue([one], "paper", tmp_path)
    assert len(queue.tasks()) == 2
    report = queue.run(2.0, monotonic())
    assert len(report.finished) == 3
    assert queue.tasks() == []


def test_the_archive_holds_what_is_new_and_completes_another_folder(done, tmp_path):
    there, since, queue = tmp_path / "there", time(), Queue([FOUR], "paper", done)
    file, *others = [done / "toy/accuracy.paper.json", *done.glob("trials/cells/*.json")]
    for path in (file, *others):
        os.utime(path, (since + 1, since + 1))
    os.utime(others[0], (since - 100, since - 100))
    assert queue.archive(tmp_path / "new.zip", since) == 4
    os.utime(others[0])
    assert queue.archive(tmp_path / "all.zip", since - 1) == 5
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        archive.extractall(there)
    _, report, (other,) = run(there)
    assert report.finished == []
    assert read_result(other)["result"] == read_result(file)["result"]


LONG = tuple(replace(recipe, epochs=20) for recipe in FOUR.scales["paper"].recipes)
LONG = replace(FOUR, scales={"paper": replace(FOUR.scales["paper"], recipes=LONG)})
COMMAND = """
import sys
from time import monotonic
from pathlib import Path
from tests.neuronal_papers.test_queue import LONG
from neuronal_papers.queue import Queue

if __name__ == "__main__":
    Queue([LONG], "paper", Path(sys.argv[1])).run(5, monotonic(), 1)
"""


def test_killed_inside_a_trial_it_repeats_that_trial_elsewhere_and_gives_the_same_rows(tmp_path):
    script = tmp_path / "slice.py"
    script.write_text(COMMAND)
    paths = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    killed = subprocess.Popen([sys.executable, script, tmp_path / "killed"], cwd=ROOT, env=paths)
    end = monotonic() + 60
    while not cells(tmp_path / "killed") and monotonic() < end:
        sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    kept = cells(tmp_path / "killed")
    assert 1 <= len(kept) < 4
    # Another machine: nothing but the finished trials goes there.
    shutil.copytree(tmp_path / "killed/trials/cells", tmp_path / "moved/trials/cells")
    results, trials = [], []
    for place in (tmp_path / "moved", tmp_path / "whole"):
        _, report, (file,) = run(place, one=LONG)
        results.append(read_result(file)["result"])
        trials.append(cells(place))
        assert len(report.finished) == (4 if place.name == "whole" else 4 - len(kept))
    moved, whole = trials
    assert {name: numbers(record) for name, record in moved.items()} == {n: numbers(r) for n, r in whole.items()}
    assert all(moved[name] == record for name, record in kept.items())
    assert results[0] == results[1]


def test_networks_are_measured_where_they_are_trained_and_rows_are_kept(tmp_path, monkeypatch):
    """Pixle moves pixels of two trained networks; with another version of the code the rows stay."""
    results = ["--results", str(tmp_path), "--scale", "smoke", "implicit_bias/pixle"]
    assert main(["reproduce", "--minutes", "2", "--archive", str(tmp_path / "a.zip"), *results]) == 0
    rows = sorted(tmp_path.glob("trials/rows/*.json"))
    assert len(rows) == len(list(tmp_path.glob("trials/cells/*.json"))) > 1
    result = read_result(tmp_path / "implicit_bias/pixle.smoke.json")
    usual = ["--results", str(tmp_path / "usual"), "--out", str(tmp_path / "runs"), "--scale", "smoke"]
    assert main(["reproduce", *usual, "implicit_bias/pixle"]) == 0
    assert result["result"] == read_result(tmp_path / "usual/implicit_bias/pixle.smoke.json")["result"]
    monkeypatch.setattr("neuronal.experiments.work.code", lambda: "another version")
    monkeypatch.setattr("neuronal.experiments.work.train_into", None)
    assert main(["reproduce", "--minutes", "0", *results]) == 0
    # A row that is lost is measured again; its weights travel for that.
    rows[0].unlink()
    assert main(["reproduce", "--minutes", "0", "--archive", str(tmp_path / "b.zip"), *results]) == 0
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        assert sum(name.endswith(".safetensors") for name in archive.namelist()) == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--minutes", "-1", "farkas/table1_cifar10"], "--minutes needs a number from 0 on"),
        (["--minutes", "1", "--seeds", "0", "farkas/table1_cifar10"], "goes without --seeds, --model and --cluster"),
        (["--archive", "a.zip", "farkas/table1_cifar10"], "--archive goes with --minutes"),
        (["--minutes", "1", "--scale", "smal", "farkas/starts"], "Unknown scale of farkas/starts 'smal'"),
        (["--minutes", "1", "--scale", "smoke", "farkas/born_dead"], "Leave out --minutes"),
    ],
)
def test_wrong_words_are_one_line(words, line, tmp_path, capsys):
    assert main(["reproduce", "--results", str(tmp_path), *words]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1
