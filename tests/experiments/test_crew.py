"""Further processes that do the same work: they divide it, and end with whoever started them."""

import errno
import json
import os
import signal
import sys
import time
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from subprocess import PIPE, Popen, run
from threading import Thread

import pytest
import torch

from neuronal.cli.app import main
from neuronal.experiments.crew import Crew
from neuronal.experiments.reproduce import read_result, reproduce
from neuronal.experiments.work import NothingLeft, Work
from neuronal.recipes import REPRODUCTIONS
from neuronal.recipes.zero_bias.table1 import TABLE1_MNIST_FCN

SLEEPING = """
import time
from functools import partial
from multiprocessing import active_children
from neuronal.experiments.crew import Crew
with Crew(2, partial(time.sleep, 60)) as crew:
    crew.start()
    print(*(child.pid for child in active_children()), flush=True)
    time.sleep(60)
"""
FAILING = """
from multiprocessing import active_children
from neuronal.experiments.crew import Crew
from tests.experiments.test_crew import fill_the_disk
with Crew(1, fill_the_disk) as crew:
    crew.start()
    active_children()[0].join(60)
    print(crew.num_lost(), "lost")
"""


def fill_the_disk() -> None:
    raise OSError("No space left.\nOn no device.")


def leave_a_note(folder: Path) -> None:
    (folder / f"{os.getpid()} {torch.get_num_threads()}").touch()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(reached, seconds=60.0) -> bool:
    end = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_each_does_the_work_once_with_one_thread(tmp_path):
    with Crew(2, partial(leave_a_note, tmp_path)) as crew:
        assert crew.started == 0
        assert torch.get_num_threads() == 1
        crew.start()
        crew.start()
        assert crew.started == 2
        assert until(lambda: len(list(tmp_path.iterdir())) == 2)
        notes = [note.name.split() for note in tmp_path.iterdir()]
        assert {threads for _, threads in notes} == {"1"}
        assert str(os.getpid()) not in [pid for pid, _ in notes]
        crew.end()
        assert active_children() == []
        crew.start()
        assert active_children() == []
    assert torch.get_num_threads() == 2


def test_without_a_start_there_are_none():
    with Crew(2, partial(time.sleep, 60)) as crew:
        assert active_children() == []
    assert crew.started == 0


def test_they_end_with_the_block():
    with Crew(2, partial(time.sleep, 60)) as crew:
        crew.start()
        pids = [child.pid for child in active_children()]
        assert all(map(is_running, pids))
    assert len(pids) == 2
    assert not any(map(is_running, pids))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_they_end_with_their_process(number):
    with Popen([sys.executable, "-c", SLEEPING], stdout=PIPE, text=True) as first:
        pids = [int(pid) for pid in first.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(is_running, pids))
        first.send_signal(number)
    assert until(lambda: not any(map(is_running, pids)))


def test_one_that_fails_says_so_in_a_line():
    # By a process of its own: workers write where the first of them did.
    done = run([sys.executable, "-c", FAILING], capture_output=True, text=True)
    assert done.stderr == "neuronal: a worker ended (OSError: No space left.)\n"
    assert done.stdout == "1 lost\n"


def without_times(values):
    if isinstance(values, dict):
        return {key: without_times(value) for key, value in values.items() if "seconds" not in key}
    return [without_times(value) for value in values] if isinstance(values, list) else values


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("name", ["zero_bias/table1_mnist_fcn", "geometric/levy"])
def test_a_table_is_the_same_however_many_make_it(name, tmp_path):
    answers = []
    for workers in (1, 3):
        runs, results = tmp_path / f"runs{workers}", tmp_path / f"results{workers}"
        answers.append(
            read_result(reproduce(REPRODUCTIONS[name], "smoke", runs=runs, results=results, workers=workers))
        )
    assert without_times(answers[0]["result"]) == without_times(answers[1]["result"])
    assert [answer["workers"] for answer in answers] == [1, 3]
    assert answers[0]["command"] == answers[1]["command"]
    assert all("1 threads" in answer["environment"]["processor"] for answer in answers)


