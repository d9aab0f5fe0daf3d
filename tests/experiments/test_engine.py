import os
import random
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import active_children

import pytest

from neuronal.experiments.cells import Cell, Grid
from neuronal.experiments.engine import Futures, LostCell, Processes, slurm
from neuronal.experiments.record import read
from neuronal.experiments.sweep import Watch, sweep


class Listener(Watch):
    def __init__(self):
        self.started, self.ended, self.epochs = [], [], 0

    def cell_started(self, cell):
        self.started.append(cell)

    def epoch_ended(self, cell, epoch):
        self.epochs += 1

    def cell_ended(self, record, *, reused):
        self.ended.append(reused)


def numbers(records):
    """What does not depend on when and where a cell was trained."""
    return [(r.recipe, r.seed, r.metrics, r.epochs, r.probes) for r in records]


@pytest.fixture
def grid(quick):
    return Grid(replace(quick, seeds=(0, 1, 2), epochs=1, probes=()), (("lr", (1e-3, 1e-2)),))


def test_processes_give_the_records_of_one_process(grid, tmp_path):
    listener = Listener()
    apart = sweep(grid, tmp_path / "a", engine=Processes(workers=2), watch=listener)
    here = sweep(grid, tmp_path / "b")
    assert numbers(apart) == numbers(here)
    assert listener.ended == [False] * 6
    assert listener.epochs == 6
    assert len(listener.started) == 6
    again = Listener()
    sweep(grid, tmp_path / "a", engine=Processes(workers=2), watch=again)
    assert again.ended == [True] * 6


class Killer(threading.Thread):
    """Kills workers at random, as someone short of memory would."""

    def __init__(self, times):
        super().__init__(daemon=True)
        self.times, self.killed, self.done = times, 0, threading.Event()
        self.random = random.Random(0)

    def run(self):
        while self.killed < self.times and not self.done.wait(self.random.uniform(0.05, 0.3)):
            workers = [child for child in active_children() if child.pid]
            if workers:
                os.kill(self.random.choice(workers).pid, signal.SIGKILL)
                self.killed += 1


def disturbed(grid, folder, kills):
    killer = Killer(kills)
    killer.start()
    try:
        records = sweep(grid, folder, engine=Processes(workers=2, tries=50))
    finally:
        killer.done.set()
        killer.join()
    assert killer.killed > 0
    return records


def test_workers_killed_at_random_change_nothing(grid, tmp_path):
    assert numbers(disturbed(grid, tmp_path / "a", 4)) == numbers(sweep(grid, tmp_path / "b"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_cells_with_workers_killed_at_random(quick, tmp_path):
    grid = Grid(replace(quick, seeds=tuple(range(50)), epochs=1, probes=()), (("lr", (1e-4, 1e-3, 1e-2, 1e-1)),))
    assert len(grid.cells()) == 200
    assert numbers(disturbed(grid, tmp_path / "a", 40)) == numbers(sweep(grid, tmp_path / "b", engine=Processes()))


def test_a_cell_that_always_kills_its_worker_is_given_up_and_the_others_are_kept(grid, tmp_path):
    killer = Killer(10**6)
    killer.random = random.Random(1)
    first = grid.cells()[0]
    sweep(replace(grid, recipe=replace(grid.recipe, seeds=(0,))), tmp_path)
    # Long cells, so that each meets the killer.
    long = replace(grid, recipe=replace(grid.recipe, epochs=2000, seeds=(7,)))
    killer.start()
    try:
        with pytest.raises(LostCell, match=r"the worker of standard seed \d died 2 times \(exit code -9\)"):
            sweep(long, tmp_path, engine=Processes(workers=1, tries=2))
    finally:
        killer.done.set()
        killer.join()
    assert any(read(path).seed == first.seed for path in (tmp_path / "cells").glob("*.json"))


def test_what_a_worker_refuses_is_not_tried_again(quick, tmp_path):
    (tmp_path / "cells").mkdir()
    listener = Listener()
    engine = Processes(workers=1)
    with pytest.raises(ValueError, match="Unknown dataset"):
        list(engine.train([Cell(replace(quick, data="nothing"), 0)], tmp_path / "cells", listener.cell_started, print))
    assert len(listener.started) == 1


def test_memory_sets_how_many_run_at_a_time(grid, tmp_path):
    most = []

    class Count(Watch):
        def cell_started(self, cell):
            time.sleep(0.1)
            most.append(len([child for child in active_children() if child.is_alive()]))

    sweep(grid, tmp_path, engine=Processes(workers=4, memory=1), watch=Count())
    assert max(most) == 1


def test_any_executor(grid, tmp_path):
    here = numbers(sweep(grid, tmp_path / "a"))
    with ThreadPoolExecutor(1) as threads:
        assert numbers(sweep(grid, tmp_path / "b", engine=Futures(threads))) == here


def test_an_executor_that_fails_is_tried_again(grid, tmp_path):
    class Flaky(ThreadPoolExecutor):
        calls = 0

        def submit(self, *words):
            Flaky.calls += 1
            return super().submit(*words) if Flaky.calls % 2 else super().submit(lambda: 1 / 0)

    with Flaky(1) as flaky:
        records = sweep(grid, tmp_path / "a", engine=Futures(flaky))
    assert numbers(records) == numbers(sweep(grid, tmp_path / "b"))

    class Broken(ThreadPoolExecutor):
        def submit(self, *words):
            return super().submit(lambda: 1 / 0)

    with Broken(1) as broken, pytest.raises(LostCell, match="standard seed 0 failed 3 times: division by zero"):
        sweep(grid, tmp_path / "c", engine=Futures(broken))


def test_submitit_takes_cells(grid, tmp_path):
    pytest.importorskip("submitit", reason="the slurm extra is not installed")
    small = replace(grid, recipe=replace(grid.recipe, seeds=(0,)))
    engine = slurm(tmp_path / "jobs", cluster="local", timeout_min=5)
    assert numbers(sweep(small, tmp_path / "a", engine=engine)) == numbers(sweep(small, tmp_path / "b"))


def test_what_submitit_refuses_is_said_in_one_line(tmp_path):
    pytest.importorskip("submitit", reason="the slurm extra is not installed")
    with pytest.raises(ValueError, match=r"submitit refuses: .*speed") as error:
        slurm(tmp_path / "jobs", cluster="local", speed=5)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"threads": 0}, {"memory": 0}, {"tries": 0}])
def test_wrong_budgets_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} needs to be at least 1, got 0"):
        Processes(**wrong)


def test_a_process_pool_is_an_executor_too(quick, tmp_path):
    one = Grid(replace(quick, seeds=(0,), epochs=1, probes=()), (("lr", (1e-2,)),))
    with ProcessPoolExecutor(1) as pool:
        assert numbers(sweep(one, tmp_path / "a", engine=Futures(pool))) == numbers(sweep(one, tmp_path / "b"))
