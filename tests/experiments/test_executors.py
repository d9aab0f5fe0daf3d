"""Every executor gives the records of one process, whatever dies: with a real scheduler and two workers."""

import os
import signal
import ssl
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from socket import create_connection
from threading import Thread

import pytest
import torch

from neuronal.core.files import write_whole
from neuronal.experiments import executors
from neuronal.experiments.cells import Grid
from neuronal.experiments.executors import InProcess, WorkerError, executor_for
from neuronal.experiments.sweep import sweep
from neuronal.experiments.trial import UNFINISHED, Task, check_shared, complete, lock
from tests.conftest import ROOT
from tests.experiments.listener import Listener, numbers


@pytest.fixture(scope="module")
def two():
    """Two workers of this machine, and what they are given to do."""
    with executor_for(2) as executor:
        yield executor


@pytest.fixture(scope="module")
def grid(quick):
    return Grid(replace(quick, seeds=(0, 1, 2), epochs=2, probes=()), (("lr", (1e-3, 1e-2)),))


@pytest.fixture(scope="module")
def expected(grid, tmp_path_factory):
    return [numbers(record) for record in sweep(grid, tmp_path_factory.mktemp("in turn"))]


def swept(grid, folder, executor=None, watch=None):
    return [numbers(record) for record in sweep(grid, folder, executor=executor, watch=watch)]


def test_workers_give_the_records_of_one_process_and_tell_as_much(grid, expected, two, tmp_path):
    listener, again = Listener(), Listener()
    assert swept(grid, tmp_path, two, listener) == expected
    assert len(listener.trained) == len(listener.started) == 6
    assert sorted(listener.epochs) == [1] * 6 + [2] * 6
    assert two.num_workers == 2
    # All of it is there; nothing is left of the way.
    assert swept(grid, tmp_path, two, again) == expected
    assert (len(again.reused), again.trained) == (6, [])
    assert {path.suffix for path in (tmp_path / "cells" / UNFINISHED).iterdir()} == {".lock"}


@pytest.mark.parametrize(
    "pool",
    [partial(ProcessPoolExecutor, 1, get_context("spawn")), partial(ThreadPoolExecutor, 1)],
    ids=["processes", "threads"],
)
def test_any_executor(grid, expected, pool, tmp_path):
    one = replace(grid, recipe=replace(grid.recipe, seeds=(0,)))
    with pool() as executor:
        assert swept(one, tmp_path, executor) == expected[:2]


def note(folder, number, tell, is_alone):
    """Slow enough to be killed on the way; its file is whole or not there."""
    note_begin(folder, number)
    time.sleep(0.4)
    write_whole(folder / f"{number}.txt", f"{number} {torch.get_num_threads()}")
    return number


def note_begin(folder, number):
    with (folder / "begun").open("a") as file:
        file.write(f"{number} {os.getpid()}\n")


def kept(path):
    return path.read_text() if path.exists() else None


def tasks(folder, count, make=note):
    return {
        n: Task(folder / f"{n}.txt", partial(kept, folder / f"{n}.txt"), partial(make, folder, n)) for n in range(count)
    }


def begun(folder):
    """Number and process of every try."""
    file = folder / "begun"
    return [tuple(map(int, line.split())) for line in file.read_text().splitlines()] if file.exists() else []


def until(reached, seconds=60.0):
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextmanager
def beside(action):
    """The action in a thread; its exception is this test's."""
    wrong = []

    def run():
        try:
            action()
        except BaseException as error:
            wrong.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    yield
    thread.join(60)
    assert wrong == []


def test_a_worker_killed_in_the_middle_is_started_again_and_its_task_done_again(two, tmp_path):
    def kill():
        until(lambda: begun(tmp_path))
        os.kill(begun(tmp_path)[0][1], signal.SIGKILL)

    with beside(kill):
        assert sorted(item for item, _ in complete(two, tasks(tmp_path, 4))) == [0, 1, 2, 3]
    tries = [number for number, _ in begun(tmp_path)]
    assert len(tries) == 5
    # One thread each.
    assert [(tmp_path / f"{n}.txt").read_text() for n in range(4)] == [f"{n} 1" for n in range(4)]


