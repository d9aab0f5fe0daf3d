"""Every engine gives the records of one process, whatever dies."""

import random
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import active_children

import pytest

from neuronal.experiments.cells import Cell, Grid
from neuronal.experiments.engine import Futures, LostCell, Processes, slurm
from neuronal.experiments.record import read
from neuronal.experiments.sweep import Watch, sweep
from tests.experiments.listener import Listener, numbers


@pytest.fixture
def grid(quick):
    return Grid(replace(quick, seeds=(0, 1, 2), epochs=1, probes=()), (("lr", (1e-3, 1e-2)),))


@pytest.fixture
def small(grid):
    return replace(grid, recipe=replace(grid.recipe, seeds=(0,)))


def swept(grid, folder, engine=None, watch=None):
    return [numbers(record) for record in sweep(grid, folder, engine=engine, watch=watch)]


def test_processes_give_the_records_of_one_process(grid, tmp_path):
    listener, again = Listener(), Listener()
    apart = swept(grid, tmp_path / "a", Processes(workers=2), listener)
    assert apart == swept(grid, tmp_path / "b")
    assert len(listener.trained) == len(listener.started) == len(listener.epochs) == 6
    assert swept(grid, tmp_path / "a", Processes(workers=2), again) == apart
    assert (len(again.reused), again.trained) == (6, [])


@contextmanager
def killing(times, seed=0):
    """Workers are killed at random, as by someone short of memory."""
    chance, killed, done = random.Random(seed), [], threading.Event()

    def kill():
        while len(killed) < times and not done.wait(chance.uniform(0.05, 0.3)):
            if workers := active_children():
                killed.append(chance.choice(workers))
                killed[-1].kill()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    yield
    done.set()
    killer.join()
    assert killed


def test_workers_killed_at_random_change_nothing(grid, tmp_path):
    with killing(4):
        disturbed = swept(grid, tmp_path / "a", Processes(workers=2, tries=50))
    assert disturbed == swept(grid, tmp_path / "b")


def test_a_cell_that_always_kills_its_worker_is_given_up_and_the_others_are_kept(grid, small, tmp_path):
    sweep(small, tmp_path)
    # Long cells, so that each meets the killer.
    long = replace(grid, recipe=replace(grid.recipe, epochs=2000, seeds=(7,)))
    with killing(10**6, seed=1), pytest.raises(LostCell, match=r"standard seed \d died 2 times \(exit code -9\)"):
        sweep(long, tmp_path, engine=Processes(workers=1, tries=2))
    assert any(read(path).seed == 0 for path in (tmp_path / "cells").glob("*.json"))


def test_what_a_worker_refuses_is_not_tried_again(quick, tmp_path):
    (tmp_path / "cells").mkdir()
    started = []
    with pytest.raises(ValueError, match="Unknown dataset"):
        list(Processes(workers=1).train([Cell(replace(quick, data="nothing"), 0)], tmp_path, started.append, print))
    assert len(started) == 1


def test_memory_sets_how_many_run_at_a_time(grid, tmp_path):
    most = []

    class Count(Watch):
        def cell_started(self, cell):
            time.sleep(0.1)
            most.append(len([child for child in active_children() if child.is_alive()]))

    sweep(grid, tmp_path, engine=Processes(workers=4, memory=1), watch=Count())
    assert max(most) == 1


@pytest.mark.parametrize("wrong", ["workers", "threads", "memory", "tries"])
def test_wrong_budgets_are_refused(wrong):
    with pytest.raises(ValueError, match=f"{wrong} needs to be at least 1, got 0"):
        Processes(**{wrong: 0})


class Flaky(ThreadPoolExecutor):
    """Every second call fails."""

    calls, sound = 0, 1

    def submit(self, *words):
        self.calls += 1
        return super().submit(*words) if self.calls % 2 == self.sound else super().submit(lambda: 1 / 0)


class Broken(Flaky):
    """Every call fails."""

    sound = None


@pytest.mark.parametrize("pool", [ProcessPoolExecutor, Flaky])
def test_any_executor(small, tmp_path, pool):
    with pool(1) as executor:
        assert swept(small, tmp_path / "a", Futures(executor)) == swept(small, tmp_path / "b")


def test_an_executor_that_always_fails_is_given_up(small, tmp_path):
    with Broken(1) as broken, pytest.raises(LostCell, match="standard seed 0 failed 3 times: division by zero"):
        sweep(small, tmp_path, engine=Futures(broken))


def test_submitit_takes_cells_and_what_it_refuses_is_one_line(small, tmp_path):
    pytest.importorskip("submitit", reason="the slurm extra is not installed")
    engine = slurm(tmp_path / "jobs", cluster="local", timeout_min=5)
    assert swept(small, tmp_path / "a", engine) == swept(small, tmp_path / "b")
    with pytest.raises(ValueError, match=r"submitit refuses: .*speed") as error:
        slurm(tmp_path / "jobs", cluster="local", speed=5)
    assert "\n" not in str(error.value)
