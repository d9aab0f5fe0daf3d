"""Signals, full disks and kills: what is finished is kept, the last line says where, and the same command goes on."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from unittest.mock import DEFAULT, Mock

import pytest
import torch
from safetensors import SafetensorError

import neuronal
from neuronal.convert.checkpoint import save_model
from neuronal.experiments import trial
from neuronal.train.log import read_log

COMPARE = "compare --workers 1 --model fcn --widths 8 --epochs 1 --neurons standard,zero_bias --seeds 0"
TRAIN = "train digits --set model=fcn --set widths=16"
CODES = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


def begun(words, until, **options):
    """The command in a process of its own, once ``until()`` holds."""
    command = [sys.executable, "-m", "neuronal", *words.split()]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)
    deadline = time.monotonic() + 90
    while not until():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return running


def ended(running, number):
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert "Traceback" not in err
    return running.returncode, err


@pytest.mark.parametrize("seconds", [0.3, 0.6, 0.9, 1.5])
def test_sigterm_while_starting_is_a_clean_stop(seconds):
    running = begun("compare", lambda: True)
    time.sleep(seconds)
    assert ended(running, signal.SIGTERM)[0] in (143, -signal.SIGTERM)


GREEDY = """import time
print("importing", flush=True)
try:
    time.sleep(60)
except BaseException:
    print("swallowed", flush=True)
