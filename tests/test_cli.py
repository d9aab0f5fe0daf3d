"""The command as a user meets it: in a process of its own where signals and streams matter, else called directly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from neuronal.cli import app as cli
from neuronal.experiments import engine as engine_module
from neuronal.experiments import sweep as sweep_module
from neuronal.experiments.recipe import Recipe
from neuronal.nn.families import FAMILIES

TWO = ["--neurons", "standard,zero_bias"]
QUICK = ["--model", "fcn", "--widths", "8", "--epochs", "1", *TWO]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def call(capsys, *words):
    code = cli.main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_compare_prints_the_table_and_writes_the_page(capsys):
    code, out, err = call(capsys, "compare", *QUICK, "--seeds", "0,1")
    assert code == 0
    assert "fcn on digits, 2 seeds" in out
    assert all(name in out for name in ("standard", "zero_bias", "Highest mean test accuracy"))
    assert out.rstrip().endswith("report: runs/digits-fcn/report.html")
    assert Path("runs/digits-fcn/report.html").read_text().startswith("<!doctype html>")
    assert err.count("right (") == 4
    _, again, err = call(capsys, "compare", *QUICK, "--seeds", "0-1")
    assert again == out
    assert err.count("kept from before") == 4


def test_the_default_is_the_digits_recipe_with_every_neuron(capsys, monkeypatch):
    asked = []

    def look(study, folder, **_):
        asked.append((study, folder))
        sys.exit(0)

    monkeypatch.setattr(sweep_module, "sweep", look)
    with pytest.raises(SystemExit):
        cli.main(["compare"])
    study, folder = asked[0]
    assert study.families == tuple(FAMILIES)
    assert (study.recipe.data, study.recipe.model, study.recipe.seeds) == ("digits", "cnn", (0, 1, 2))
    assert folder == Path("runs/digits-cnn")


def test_json_is_one_document_on_standard_output(capsys):
    code, out, _ = call(capsys, "compare", *QUICK, "--seeds", "0", "--neurons", "zero_bias", "--json")
    answer = json.loads(out)
    assert code == 0
    assert [row["family"] for row in answer["comparison"]["rows"]] == ["zero_bias"]
    assert answer["study"]["recipe"]["epochs"] == 1
    assert Path(answer["report"]).exists()
    assert answer["findings"]


def test_every_option_reaches_the_recipe(capsys):
    words = "--recipe digits --model fcn --widths 4,5 --epochs 2 --batch-size 500 --optim sgd --lr 0.5 --momentum 0.1"
    words += " --weight-decay 0.01 --schedule cosine --holdout 0.2 --seeds 4 --neurons zero_bias --name a/b --json"
    _, out, _ = call(capsys, "compare", *words.split())
    recipe = Recipe.from_json(json.loads(out)["study"]["recipe"])
    expected = {"optim": "sgd", "lr": 0.5, "momentum": 0.1, "weight_decay": 0.01, "schedule": "cosine", "seeds": (4,)}
    expected |= {"model": "fcn", "widths": (4, 5), "epochs": 2, "batch_size": 500, "holdout": 0.2, "name": "a/b"}
    assert recipe == Recipe(**expected)
    assert Path("runs/a/b/report.html").exists()


BAD = [
    (["compare", "--data", "digit"], "Unknown dataset 'digit'. Did you mean 'digits'? There are: arrows, banana, "),
    (["compare", "--model", "cnm"], "Unknown model 'cnm'. Did you mean 'cnn'? There are: cnn, farkasnet101, "),
    (["compare", "--neurons", "zerobias"], "Unknown neuron 'zerobias'. Did you mean 'zero_bias'? There are: "),
    (["compare", "--neurons", "standard,"], "Unknown neuron ''."),
    (["compare", "--recipe", "digit"], "Unknown recipe 'digit'. Did you mean 'digits'?"),
    (["compare", "--optim", "adm"], "Unknown optimiser 'adm'. Did you mean 'adam'?"),
    (["compare", "--schedule", "cos"], "Unknown schedule 'cos'. Did you mean 'cosine'?"),
    (
        ["compare", "--epoch", "3"],
        "Unknown option of neuronal compare '--epoch'. Did you mean '--epochs'? There are: --",
    ),
    (
        ["compar"],
        "Unknown command 'compar'. Did you mean 'compare'? There are: audit, certify, compare, ",
    ),
    (["data"], "Missing command. There are: "),
    (["compare", "--epochs", "many"], "Invalid value for '--epochs'"),
    (["compare", "--epochs", "0"], "epochs needs to be a whole number of at least 1, and below 2^31, got 0."),
    (["compare", "--lr", "nan"], "lr needs to be a positive number, got nan."),
    (["compare", "--seeds", "a"], "--seeds needs whole numbers such as 0,1,2 or 0-9, got 'a'."),
    (["compare", "--seeds", "0-99999999999"], "--seeds takes at most 10,000 numbers"),
    (["compare", "--seeds", "99999999999999999999999"], "seeds need to be whole numbers from 0, got 99999"),
    (["compare", "--widths", "0", "--model", "fcn"], "widths need to be whole numbers from 1, got 0."),
    (
        ["compare", "--batch-size", "99999999999999999999"],
        "batch_size needs to be a whole number of at least 1, and below 2^31",
    ),
    (["sweep", "digits", "--grid", "lr=0.1", "--grid", "holdout=0"], "choosing needs held-out data, got holdout 0."),
    (["sweep", "digits", "--grid", "seed=0-4", "--grid", "seed=1"], "--grid seed is given twice."),
    (["train", "digits", "--set", "widths=4.5"], "widths need to be whole numbers from 1, got 4.5."),
    (["train", "digits", "--set", "widths=[4,4]"], "--set widths needs numbers, got '[4,4]'."),
    (["train", "digits", "--set", "widths=true"], "--set widths needs numbers, got 'true'."),
    (["train", "digits", "--set", "resized_crop=null,1"], "--set resized_crop needs numbers, got 'null,1'."),
    (["train", "digits", "--model-option", "norm=3"], "norm"),
    (
        ["train", "digits", "--set", "model=resnet18", "--model-option", "width=0"],
        "width of resnet18 needs to be a whole number of at least 1, got 0.",
    ),
    (
        ["train", "digits", "--set", "model=vit_tiny", "--model-option", "depth=-1"],
        "depth of vit_tiny needs to be a whole number of at least 1, got -1.",
    ),
    (
        ["train", "digits", "--set", "model=vit_tiny", "--model-option", "num_heads=0"],
        "num_heads of vit_tiny needs to be a whole number of at least 1, got 0.",
    ),
    (
        ["train", "digits", "--set", "model=fcn", "--model-option", "widths=4,4"],
        "widths of fcn needs to be whole numbers of at least 1, such as [4,4], got '4,4'.",
    ),
    (["compare", "--holdout", "0.999"], "holdout 0.999 of 1,297 training images leaves none to train on."),
    (["compare", "--name", ""], "--name needs a folder below --out, got ''."),
    (["compare", "--name", "."], "--name needs a folder below --out, got '.'."),
    (["compare", "--name", "\udcff"], "--name needs a folder below --out"),
    (["compare", "--recipe", ""], "Unknown recipe ''."),
    (["compare", "--seeds", "3-1"], "a recipe needs at least one seed, got none."),
    (["compare", "--name", "../x"], "--name needs a folder below --out, got '../x'."),
    (["compare", "--model", "cnn", "--widths", "1,1,1,1,1"], "needs img_size >= 16, got 8."),
    (["report", "nowhere"], "nowhere is not the folder of a run: it has no study.json."),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_a_mistake_is_one_line_and_exit_code_2(capsys, monkeypatch, words, message):
    monkeypatch.setattr(engine_module, "trained", lambda *_, **__: pytest.fail("trained"))
    code, out, err = call(capsys, *words)
    assert code == 2
    assert out == ""
    assert err.startswith("neuronal: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("place", ["file/below", "/proc/nowhere"])
def test_no_write_access_is_said_before_training(capsys, monkeypatch, place):
    Path("file").write_text("")
    monkeypatch.setattr(engine_module, "trained", lambda *_, **__: pytest.fail("trained"))
    code, _, err = call(capsys, "compare", "--out", place)
    assert code == 1
    assert err.startswith(f"neuronal: cannot use {place}")
    assert "Choose another place with --out." in err
    assert err.count("\n") == 1


def test_a_full_disk_is_said_and_finished_cells_are_kept(capsys, monkeypatch):
    real, written = engine_module.write, []

    def full_at_the_second(record, folder):
        if written:
            raise OSError(28, "No space left on device")
        written.append(real(record, folder))
        return written[-1]

    monkeypatch.setattr(engine_module, "write", full_at_the_second)
    code, _, err = call(capsys, "compare", *QUICK, "--seeds", "0")
    assert code == 1
    assert (
        "(No space left on device). Choose another place with --out. 1 of 2 cells are finished and kept in runs/digits-fcn."
        in err
    )
    assert "Traceback" not in err


def test_a_diverging_neuron_is_in_the_table_and_the_rest_goes_on(capsys, monkeypatch):
    from neuronal.experiments import run as run_module
    from neuronal.train.loop import Diverged

    real = run_module.fit

    def fails_for_zero_bias(model, *arguments, **options):
        if type(model.head).__name__ == "ZeroBiasLinear":
            raise Diverged(7, 0.1, float("nan"))
        return real(model, *arguments, **options)

    monkeypatch.setattr(run_module, "fit", fails_for_zero_bias)
    code, out, _ = call(capsys, "compare", *QUICK, "--seeds", "0")
    assert code == 0
    assert "zero_bias (1 failed)" in out
    assert "zero_bias failed with seed 0: the loss became nan at step 7 (learning rate 0.1)." in out


def test_report_draws_again_without_training(capsys, monkeypatch):
    call(capsys, "compare", *QUICK, "--seeds", "0")
    page = Path("runs/digits-fcn/report.html")
    before = page.read_text()
    page.unlink()
    monkeypatch.setattr(engine_module, "trained", lambda *_, **__: pytest.fail("trained"))
    assert call(capsys, "report", "runs/digits-fcn")[0] == 0
    assert page.read_text() == before
    next(Path("runs/digits-fcn/cells").glob("zero_bias*")).unlink()
    code, _, err = call(capsys, "report", "runs/digits-fcn")
    assert code == 0
    assert err == "neuronal: 1 of 2 cells are not finished\n"
    damaged = next(Path("runs/digits-fcn/cells").glob("standard*"))
    damaged.write_text("{")
    code, _, err = call(capsys, "report", "runs/digits-fcn")
    assert "its cell counts as not trained: not JSON" in err
    assert "has no finished cell to report on" in err
    Path("runs/digits-fcn/study.json").write_text("{")
    code, _, err = call(capsys, "report", "runs/digits-fcn")
    assert code == 2
    assert "study.json is damaged" in err


@pytest.mark.parametrize("words", [[], ["--help"], ["report", "--help"]])
def test_help_is_no_mistake(capsys, words):
    code, out, err = call(capsys, *words)
    assert (code, err) == (0, "")
    assert "Usage: neuronal" in out


@pytest.mark.parametrize("command", ["neurons", "models", "data"])
def test_lists(capsys, command):
    code, out, _ = call(capsys, command, "--json")
    rows = json.loads(out)
    assert code == 0
    assert rows
    code, out, _ = call(capsys, command)
    assert all(next(iter(row.values())) in out for row in rows)


def test_help_needs_no_torch():
    code = (
        "import sys; from neuronal.cli.app import main; main(['compare', '--help']); sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert "--fresh" in done.stdout


def test_python_minus_m_runs_the_command():
    done = subprocess.run([sys.executable, "-m", "neuronal", "neurons", "--json"], capture_output=True, text=True)
    assert [row["neuron"] for row in json.loads(done.stdout)][:2] == ["standard", "zero_bias"]


def test_a_reader_that_stops_reading_is_no_error():
    command = f"{sys.executable} -m neuronal models | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_utf8_still_gets_its_table(encoding):
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-m", "neuronal", "neurons"], capture_output=True, env=environment)
    assert done.returncode == 0
    assert b"zero_bias" in done.stdout


def test_stopping_a_fresh_sweep_counts_only_its_own_cells(capsys, monkeypatch):
    call(capsys, "compare", *QUICK, "--seeds", "0")

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(engine_module, "trained", stop)
    code, _, err = call(capsys, "compare", *QUICK, "--seeds", "0", "--fresh")
    assert code == 130
    assert "stopped; 0 of 2 cells are finished" in err
    assert "without --fresh goes on from there" in err


def test_fresh_measures_costs_again(capsys):
    call(capsys, "compare", *QUICK, "--seeds", "0")
    before = Path("runs/digits-fcn/costs.json").read_text()
    call(capsys, "compare", *QUICK, "--seeds", "0")
    assert Path("runs/digits-fcn/costs.json").read_text() == before
    call(capsys, "compare", *QUICK, "--seeds", "0", "--fresh")
    assert Path("runs/digits-fcn/costs.json").read_text() != before


@pytest.mark.parametrize("seconds", [0.3, 0.6, 0.9, 1.5])
def test_sigterm_while_starting_is_a_clean_stop(seconds):
    running = subprocess.Popen([sys.executable, "-m", "neuronal", "compare"], stderr=subprocess.PIPE, text=True)
    time.sleep(seconds)
    running.terminate()
    _, err = running.communicate(timeout=60)
    assert running.returncode in (143, -signal.SIGTERM)
    assert "Traceback" not in err


GREEDY = """import time
print("importing", flush=True)
try:
    time.sleep(60)
