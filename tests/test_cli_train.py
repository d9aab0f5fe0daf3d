import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

import neuronal
from neuronal.cli import app as cli
from neuronal.convert.checkpoint import save_model
from neuronal.train.log import read_log

WORDS = ["train", "digits", "--set", "model=fcn", "--set", "widths=16", "--set", "epochs=3", "--neuron", "zero_bias"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_train_leaves_a_model_a_record_and_a_log(capsys):
    assert cli.main([*WORDS, "--json"]) == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert "epoch 3 of 3: loss" in err
    model = neuronal.load_model(answer["model"])
    data = neuronal.data.load("digits")
    right = (model(data.test.x).argmax(1) == data.test.y).float().mean().item()
    assert right == pytest.approx(answer["metrics"]["accuracy"])
    folder = Path("runs/digits-zero_bias")
    assert [epoch.number for epoch in read_log(folder / "log.jsonl")] == [1, 2, 3]
    (record,) = folder.glob("zero_bias-seed0-*.json")
    assert json.loads(record.read_text())


def test_a_killed_training_goes_on_to_the_same_weights(capsys):
    words = [*WORDS[:6], "--set", "epochs=40", "--every", "3"]
    running = subprocess.Popen([sys.executable, "-m", "neuronal", *words], stderr=subprocess.PIPE, text=True)
    place = Path("runs/digits-standard/checkpoints")
    deadline = time.monotonic() + 90
    while len(list(place.glob("step-*"))) < 3:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    assert not Path("runs/digits-standard/model.safetensors").exists()
    assert cli.main(words) == 0
    assert cli.main([*words, "--name", "whole"]) == 0
    one, other = (
        neuronal.load_model(f"runs/{name}/model.safetensors").state_dict() for name in ("digits-standard", "whole")
    )
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    numbers = [[epoch.number for epoch in read_log(f"runs/{name}/log.jsonl")] for name in ("digits-standard", "whole")]
    assert numbers == [list(range(1, 41))] * 2


def test_a_diverging_training_says_where_and_keeps_the_last_good_state(capsys):
    words = [*WORDS[:-2], "--set", "optim=sgd", "--set", "lr=1e30", "--set", "momentum=0", "--every", "1"]
    assert cli.main(words) == 1
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "the loss became" in said
    assert "; the state of step " in said
    assert "is kept in runs/digits-standard/checkpoints." in said
    assert not Path("runs/digits-standard/model.safetensors").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["nothing"], "Unknown recipe 'nothing'."),
        (["--set", "speed=1"], "Unknown axis of a grid 'speed'."),
        (["--set", "flip=maybe"], "--set flip needs true or false, got 'maybe'."),
        (["--set", "fraction=2"], "fraction needs to be in (0, 1]"),
        (["--set", "scaling=wild"], "Unknown scaling 'wild'."),
        (["--neuron", "nothing"], "Unknown neuron 'nothing'."),
        (["--set", "norm=batch", "--neuron", "zero_bias"], "the class would depend on contrast"),
        (["--model-option", "widht=3", "--set", "model=mlp1"], "Unknown option of model 'mlp1' 'widht'."),
        (["--model-option", "width"], "--model-option needs name=value, got 'width'."),
        (["--set", "model_options=3"], "model options are given one by one: --model-option name=value."),
        (["--set", "lr=0.1,0.2"], "--set takes one value for a field"),
        (["--set", "seed=3"], "the seed is given with --seed"),
        (["--seed", "-1"], "seeds need to be whole numbers from 0, got -1."),
        (["--name", "../x"], "--name needs a folder below --out, got '../x'."),
        (["--every", "0"], "checkpoints need every to be"),
    ],
)
def test_train_refuses_in_one_line(words, line, capsys):
    assert cli.main(["train", *words]) != 0
    said = capsys.readouterr().err.strip()
    assert line in said
    assert "\n" not in said


def test_a_training_of_another_recipe_is_not_taken_for_this_one(capsys):
    words = ["train", "--set", "model=vit_tiny", "--model-option", "width=12", "--model-option", "depth=1"]
    words += ["--set", "epochs=1", "--set", "fraction=0.1", "--set", "probes=dead_units", "--name", "one"]
    assert cli.main([*words]) == 0
    for field, value in (("crop", "2"), ("contrast", "0.1,1"), ("scaling", "standardise"), ("protocol", "published")):
        assert cli.main([*words, "--set", f"{field}={value}"]) == 2
        assert f" has {field} = nothing, this one's" in capsys.readouterr().err
    # Other heads have the same tensors.
    assert cli.main([*words, "--model-option", "num_heads=2"]) == 2
    assert "its recipe has model_options" in capsys.readouterr().err
    # What is measured afterwards may change, and the training be found finished.
    assert cli.main([*words[:-3], "probes=contrast", *words[-2:]]) == 0
    assert len(list(Path("runs/one").glob("standard-seed0-*.json"))) == 2