"""
IMPORTING = "from neuronal.cli.interrupts import interruptions\nwith interruptions():\n    import greedy"
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


def started(program, first, folder):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = subprocess.Popen([sys.executable, "-c", program], cwd=folder, **pipes)
    assert running.stdout.readline() == first
    return running


@pytest.mark.parametrize(("number", "code"), CODES)
def test_during_an_import_that_would_swallow_it_an_interrupt_ends_the_process(number, code, tmp_path):
    (tmp_path / "greedy.py").write_text(GREEDY)
    running = started(IMPORTING, "importing\n", tmp_path)
    running.send_signal(number)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (code, "")
    assert "stopped" in err


@pytest.mark.parametrize(("number", "what"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "Terminated")])
def test_the_first_interrupt_is_an_exception_and_a_second_one_ends_the_process(number, what, tmp_path):
    running = started(TIDYING, "working\n", tmp_path)
    running.send_signal(number)
    assert running.stdout.readline() == f"{what}\n"
    running.send_signal(number)
    assert running.communicate(timeout=30) == ("", "")
    assert running.returncode == -number


def test_a_command_in_the_background_goes_on_ignoring_ctrl_c():
    program = (
        "import os, signal\nfrom neuronal.cli.interrupts import interruptions\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "with interruptions():\n    os.kill(os.getpid(), signal.SIGINT)\n    print(1)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 143)])
def test_a_terminal_stops_workers_too_and_they_say_nothing(tmp_path, number, code):
    """A terminal sends it to every process of the command."""
    words = "sweep digits --grid model=fcn --grid lr=0.001,0.01 --grid seed=0-9 --grid epochs=20 --workers 2"
    running = begun(words, lambda: list(tmp_path.glob("runs/*/cells/*.json")), start_new_session=True)
    os.killpg(running.pid, number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == code
    assert "Traceback" not in err
    assert "of 20 trials are finished and kept" in err.splitlines()[-1]
    assert len(err.splitlines()) == 1 + err.count("seed")
    deadline = time.monotonic() + 5
    while is_there(running.pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_there(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(("number", "code"), [*CODES, (signal.SIGKILL, -9)])
def test_a_stopped_comparison_keeps_its_cells_and_goes_on(number, code, call):
    cells = Path("runs/digits-fcn/cells")
    words = f"{COMPARE} --epochs 20 --seeds"
    returned, err = ended(begun(f"{words} 0-40", lambda: len(list(cells.glob("*.json"))) > 1), number)
    assert returned == code
    done = len(list(cells.glob("*.json")))
    if number != signal.SIGKILL:
        assert f"{done} of 82 trials are finished and kept in runs/digits-fcn." in err.splitlines()[-1]
        assert not list(cells.glob(".*.partial"))
    code, _, err = call(f"{words} 0")
    assert code == 0
    assert err.count("kept from before") == 2


def test_stopping_a_fresh_sweep_counts_only_its_own_cells(call, monkeypatch):
    call(COMPARE)
    monkeypatch.setattr(trial, "trained", Mock(side_effect=KeyboardInterrupt))
    code, _, err = call(f"{COMPARE} --fresh")
    assert code == 130
    assert "0 of 2 trials" in err
    assert "without --fresh" in err


def test_a_full_disk_is_said_and_finished_cells_are_kept(call, monkeypatch):
    # DEFAULT: the real one writes.
    disk = Mock(wraps=trial.write, side_effect=[DEFAULT, OSError(28, "No space left on device")])
    monkeypatch.setattr(trial, "write", disk)
    code, _, err = call(COMPARE)
    assert code == 1
    last = err.splitlines()[-1]
    assert "No space left on device" in last
    assert "1 of 2 trials are finished and kept in runs/digits-fcn." in last


def test_a_killed_training_goes_on_to_the_same_weights(call):
    words = f"{TRAIN} --set epochs=40 --every 3"
    place = Path("runs/digits-standard/checkpoints")
    ended(begun(words, lambda: len(list(place.glob("step-*"))) > 2), signal.SIGKILL)
    assert not Path("runs/digits-standard/model.safetensors").exists()
    assert call(words)[0] == call(f"{words} --name whole")[0] == 0
    folders = [Path("runs/digits-standard"), Path("runs/whole")]
    one, other = (neuronal.load_model(folder / "model.safetensors").state_dict() for folder in folders)
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    assert [[epoch.number for epoch in read_log(f / "log.jsonl")] for f in folders] == [list(range(1, 41))] * 2


def test_a_second_training_in_one_folder_waits_and_ends_with_the_same(call):
    folder, words = Path("runs/digits-standard"), f"{TRAIN} --set epochs=3 --every 1"
    folder.mkdir(parents=True)
    is_held = Event()

    def hold():
        with trial.lock(folder / "training"):
            is_held.set()
            time.sleep(2)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold)
        assert is_held.wait(10)
        code, _, err = call(words)
    assert code == 0
    assert "neuronal: waiting for another neuronal train in runs/digits-standard" in err
    assert call(words)[0] == 0
    assert [epoch.number for epoch in read_log(folder / "log.jsonl")] == [1, 2, 3]


@pytest.mark.parametrize(("number", "code"), CODES)
@pytest.mark.parametrize(("every", "kept"), [("2", "the state of step "), ("99999", "no checkpoint yet")])
def test_a_stopped_training_says_from_where_it_goes_on(number, code, every, kept):
    log = Path("runs/digits-standard/log.jsonl")
    running = begun(
        f"{TRAIN} --set epochs=4000 --every {every}", lambda: log.exists() and log.read_text().count("\n") > 1
    )
    returned, err = ended(running, number)
    assert returned == code
    assert kept in err.splitlines()[-1]
    assert ("goes on" in err.splitlines()[-1]) == (every == "2")


def test_a_diverging_training_says_where_and_keeps_the_last_good_state(call):
    code, _, err = call(f"{TRAIN} --set optim=sgd --set lr=1e30 --set momentum=0 --every 1")
    assert code == 1
    assert "the state of step " in err.splitlines()[-1]
    assert not Path("runs/digits-standard/model.safetensors").exists()


def full_log(patch):
    full = OSError(28, "No space left on device", "runs/digits-standard/log.jsonl")
    patch.setattr("neuronal.train.log.Log.__call__", Mock(side_effect=full))


def full_at_the_very_end(patch):
    full = SafetensorError("I/O error: No space left on device (os error 28)")

    def save(model, path):
        with patch.context() as inner:
            inner.setattr("safetensors.torch.save_file", Mock(side_effect=full))
            save_model(model, path)

    patch.setattr("neuronal.convert.checkpoint.save_model", save)


@pytest.mark.parametrize(
    ("fill", "every", "file", "step"), [(full_log, 1, "log.jsonl", 19), (full_at_the_very_end, 5, "model", 57)]
)
def test_a_full_disk_says_from_where_a_training_goes_on(call, monkeypatch, fill, every, file, step):
    with monkeypatch.context() as patch:
        fill(patch)
        code, _, err = call(f"{TRAIN} --set epochs=3 --every {every}")
    assert code == 1
    last = err.splitlines()[-1]
    assert f"cannot use runs/digits-standard/{file}" in last
    assert f"the state of step {step} is kept" in last
    assert call(f"{TRAIN} --set epochs=3")[0] == 0