def test_a_worker_added_late_takes_its_share(tmp_path):
    with executor_for(2) as executor:
        executor.expect(1)
        with beside(lambda: (until(lambda: begun(tmp_path)), executor.expect(2))):
            assert len(list(complete(Given(executor), tasks(tmp_path, 12)))) == 12
    assert len({pid for _, pid in begun(tmp_path)}) == 2


class Given(ThreadPoolExecutor):
    """An executor that starts nobody."""

    def __init__(self, executor):
        super().__init__(1)
        self.submit = executor.submit


def starve(folder, number, tell, is_alone):
    """Takes more memory than there is, as the machine or torch says it."""
    if number == 0:
        raise MemoryError
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")


@pytest.mark.parametrize("number", [0, 1])
def test_what_runs_out_of_memory_is_tried_again_alone_and_then_said_in_one_line(two, tmp_path, number):
    def make(folder, own, tell, is_alone):
        return (starve if own == number else note)(folder, own, tell, is_alone)

    every = complete(two, tasks(tmp_path, 3, make))
    assert {next(every)[0] for _ in range(2)} == {0, 1, 2} - {number}
    with pytest.raises(
        WorkerError, match=rf"^{number}.txt failed 3 times: out of memory \(.*\)\. Take smaller batches"
    ) as error:
        next(every)
    assert "\n" not in str(error.value)


def swell(folder, number, tell, is_alone):
    grown = []
    while True:
        grown.append(torch.ones(2**23, dtype=torch.float64))


def test_a_task_that_takes_more_than_its_share_of_memory_is_given_up_and_the_others_are_kept(tmp_path):
    with executor_for(1, memory=550_000_000) as executor:
        assert len(list(complete(executor, tasks(tmp_path, 1)))) == 1
        with pytest.raises(WorkerError, match=r"^the worker of 0.txt died 4 times; out of memory\?$"):
            list(complete(executor, tasks(tmp_path / "large", 1, swell)))


def test_a_stranger_cannot_connect_to_the_workers_of_this_machine(two):
    """Whoever opens a connection without the keys of the command is told nothing: dask speaks first to whom it accepts."""
    assert two.submit(sum, [1, 2]).result() == 3
    host, port = two._local.scheduler_address.removeprefix("tls://").split(":")
    assert host == "127.0.0.1"
    stranger = ssl.create_default_context()
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    try:
        with create_connection((host, int(port)), timeout=30) as raw, stranger.wrap_socket(raw) as connection:
            heard = connection.recv(1)
    except (ssl.SSLError, ConnectionError):
        heard = b""
    assert not heard


def test_what_is_wrong_is_not_tried_again(two, tmp_path):
    def refuse(folder, number, tell, is_alone):
        note_begin(folder, number)
        raise ValueError("no such data.")

    with pytest.raises(ValueError, match=r"^no such data\.$"):
        list(complete(two, tasks(tmp_path, 1, refuse)))
    assert len(begun(tmp_path)) == 1


@pytest.mark.parametrize("where", ["here", "two"])
def test_what_another_command_makes_is_waited_for_and_taken(two, tmp_path, where):
    """Of three, one is being made by another process: the others come first."""
    executor, order = two if where == "two" else InProcess(), []
    with ExitStack() as other:
        # A lock of this process holds against its own threads and tasks too.
        assert other.enter_context(lock(tmp_path / "0.txt"))
        for item, made in complete(executor, tasks(tmp_path, 3)):
            order.append((item, made))
            if len(order) == 2:
                (tmp_path / "0.txt").write_text("theirs")
                other.close()
    assert sorted(order[:2]) == [(1, 1), (2, 2)]
    assert order[2] == (0, "theirs")
    assert {number for number, _ in begun(tmp_path)} == {1, 2}