def test_nobody_is_started_for_what_is_there(tmp_path):
    for workers in (1, 3):
        file = reproduce(TABLE1_MNIST_FCN, "smoke", runs=tmp_path, results=tmp_path, workers=workers)
    assert read_result(file)["workers"] == 1


def test_what_a_worker_leaves_is_made_by_the_others(tmp_path, capsys):
    alone, together = tmp_path / "alone", tmp_path / "together"
    whole = reproduce(REPRODUCTIONS["zero_bias/expressiveness"], "smoke", runs=alone, results=alone)
    killed = []

    def kill_one():
        # As soon as one of them has begun with something.
        until(lambda: len(active_children()) == 2 and len(list(together.rglob("*.claim"))) > 1)
        victim = active_children()[0]
        victim.kill()
        killed.append(victim.pid)

    killer = Thread(target=kill_one)
    killer.start()
    said = []
    file = reproduce(
        REPRODUCTIONS["zero_bias/expressiveness"],
        "smoke",
        runs=together,
        results=together,
        workers=3,
        say=said.append,
    )
    killer.join()
    assert len(killed) == 1
    assert read_result(file)["result"] == read_result(whole)["result"]


def test_what_is_timed_is_timed_alone(tmp_path):
    with Crew(1, partial(time.sleep, 60)) as crew:
        crew.start()
        Work(tmp_path, crew=crew).alone()
        assert active_children() == []
    with pytest.raises(NothingLeft):
        Work(tmp_path, helps=True).alone()


def test_waiting_is_said_once_and_so_is_a_death(tmp_path):
    said = []
    with Crew(2, partial(time.sleep, 60)) as crew:
        work = Work(tmp_path, say=said.append, crew=crew)
        crew.start()
        work._wait(2)
        work._wait(2)
        active_children()[0].kill()
        assert until(lambda: crew.num_lost() == 1)
        work._wait(2)
    assert said == [
        "waiting for 2 that other processes make",
        "waiting for 2 that other processes make; 1 of 2 workers died",
    ]


def test_what_cannot_be_divided_is_made_by_one(tmp_path, capsys):
    places = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    main(["reproduce", "farkas/cutoff", "--scale", "smoke", "--workers", "3", "--json", *places])
    assert json.loads(capsys.readouterr().out)["workers"] == 1


@pytest.mark.parametrize("workers", [-1, 0, 1000])
def test_too_few_and_too_many_are_refused_before_anything_is_made(workers, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("neuronal.experiments.crew.cores", lambda: 2)
    assert main(["reproduce", "farkas/born_dead", "--scale", "smoke", "--workers", str(workers)]) == 2
    assert capsys.readouterr().err == f"neuronal: --workers needs to be from 1 to 8, 4 for each core, got {workers}.\n"
    assert list(tmp_path.iterdir()) == []


def test_without_locks_there_are_no_workers(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("neuronal.experiments.claim.fcntl.flock", refused)
    options = {"runs": tmp_path / "runs", "results": tmp_path / "results"}
    with pytest.raises(ValueError, match=r"needs a file system with locks, .*runs has none. Choose .* --out"):
        reproduce(REPRODUCTIONS["farkas/born_dead"], "smoke", workers=2, **options)
    reproduce(REPRODUCTIONS["farkas/born_dead"], "smoke", **options)


def test_a_launcher_and_workers_are_refused_together(tmp_path, monkeypatch):
    class Several:
        num_processes = 2

    monkeypatch.setattr("neuronal.experiments.reproduce.processes", Several)
    with pytest.raises(ValueError, match="without torchrun"):
        reproduce(REPRODUCTIONS["farkas/born_dead"], "smoke", runs=tmp_path, results=tmp_path, workers=2)
