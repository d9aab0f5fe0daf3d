"""Further processes that do the same work: they divide it, and end with whoever started them."""

import json
import os
import signal
import sys
import time
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from subprocess import PIPE, Popen, run

import pytest
import torch

from neuronal.cli.app import main
from neuronal.experiments.crew import Crew
from neuronal.experiments.reproduce import read_result, reproduce
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


def test_each_does_the_work_once_with_its_share_of_the_cores(tmp_path):
    before = torch.get_num_threads()
    with Crew(2, partial(leave_a_note, tmp_path)) as crew:
        assert crew.started == 0
        crew.start()
        crew.start()
        assert crew.started == 2
        assert until(lambda: len(list(tmp_path.iterdir())) == 2)
        threads = max(1, min(before, len(os.sched_getaffinity(0)) // 3))
        notes = [note.name.split() for note in tmp_path.iterdir()]
        assert {int(own) for _, own in notes} == {torch.get_num_threads()} == {threads}
        assert str(os.getpid()) not in [pid for pid, _ in notes]
    assert torch.get_num_threads() == before


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
    assert done.stderr == "neuronal: a worker ended and the others go on without it (OSError: No space left.)\n"


def without_times(file):
    rows = read_result(file)["result"]["rows"]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def test_a_table_is_the_same_however_many_make_it(tmp_path):
    made = []
    for workers in (1, 3):
        runs, results = tmp_path / f"runs{workers}", tmp_path / f"results{workers}"
        made.append(reproduce(TABLE1_MNIST_FCN, "smoke", runs=runs, results=results, workers=workers))
    alone, together = map(read_result, made)
    assert without_times(made[0]) == without_times(made[1])
    assert (alone["workers"], together["workers"]) == (1, 3)
    assert alone["command"] == together["command"]


def test_what_cannot_be_divided_is_made_by_one(tmp_path, capsys):
    places = ["--out", str(tmp_path / "runs"), "--results", str(tmp_path / "results")]
    main(["reproduce", "farkas/cutoff", "--scale", "smoke", "--workers", "3", "--json", *places])
    assert json.loads(capsys.readouterr().out)["workers"] == 1


def test_no_worker_is_refused_before_anything_is_made(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "farkas/born_dead", "--scale", "smoke", "--workers", "0"]) == 2
    assert capsys.readouterr().err == "neuronal: --workers needs to be at least 1, got 0.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_launcher_and_workers_are_refused_together(tmp_path, monkeypatch):
    class Several:
        num_processes = 2

    monkeypatch.setattr("neuronal.experiments.reproduce.processes", Several)
    with pytest.raises(ValueError, match="without torchrun"):
        reproduce(REPRODUCTIONS["farkas/born_dead"], "smoke", runs=tmp_path, results=tmp_path, workers=2)
