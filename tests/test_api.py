"""The main jobs from Python: what they leave is what the command leaves, and what they print is asked for."""

import inspect
import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from torch import nn

import neuronal
from neuronal import Recipe
from neuronal.cli.app import main
from neuronal.cli.audit import audit as audit_command
from neuronal.cli.compare import compare as compare_command
from neuronal.core.records import to_json
from neuronal.data.catalogue import load
from neuronal.experiments import trial
from neuronal.experiments.audit import Unfit
from tests.test_readme import TEXT

QUICK = {"model": "fcn", "widths": (8,), "epochs": 1, "seeds": (0, 1), "neurons": ("standard", "zero_bias")}
WORDS = [
    "compare",
    "--model",
    "fcn",
    "--widths",
    "8",
    "--epochs",
    "1",
    "--seeds",
    "0,1",
    "--neurons",
    "standard,zero_bias",
]
SHAPE = {"num_classes": 10, "in_chans": 1, "img_size": 8}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def test_it_does_what_the_command_does_and_trains_nothing_twice(capsys, monkeypatch):
    comparison = neuronal.compare(**QUICK, progress=False)
    # The library prints nothing that was not asked for.
    assert capsys.readouterr() == ("", "")
    page = comparison.write_page()
    assert page == Path("runs/digits-fcn/report.html")
    before = page.read_text()
    monkeypatch.setattr(trial, "trained", lambda *_, **__: pytest.fail("trained"))
    assert main(WORDS) == 0
    out, err = capsys.readouterr()
    assert page.read_text() == before
    assert out == f"{comparison}\nreport: {page}\n"
    assert err.count("kept from before") == 4
    again = neuronal.compare(**QUICK)
    assert again == comparison
    assert capsys.readouterr().err == err
    assert neuronal.Comparison.from_folder("runs/digits-fcn") == comparison
    assert main([*WORDS, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(comparison.to_json())) | {"report": str(page)}


def test_rows_are_the_records_on_disk():
    rows = neuronal.compare(**QUICK, progress=False).rows()
    files = [json.loads(file.read_text())["values"] for file in Path("runs/digits-fcn/cells").glob("*.json")]
    records = {(record["recipe"]["family"], record["seed"]): record for record in files}
    assert [(row["neuron"], row["seed"]) for row in rows] == [(n, s) for s in (0, 1) for n in QUICK["neurons"]]
    for row in rows:
        record = records[row["neuron"], row["seed"]]
        zero = record["probes"]["zero_image"]
        expected = record["metrics"] | {name: record[name] for name in ("seed", "seconds", "step_seconds", "finished")}
        expected |= {"neuron": record["recipe"]["family"], "failure": record["failure"]}
        expected["lowest"] = min(record["probes"]["contrast"]["accuracy"])
        expected["zero_entropy"] = zero["entropy"] / zero["uniform_entropy"]
        expected["dead"] = record["probes"]["dead_units"]["dead"] / record["probes"]["dead_units"]["units"]
        assert row == expected


def test_fresh_trains_again(monkeypatch):
    neuronal.compare(**QUICK, progress=False)
    trained = []
    real = trial.trained
    monkeypatch.setattr(trial, "trained", lambda *words, **options: trained.append(words) or real(*words, **options))
    neuronal.compare(**QUICK, progress=False, fresh=True)
    assert len(trained) == 4


def test_every_option_of_the_command_is_one_of_the_function():
    known = {*inspect.signature(neuronal.compare).parameters, *(field.name for field in fields(Recipe)), "json"}
    renamed = {"model_option": "model_options", "as_json": "json"}
    assert {renamed.get(name, name) for name in inspect.signature(compare_command).parameters} <= known
    audited = inspect.signature(neuronal.audit).parameters
    renamed |= {"source": "model"}
    for name, option in inspect.signature(audit_command).parameters.items():
        if name != "as_json":
            default = audited[renamed.get(name, name)].default
            assert name in ("source", "data") or default == option.default or (name, default) == ("out", "runs")


def test_a_recipe_of_ones_own_and_its_options():
    recipe = Recipe("mine", model="mlp1", epochs=1, seeds=(3,), probes=("dead_units",), model_options={"width": 5})
    comparison = neuronal.compare(recipe=recipe, neurons="zero_bias", name="a/b", out="there", progress=False)
    assert comparison.folder == Path("there/a/b")
    assert comparison.study.recipe.model_options == (("width", 5),)
    assert comparison.rows()[0]["parameters"] == 64 * 5 + 5 * 10
    wider = neuronal.compare(recipe=recipe, neurons="zero_bias", model_options={"width": 6}, progress=False)
    assert wider.rows()[0]["parameters"] == 64 * 6 + 6 * 10
    assert wider.folder == Path("runs/mine")


def test_numbers_are_predicted_from_a_table(tmp_path):
    (tmp_path / "own.csv").write_text("a,b\n" + "".join(f"{n},{2.5 * n}\n" for n in range(40)))
    comparison = neuronal.compare(tmp_path / "own.csv", neurons="standard", seeds=[0], epochs=1, progress=False)
    assert comparison.study.recipe.model == "mlp1"
    assert comparison.measure == "rmse"
    assert comparison.folder == Path("runs/own-mlp1")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"epoch": 3}, ValueError, "Unknown option of compare 'epoch'. Did you mean 'epochs'?"),
        ({"family": "standard"}, ValueError, "Unknown option of compare 'family'"),
        ({"neurons": "zerobias"}, ValueError, "Did you mean 'zero_bias'?"),
        ({"neurons": []}, ValueError, "at least one neuron"),
        ({"recipe": "digit"}, ValueError, "Did you mean 'digits'?"),
        ({"seeds": 3}, ValueError, "seeds needs a list, got 3"),
        ({"name": "../up"}, ValueError, "name needs to be that of a folder below out"),
        ({"data": "digit"}, ValueError, "Did you mean 'digits'?"),
        ({"data": load("digits")}, TypeError, "compare needs data by name or path, got Dataset"),
        ({"data": ()}, TypeError, "Comparison.from_records"),
    ],
)
def test_a_mistake_is_one_line_before_anything_is_trained(options, error, message, monkeypatch):
    monkeypatch.setattr(trial, "trained", lambda *_, **__: pytest.fail("trained"))
    with pytest.raises(error) as wrong:
        neuronal.compare(**options)
    assert message in str(wrong.value)
    assert "\n" not in str(wrong.value)


