"""Further processes that do the same work: they divide it, and end with whoever started them."""

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

from neuronal.experiments.crew import Crew

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
        assert torch.get_num_threads() == 1
        crew.start()
        crew.start()
        assert crew.started == 2
        assert until(lambda: len(list(tmp_path.iterdir())) == 2)
        notes = [note.name.split() for note in tmp_path.iterdir()]
        assert {threads for _, threads in notes} == {"1"}
        assert str(os.getpid()) not in [pid for pid, _ in notes]
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("ends_by", ["block", "word"])
def test_they_begin_with_the_start_and_end_with_the_block_or_before(ends_by):
    with Crew(2, partial(time.sleep, 60)) as crew:
        assert active_children() == []
        crew.start()
        assert len(active_children()) == 2
        if ends_by == "word":
            crew.end()
            crew.start()
            assert active_children() == []
    assert active_children() == []


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


@pytest.mark.parametrize("workers", [-1, 0, 9])
def test_too_few_and_too_many_are_refused(workers, monkeypatch):
    monkeypatch.setattr("neuronal.experiments.crew.cores", lambda: 2)
    with pytest.raises(ValueError, match=f"from 1 to 8, 4 for each core, got {workers}"):
        Crew(workers - 1, partial(time.sleep, 60))
