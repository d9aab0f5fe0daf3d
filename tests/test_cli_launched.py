"""The commands under a launcher: two processes over gloo, one terminal, one set of files."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import neuronal
from tests.conftest import ROOT

QUICK = ["--model", "fcn", "--widths", "8", "--epochs", "1", "--neurons", "standard,zero_bias", "--seeds", "0"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def launched(*words, **more):
    """Exit code, standard output and standard error of each of two processes, on CPUs if there is nothing else."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    shared |= {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "COLUMNS": "100"}
    shared |= more
    if torch.cuda.is_available():
        shared["ACCELERATE_USE_CPU"] = "true"
    command = [sys.executable, "-m", "neuronal", *words]
    running = [
        subprocess.Popen(
            command,
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=100) for process in running]
    return [(process.returncode, *both) for process, both in zip(running, said, strict=True)]


def test_compare_trains_together_and_speaks_once():
    first, second = launched("compare", *QUICK)
    assert first[0] == second[0] == 0, first[2] + second[2]
    assert "fcn on digits, 1 seed" in first[1]
    assert "zero_bias seed 0: " in first[2]
    assert second[1:] == ("", "")
    files = sorted(file.name for file in Path("runs/digits-fcn").rglob("*") if file.is_file())
    assert len(files) == 5
    assert files[0] == "costs.json"
    assert files[1:3] == ["report.html", "standard-seed0-" + files[2][-13:]]
    # A damaged record is set aside once, and both processes train its cell again.
    (record,) = Path("runs/digits-fcn/cells").glob("zero_bias*")
    record.write_text("{ half")
    first, second = launched("compare", *QUICK, "--json")
    assert first[0] == second[0] == 0, first[2] + second[2]
    assert json.loads(first[1])["comparison"]
    assert first[2].count("kept from before") == 1
    assert second[1:] == ("", "")
    assert len(list(Path("runs/digits-fcn/cells").glob("*.damaged1"))) == 1


def test_sweep_says_where_its_cells_go():
    words = [
        "sweep",
        "digits",
        *["--grid", "lr=0.1,0.01", "--grid", "seeds=0", "--grid", "model=fcn", "--grid", "epochs=1"],
    ]
    first, second = launched(*words)
    assert first[0] == second[0] == 2
    assert "--engine processes starts processes of its own: run neuronal sweep without torchrun." in first[2]
    assert first[2].count("\n") == 1
    assert second[2].startswith("neuronal, process 1: ")
    first, second = launched(*words, "--engine", "here")
    assert first[0] == second[0] == 0, first[2] + second[2]
    assert "held-out accuracy in %" in " ".join(first[1].split())
    assert second[1:] == ("", "")


@pytest.mark.parametrize("spread", ["false", "true"])
def test_train_writes_one_model_and_one_log(spread):
    """With a copy of the network in each process, and with the network spread over both."""
    words = ["train", "digits", *["--set", "model=fcn", "--set", "epochs=2", "--set", "protocol=published", "--json"]]
    first, second = launched(*words, ACCELERATE_USE_FSDP=spread)
    assert first[0] == second[0] == 0, first[2] + second[2]
    answer = json.loads(first[1])
    assert second[1:] == ("", "")
    assert len(Path("runs/digits-standard/log.jsonl").read_text().splitlines()) == 2
    data = neuronal.data.load("digits").test
    right = (neuronal.load_model(answer["model"])(data.x).argmax(1) == data.y).float().mean().item()
    assert right == pytest.approx(answer["metrics"]["accuracy"])


@pytest.mark.parametrize("name", ["zero_image", "interpolation"])
def test_reproduce_trains_together_and_speaks_once(name):
    for _ in range(2):
        first, second = launched("reproduce", f"zero_bias/{name}", "--scale", "smoke")
        assert first[0] == second[0] == 0, first[2] + second[2]
        assert f"result: results/zero_bias/{name}.smoke.json" in first[1]
        assert second[1:] == ("", "")