def test_what_stops_it_says_what_is_kept(monkeypatch):
    neuronal.compare(**QUICK | {"seeds": (0,)}, progress=False)

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(trial, "trained", stop)
    with pytest.raises(KeyboardInterrupt) as stopped:
        neuronal.compare(**QUICK, progress=False)
    (note,) = stopped.value.__notes__
    assert note.startswith("2 of 4 trials are finished and kept in runs/digits-fcn.")


def test_a_script_needs_no_main_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"import neuronal\nprint(len(neuronal.compare(**{QUICK | {'seeds': (0,)}!r}).rows()))\n")
    done = subprocess.run([sys.executable, script.name], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return neuronal.create_model("fcn", "zero_bias", widths=(8,), **SHAPE)


def test_an_audit_is_that_of_the_command(model, capsys):
    neuronal.save_model(model, "net.safetensors")
    audit = neuronal.audit(model, "digits", rows=30, pairs=3, progress=False)
    assert capsys.readouterr() == ("", "")
    assert main(["audit", "net.safetensors", "--data", "digits", "--rows", "30", "--pairs", "3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["sections"] == to_json(audit.sections)
    assert answer["environment"] == audit.environment
    named = neuronal.audit("net.safetensors", load("digits"), rows=30, pairs=3, progress=False)
    page = named.write_page()
    assert str(page) == answer["report"]
    assert json.loads(page.with_suffix(".json").read_text()) == json.loads(json.dumps(named.to_json()))
    assert main(["audit", "net.safetensors", "--data", "digits", "--rows", "30", "--pairs", "3"]) == 0
    assert capsys.readouterr().out == f"{named}\nreport: {page}\n"
    assert audit.write_page().name == "Classifier-digits.html"
    assert audit.write_page("mine.html") == Path("mine.html")
    assert Path("mine.json").exists()


def test_an_audit_takes_scaled_data_as_they_are(model):
    data = load("digits").scaled("standardise")
    given = neuronal.audit(model, data, rows=30, pairs=0, progress=False)
    named = neuronal.audit(model, "digits", rows=30, pairs=0, scaling="standardise", progress=False)
    unscaled = neuronal.audit(model, "digits", rows=30, pairs=0, progress=False)
    assert given.sections["score"] == named.sections["score"] != unscaled.sections["score"]


def test_an_audit_in_a_notebook_escapes_names(model):
    evil = type("<script>", (nn.Sequential,), {})
    audit = neuronal.audit(evil(model), "digits", rows=20, pairs=0, progress=False)
    assert repr(audit) == "<Audit of <script> on digits>"
    html = audit._repr_html_()
    assert html.count("<li>") == len(audit.findings)
    changed = type(audit)("<b>", "<i>", (), {"model": Unfit("<u>")}, {}, {})
    assert "<u>" not in changed._repr_html_()
    assert "&lt;u&gt;" in changed._repr_html_()
    assert "&lt;script&gt;" in audit.write_page("page.html").read_text()
    assert "<script>" not in Path("page.html").read_text()


def test_a_made_model_takes_no_options(model):
    with pytest.raises(TypeError, match="needs a torch module, got int"):
        neuronal.audit(5, "digits", progress=False)
    with pytest.raises(ValueError, match="made already takes no options, got width"):
        neuronal.audit(model, "digits", model_options={"width": 3}, progress=False)


def test_the_readme_shows_it_beside_the_two_commands():
    place = TEXT.index("neuronal.compare(")
    assert TEXT.index("./run test") < place < TEXT.index("## What it is")


@pytest.mark.parametrize("has_guard", [False, True])
def test_a_script_that_asks_for_workers_needs_the_guard_that_python_wants(tmp_path, has_guard):
    script = tmp_path / "mine.py"
    call = "print(neuronal.compare(model='fcn', widths=(8,), neurons='zero_bias', seeds=[0, 1], epochs=1, workers=2))"
    script.write_text(f"import neuronal\n{'if __name__ == ' + repr('__main__') + ': ' if has_guard else ''}{call}\n")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode == 0) == has_guard, done.stderr
    if has_guard:
        assert "zero_bias" in done.stdout
    else:
        assert f"ValueError: {script} starts workers" in done.stderr
        assert "bootstrapping" not in done.stderr
        assert not list(tmp_path.rglob("*-seed*.json"))
