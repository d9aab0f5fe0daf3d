"""The commands under a launcher: two processes over gloo, one terminal, one set of files."""

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import accuracy
from tests.cli.together import COMPARE
from tests.launch import launched


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Their folder, and what each of two processes answered to the commands of tests/cli/together.py."""
    folder = tmp_path_factory.mktemp("together")
    for code, out, err in launched(f"tests.cli.together {folder}", folder=folder):
        assert (code, out, err) == (0, "", "")
    return folder, *(json.loads((folder / f"{rank}.json").read_text()) for rank in range(2))


def both_well(answers, name):
    """Output and errors of the first, where both end well and the second is silent."""
    first, second = (answer[name] for answer in answers[1:])
    assert first[0] == second[0] == 0, first[2] + second[2]
    assert second[1:] == ["", ""]
    return first[1:]


def test_compare_trains_together_speaks_once_and_ends():
    first, second = launched(f"neuronal {COMPARE}")
    assert first[0] == second[0] == 0, first[2] + second[2]
    assert second[1:] == ("", "")
    assert "fcn on digits, 1 seed" in first[1]
    assert "zero_bias seed 0: " in first[2]
    found = [*Path("runs/digits-fcn").glob("*.*"), *Path("runs/digits-fcn/cells").glob("[!.]*")]
    files = sorted(file.name.split("-")[0] for file in found)
    assert files == ["costs.json", "report.html", "standard", "study.json", "zero_bias"]


def test_a_damaged_record_is_set_aside_once_and_both_train_its_cell_again(answers):
    both_well(answers, "compare")
    out, err = both_well(answers, "compare again")
    assert json.loads(out)["comparison"]
    assert err.count("kept from before") == 1
    assert len(list((answers[0] / "runs/digits-fcn/cells").glob("*.damaged1"))) == 1


def test_sweep_trains_together_and_has_no_workers_besides(answers):
    first, second = (answer["sweep"] for answer in answers[1:])
    assert first[0] == second[0] == 2
    assert "without torchrun" in first[2]
    assert first[2].count("\n") == 1
    assert second[2].startswith("neuronal, process 1: ")
    out, _ = both_well(answers, "sweep alone")
    assert "held-out accuracy" in " ".join(out.split())


@pytest.mark.parametrize(("name", "run"), [("train", "copied"), ("train spread", "spread")])
def test_train_writes_one_model_and_one_log(answers, name, run, monkeypatch):
    """With a copy of the network in each process, and with the network spread over both."""
    answer = json.loads(both_well(answers, name)[0])
    monkeypatch.chdir(answers[0])
    assert len(Path(f"runs/{run}/log.jsonl").read_text().splitlines()) == 2
    assert accuracy(answer["model"]) == pytest.approx(answer["metrics"]["accuracy"])


@pytest.mark.parametrize("name", ["accuracy", "areas"])
def test_reproduce_trains_together_and_speaks_once(answers, name):
    for time in ("first", "again"):
        out, _ = both_well(answers, f"{name} {time}")
        assert f"result: results/toy/{name}.smoke.json" in out
