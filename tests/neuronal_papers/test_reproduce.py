"""Reproductions: every one runs at its smallest scale, keeps what it made, and says what it is from."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from neuronal.cli.app import main
from neuronal.experiments import trial
from neuronal_papers.core import Setting
from neuronal_papers.pages import results_page, sentences
from neuronal_papers.registry import reproductions
from neuronal_papers.reproduce import read_result, reproduce
from tests.conftest import ROOT, undrawn
from tests.neuronal_papers.toy import ACCURACY, AREAS


def without_times(values):
    if isinstance(values, dict):
        return {key: without_times(value) for key, value in values.items() if "seconds" not in key and key != "costs"}
    return [without_times(value) for value in values] if isinstance(values, list) else values


@pytest.mark.parametrize("name", reproductions())
def test_every_one_runs_at_smoke_and_goes_on_from_what_is_kept(name, tmp_path):
    one, runs = reproductions()[name], tmp_path / "runs"
    file = reproduce(one, "smoke", runs=runs, results=tmp_path / "results")
    assert file == tmp_path / "results" / f"{name}.smoke.json"
    result = read_result(file)
    assert result["reproduction"] == name
    assert result["environment"]["torch"]
    assert result["command"] == f"neuronal reproduce {name} --scale smoke"
    claims = [finding.claim for finding in one.findings(result)]
    assert 0 < len(set(claims)) == len(claims)
    assert one.tables(result)
    assert all(len(row) == len(table.head) for table in one.tables(result) for row in table.rows)
    with undrawn():
        assert results_page(file.parent)[0].count("<svg") == len(one.figures(result))
    # Stopped somewhere: every fourth of the files it keeps is not there yet.
    for kept in sorted(runs.rglob("*.json"))[::4]:
        kept.unlink()
    again = read_result(reproduce(one, "smoke", runs=runs, results=tmp_path / "again"))
    assert without_times(again["result"]) == without_times(result["result"])


def test_a_change_of_the_measurement_makes_rows_again_and_of_claims_does_not(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr("tests.neuronal_papers.toy.note", made.append)
    for claims, digest, expected in ((AREAS.claims, "a", 3), ((), "a", 3), (AREAS.claims, "b", 6)):
        monkeypatch.setattr("neuronal_papers.reproduce.digest_of", lambda _, digest=digest: digest)
        reproduce(replace(AREAS, claims=claims), "smoke", runs=tmp_path, results=tmp_path)
        assert len(made) == expected


def test_other_seeds_can_be_asked_for(tmp_path):
    own = replace(AREAS, scales={"smoke": Setting(options={"sides": (1,), "seeds": (0,)})})
    for one in (ACCURACY, own):
        result = read_result(reproduce(one, "smoke", runs=tmp_path, results=tmp_path, seeds=(3, 4)))
        assert result["command"].endswith(" --seeds 3,4")
        assert result["result"]["seeds"] == [3, 4]


def test_models_by_name_are_handed_to_what_takes_them(tmp_path):
    one = replace(AREAS, takes_models=True)
    result = read_result(reproduce(one, "smoke", runs=tmp_path, results=tmp_path, models=["a", "b"], pretrained=True))
    assert result["options"]["models"] == ["a", "b"]
    assert result["options"]["pretrained"] is True
    assert result["command"].endswith(" --scale smoke --model a --model b --pretrained")


@pytest.mark.parametrize("text", ["[1]", "{", '{"reproduction": "a/b"}'])
def test_a_foreign_file_is_no_result(tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match="not a result"):
        read_result(tmp_path / "x.json")


def call(capsys, *words):
    return main(list(words)), *capsys.readouterr()


@pytest.mark.usefixtures("toys")
class TestCommand:
    @pytest.fixture(autouse=True)
    def elsewhere(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    def test_it_lists_runs_and_prints(self, capsys):
        assert call(capsys, "reproduce", "--list") == (0, "toy/accuracy\ntoy/areas\n", "")
        assert json.loads(call(capsys, "reproduce", "--list", "--json")[1]) == ["toy/accuracy", "toy/areas"]
        code, out, _ = call(capsys, "reproduce", "toy/areas", "--scale", "small")
        assert code == 0
        assert "side area" in " ".join(out.split())
        assert "holds: " in out
        assert out.endswith("result: results/toy/areas.small.json\n")
        result = json.loads(call(capsys, "reproduce", "toy/areas", "--scale", "smoke", "--json")[1])
        assert sentences(AREAS, result) == ["Scale smoke shows that it runs; it says nothing of the paper's claims."]

    def test_a_paper_is_all_of_its_tables_and_figures(self, capsys):
        code, out, err = call(capsys, "reproduce", "toy", "--scale", "smoke")
        assert code == 0
        assert "toy/areas, 2 of 2\n" in err
        places = [f"results/toy/{name}.smoke.json" for name in ("accuracy", "areas")]
        assert [line.partition("result: ")[2] for line in out.splitlines() if "result: " in line] == places
        assert all(map(Path.exists, map(Path, places)))
        # Those that have this scale.
        results = json.loads(call(capsys, "reproduce", "toy", "--scale", "paper", "--json")[1])
        assert [result["reproduction"] for result in results] == ["toy/areas"]

    @pytest.mark.parametrize(
        ("words", "line"),
        [
            (["reproduce", "toy/none"], "Unknown reproduction"),
            (["reproduce", "toys"], "Unknown paper 'toys'. Did you mean 'toy'?"),
            (["reproduce", "toy", "--scale", "tiny"], "Unknown scale 'tiny'"),
            (["reproduce", "toy/areas", "--scale", "huge"], "There are: paper, small, smoke"),
            (["reproduce", "toy", "--seeds", "3"], "--seeds"),
            (["reproduce", "toy/areas", "--seeds", "3,4"], "takes no seeds, got 3,4"),
            (["reproduce", "toy/areas", "--model", "a"], "takes no model, got a"),
            (["reproduce", "toy/areas", "--pretrained"], "--pretrained is about models"),
            (["reproduce"], "--list"),
            (["findings", "toys"], "Unknown paper"),
            (["findings", "toy"], "no folder of results"),
        ],
    )
    def test_a_mistake_is_one_line(self, capsys, words, line):
        code, out, err = call(capsys, *words)
        assert (code, out) == (2, "")
        assert line in err
        assert err.count("\n") == 1
        assert not list(Path().iterdir())

    def test_a_place_that_cannot_be_written_is_refused_before_the_work(self, capsys, monkeypatch):
        Path("results").write_text("")
        monkeypatch.setattr("tests.neuronal_papers.toy.note", lambda side: pytest.fail("measured"))
        code, _, err = call(capsys, "reproduce", "toy/areas", "--scale", "smoke")
        assert code == 1
        assert "cannot use results" in err
        assert "--results" in err

    @pytest.mark.parametrize(
        ("name", "place"),
        [("toy/accuracy", "neuronal.experiments.trial.trained"), ("toy/areas", "tests.neuronal_papers.toy.note")],
    )
    def test_stopped_it_goes_on_and_ends_as_if_it_had_not_been(self, capsys, monkeypatch, name, place):
        calls, real = [], {"toy/accuracy": trial.trained}.get(name, lambda side: None)

        def stopped(*words, **options):
            calls.append(words)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return real(*words, **options)

        monkeypatch.setattr(place, stopped)
        code, _, err = call(capsys, "reproduce", name, "--scale", "smoke")
        assert code == 130
        assert "stopped" in err
        assert call(capsys, "reproduce", name, "--scale", "smoke")[0] == 0
        done = len(calls)
        again = read_result(Path(f"results/{name}.smoke.json"))
        whole = read_result(reproduce(reproductions()[name], "smoke", runs=Path("other"), results=Path("whole")))
        assert without_times(again["result"]) == without_times(whole["result"])
        # Of all parts one was tried twice.
        assert done == (len(calls) - done) + 1


def test_sources_that_are_not_installed_have_the_commands_too(tmp_path):
    """A copy of the sources on a rented machine, say: without entry points, and with them no command stands there twice."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    hidden = "import importlib.metadata as m; m.entry_points = lambda **_: []; "
    run = "import runpy; runpy.run_module('neuronal_papers', run_name='__main__', alter_sys=True)"
    own = os.environ | {"PYTHONPATH": str(tmp_path / "src")}
    for before, words, expected in (
        ("", "--help", "reproduce"),
        (hidden, "--help", "reproduce"),
        (hidden, "reproduce --list", "zero_bias/ntk"),
    ):
        command = [sys.executable, "-c", f"{before}{run}", *words.split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=own)
        assert done.returncode == 0, done.stderr
        assert sum(expected in line for line in done.stdout.splitlines()) == 1