except BaseException:
    print("swallowed", flush=True)
"""
TIDYING = """import time
from neuronal.cli.interrupts import interruptions
with interruptions():
    try:
        print("working", flush=True)
        time.sleep(60)
    except KeyboardInterrupt as stop:
        print(type(stop).__name__, flush=True)
        time.sleep(60)
"""


def begun(program, first, folder):
    running = subprocess.Popen(
        [sys.executable, "-c", program], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stdout.readline() == first
    return running


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_during_an_import_that_would_swallow_it_an_interrupt_ends_the_process(number, code, tmp_path):
    (tmp_path / "greedy.py").write_text(GREEDY)
    program = "from neuronal.cli.interrupts import interruptions\nwith interruptions():\n    import greedy"
    running = begun(program, "importing\n", tmp_path)
    running.send_signal(number)
    assert running.communicate(timeout=30) == ("", "neuronal: stopped.\n")
    assert running.returncode == code


@pytest.mark.parametrize(("number", "what"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "Terminated")])
def test_the_first_interrupt_is_an_exception_and_a_second_one_ends_the_process(number, what, tmp_path):
    running = begun(TIDYING, "working\n", tmp_path)
    running.send_signal(number)
    assert running.stdout.readline() == f"{what}\n"
    running.send_signal(number)
    assert running.communicate(timeout=30) == ("", "")
    assert running.returncode == -number


def test_ctrl_c_of_a_terminal_reaches_workers_too_and_they_say_nothing(tmp_path):
    """A terminal sends it to every process of the command."""
    words = [
        "sweep",
        "digits",
        "--grid",
        "lr=0.001,0.01",
        "--grid",
        "seed=0-3",
        "--grid",
        "epochs=60",
        "--workers",
        "2",
    ]
    running = subprocess.Popen(
        [sys.executable, "-m", "neuronal", *words],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    while not list(tmp_path.glob("runs/*/study.json")):
        time.sleep(0.05)
    # Workers have begun; wherever they are, there is nothing of theirs to read.
    time.sleep(4)
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert "of 8 cells are finished and kept" in err


def test_a_command_in_the_background_goes_on_ignoring_ctrl_c():
    program = (
        "import os, signal\nfrom neuronal.cli.interrupts import interruptions\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "with interruptions():\n    os.kill(os.getpid(), signal.SIGINT)\n    print(1)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "1\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_stopped_command_keeps_its_cells_and_goes_on(number, code):
    words = [sys.executable, "-m", "neuronal", "compare", *QUICK, "--epochs", "20", "--seeds"]
    running = subprocess.Popen([*words, "0-40"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    cells = Path("runs/digits-fcn/cells")
    deadline = time.monotonic() + 90
    while len(list(cells.glob("*.json"))) < 2:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(running.pid, number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == code
    done = len(list(cells.glob("*.json")))
    if number != signal.SIGKILL:
        assert err.splitlines()[-1] == (
            f"neuronal: stopped; {done} of 82 cells are finished and kept in runs/digits-fcn. "
            "The same command goes on from there."
        )
        assert not list(cells.glob(".*"))
    assert "Traceback" not in err
    again = subprocess.run([*words, "0"], capture_output=True, text=True)
    assert again.returncode == 0
    assert again.stderr.count("kept from before") == 2


def test_convert_lists_changes_measures_and_writes(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    file = tmp_path / "cnn.safetensors"
    assert cli.main(["convert", "cnn", "--to", "geometric", "--out", str(file)]) == 0
    out = capsys.readouterr().out
    assert "GeometricConv2d" in out
    assert "left alone: the output layer" in out
    assert "Largest difference of the output on random input (2x3x32x32)" in out
    assert file.exists()
    assert cli.main(["convert", str(file), "--to", "implicit_bias", "--option", "coupling=-0.2", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["largest_difference"] > 0
    assert answer["changes"][0]["note"] == "coupling -0.2 added to the same weights"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["cnn", "--to", "geometrical"], "Unknown neuron 'geometrical'. Did you mean 'geometric'?"),
        (["cnnn", "--to", "geometric"], "Unknown model 'cnnn'."),
        (["cnn", "--to", "geometric", "--option", "init"], "--option needs name=value, got 'init'."),
        (["cnn", "--to", "geometric", "--option", "speed=3"], "Unknown option of GeometricConv2d 'speed'."),
        (["nothing.safetensors", "--to", "geometric"], "nothing.safetensors: no such file."),
        (["cnn", "--to", "zero_bias", "--batch-norm", "keep"], "Unknown way with batch norms 'keep'."),
    ],
)
def test_convert_refuses_in_one_line(words, line, capsys):
    assert cli.main(["convert", *words]) != 0
    said = capsys.readouterr().err.strip()
    assert line in said
    assert "\n" not in said


def test_sweep_trains_a_grid_and_chooses(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    words = ["sweep", "digits", "--grid", "epochs=1", "--grid", "lr=0.0001,0.01", "--grid", "neuron=standard,zero_bias"]
    words += ["--grid", "seed=0", "--grid", "model=fcn", "--workers", "2"]
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert "zero_bias" in out
    assert "*" in out
    assert len(list(Path("runs/digits-grid/cells").glob("*.json"))) == 4
    assert cli.main([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [choice["family"] for choice in answer["choices"]] == ["standard", "zero_bias"]
    assert all(choice["best"] == 0.01 for choice in answer["choices"])
    assert cli.main(["report", "runs/digits-grid"]) == 2
    assert "holds a grid, not a comparison" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nothing", "--grid", "lr=1"], "Unknown recipe 'nothing'."),
        (["digits", "--grid", "lr"], "--grid needs field=value, got 'lr'."),
        (["digits", "--grid", "lr=fast"], "--grid lr needs numbers, got 'fast'."),
        (["digits", "--grid", "speed=1"], "Unknown axis of a grid 'speed'."),
        (["digits", "--grid", "neuron=nothing"], "Unknown neuron 'nothing'."),
        (["digits", "--grid", "lr=0.1", "--engine", "cloud"], "Unknown engine 'cloud'."),
        (["digits", "--grid", "lr=0.1", "--choose", "l"], "Unknown field to choose 'l'. Did you mean 'lr'?"),
        (["digits", "--grid", "lr=0.1", "--memory", "nan"], "--memory needs a number of GB above 0, got nan."),
        (["digits", "--grid", "lr=0.1", "--name", "/x"], "--name needs a folder below --out, got '/x'."),
        (["digits", "--grid", "lr=0.1", "--engine", "slurm"], "submit"),
        (["digits", "--grid", "lr=0.1", "--engine", "slurm", "--slurm-option", "x"], "--slurm-option needs name=value"),
        (["digits", "--grid", "lr=0.1", "--workers", "0"], "workers needs to be at least 1, got 0."),
    ],
)
def test_sweep_refuses_in_one_line(words, line, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["sweep", *words]) != 0
    said = capsys.readouterr().err.strip()
    assert line in said
    assert "\n" not in said