def test_model_options_are_taken_by_every_command_that_trains(capsys):
    more = ["--model-option", "width=7", "--json"]
    assert cli.main(["train", "digits", "--set", "model=mlp1", "--set", "epochs=1", *more]) == 0
    model = neuronal.load_model(json.loads(capsys.readouterr().out)["model"])
    assert model.head.in_features == 7
    assert cli.main(["sweep", "digits", "--grid", "model=mlp1", "--grid", "epochs=1", "--engine", "here", *more]) == 0
    assert json.loads(capsys.readouterr().out)["grid"]["recipe"]["model_options"] == {"width": 7}
    words = ["--model", "mlp1", "--epochs", "1", "--neurons", "standard", "--seeds", "0"]
    assert cli.main(["compare", *words, *more]) == 0
    row = json.loads(capsys.readouterr().out)["comparison"]["rows"][0]
    assert row["estimates"]["parameters"]["mean"] == 64 * 7 + 7 + 7 * 10 + 10


def test_too_little_data_is_said_before_training(tmp_path, capsys):
    (tmp_path / "few.csv").write_text("a,b,word\n1,2,yes\n3,4,no\n5,6,yes\n7,8,no\n")
    words = ["train", "digits", "--set", f"data={tmp_path / 'few.csv'}", "--set", "model=fcn", "--set", "scaling=unit"]
    assert cli.main(words) == 2
    assert "few has nothing to test on: 4 rows are too few to keep a fifth back." in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("every", ["2", "99999"])
def test_a_stopped_training_says_from_where_it_goes_on(number, code, every):
    words = [*WORDS[:6], "--set", "epochs=4000", "--every", every]
    running = subprocess.Popen([sys.executable, "-m", "neuronal", *words], stderr=subprocess.PIPE, text=True)
    log = Path("runs/digits-standard/log.jsonl")
    deadline = time.monotonic() + 90
    while not (log.exists() and log.read_text().count("\n") > 1):
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    running.send_signal(number)
    said = running.communicate(timeout=60)[1].strip().splitlines()[-1]
    assert running.returncode == code
    kept = "the state of step " if every == "2" else "there is no checkpoint yet (see --every)."
    assert said.startswith(f"neuronal: stopped; {kept}")
    assert said.endswith(f"The same command {'goes on from there' if every == '2' else 'begins again'}.")


def test_a_full_disk_says_from_where_it_goes_on(capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "runs/digits-zero_bias/log.jsonl")

    with monkeypatch.context() as patch:
        patch.setattr("neuronal.train.log.Log.__call__", full)
        assert cli.main([*WORDS, "--every", "1"]) == 1
    said = capsys.readouterr().err.strip()
    assert "cannot use runs/digits-zero_bias/log.jsonl (No space left on device)." in said
    assert "the state of step 19 is kept in runs/digits-zero_bias/checkpoints. The same command goes on" in said
    assert "\n" not in said
    assert cli.main(WORDS) == 0


def test_a_full_disk_at_the_very_end_keeps_the_training(capsys, monkeypatch):
    def full(*_, **__):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    def save(model, path):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("safetensors.torch.save_file", full)
            save_model(model, path)

    with monkeypatch.context() as patch:
        patch.setattr("neuronal.convert.checkpoint.save_model", save)
        assert cli.main([*WORDS, "--every", "5"]) == 1
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "cannot use runs/digits-zero_bias/model.safetensors (I/O error: No space left on device" in said
    assert "the state of step 57 is kept" in said
    assert cli.main(WORDS) == 0


def test_the_board_is_told_of_every_epoch(monkeypatch):
    told = []

    class Recorder:
        def __init__(self, folder):
            assert folder == Path("runs/digits-zero_bias/board")

        def __call__(self, epoch):
            told.append(epoch.number)

    monkeypatch.setattr("neuronal.train.board.Board", Recorder)
    assert cli.main([*WORDS, "--board"]) == 0
    assert told == [1, 2, 3]