SCHEDULER = [
    sys.executable,
    "-m",
    "distributed.cli.dask_scheduler",
    "--no-dashboard",
    "--port",
    "0",
    "--scheduler-file",
]
WORKER = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-dashboard", "--nthreads", "1", "--nworkers", "2"]


def test_a_scheduler_of_the_users_and_how_it_is_lost(tmp_path):
    """What is finished is kept; the loss is one line."""
    import json

    file, paths = tmp_path / "scheduler.json", {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path, "env": os.environ | paths}
    scheduler = subprocess.Popen([*SCHEDULER, str(file)], **quiet)
    worker = subprocess.Popen([*WORKER, "--scheduler-file", str(file)], **quiet)
    try:
        until(file.exists)
        with executor_for(cluster=json.loads(file.read_text())["address"]) as executor:
            every = complete(executor, tasks(tmp_path, 40))
            first = [next(every)[0] for _ in range(3)]
            scheduler.kill()
            with pytest.raises(WorkerError, match=r"^the scheduler of the workers is gone \(.*\)\.$"):
                list(every)
        assert all((tmp_path / f"{n}.txt").exists() for n in first)
    finally:
        for process in (worker, scheduler):
            process.terminate()
            process.wait()


def test_nobody_answers(monkeypatch):
    monkeypatch.setattr(executors, "PATIENCE", 1)
    with (
        pytest.raises(ValueError, match=r"^no scheduler answers at tcp://127.0.0.1:9\. "),
        executor_for(cluster="tcp://127.0.0.1:9") as executor,
    ):
        executor.expect(1)


def test_a_folder_that_workers_do_not_see_is_refused(two, tmp_path):
    class Elsewhere(ThreadPoolExecutor):
        def submit(self, fn, /, *words, **options):
            return super().submit(lambda: False)

    check_shared(two, tmp_path)
    with Elsewhere(1) as elsewhere, pytest.raises(ValueError, match="do not see the folder"):
        check_shared(elsewhere, tmp_path)


@pytest.mark.parametrize("name", ["workers", "threads", "memory"])
def test_wrong_numbers_are_refused(name):
    with pytest.raises(ValueError, match=f"--{name} needs to be .*, got 0"), executor_for(**{name: 0}):
        pass


def test_too_many_workers_are_refused(monkeypatch):
    monkeypatch.setattr(executors, "cores", lambda: 2)
    with pytest.raises(ValueError, match="from 1 to 8, 4 for each core, got 9"), executor_for(workers=9):
        pass


def test_one_worker_is_this_process_with_as_many_threads():
    before = torch.get_num_threads()
    with executor_for(1, threads=2) as executor:
        assert isinstance(executor, InProcess)
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == before


ORPHANS = """
import sys, time
from pathlib import Path
from neuronal.experiments.executors import InProcess, WorkerError, executor_for, start_method
from tests.experiments.test_executors import linger

if __name__ == "__main__":
    with executor_for(2) as executor:
        for n in range(2):
            executor.submit(linger, Path(sys.argv[1]), n)
        time.sleep(100)
"""


def linger(folder, number):
    (folder / f"{number}").write_text(str(os.getpid()))
    time.sleep(100)


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes in /proc")
def test_workers_end_with_the_process_that_started_them_however_it_ends(tmp_path):
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS)
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    parent = subprocess.Popen([sys.executable, script, tmp_path], cwd=tmp_path, env=os.environ | paths)
    try:
        until(lambda: all((tmp_path / f"{n}").exists() and (tmp_path / f"{n}").read_text() for n in range(2)))
        pids = [int((tmp_path / f"{n}").read_text()) for n in range(2)]
        assert len(set(pids)) == 2
        assert all(map(is_running, pids))
    finally:
        parent.kill()
        parent.wait()
    until(lambda: not any(map(is_running, pids)), 5)
