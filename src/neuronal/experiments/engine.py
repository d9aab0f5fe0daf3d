"""Where cells are trained: here, in processes of this machine, or wherever an executor takes them.

A worker writes its record itself, so that whoever dies, what is finished stays. A cell whose worker dies is tried again, and
one that takes long goes on from what was kept of it.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from multiprocessing import connection, forkserver, get_context, resource_tracker
from multiprocessing.context import ForkServerContext
from pathlib import Path
from shutil import rmtree
from typing import Any, Protocol

from torch import nn

from neuronal.core.limits import extras, shortage
from neuronal.experiments.cells import Cell
from neuronal.experiments.environment import arithmetic
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import Record, cell_name, read, write
from neuronal.experiments.run import WATCHERS, trained
from neuronal.train.checkpoint import Checkpoints, OtherTraining
from neuronal.train.engine import is_first_process, processes
from neuronal.train.progress import Epoch

OnEpoch = Callable[[Cell, Epoch], None]
EVERY: int | timedelta = timedelta(minutes=5)
"""How often the state of a cell in training is kept. Most have ended before."""


class LostCell(RuntimeError):
    """The worker of a cell died again and again; what is finished is kept."""


class Engine(Protocol):
    """Trains cells in any order and hands on the records as they come."""

    def train(
        self, cells: Sequence[Cell], folder: Path, started: Callable[[Cell], None], on_epoch: OnEpoch
    ) -> Iterator[tuple[Cell, Record]]: ...


def trained_into(
    folder: Path,
    recipe: Recipe,
    seed: int,
    on_epoch: Callable[[Epoch], None] | None = None,
    also: Callable[[Record, nn.Module], None] | None = None,
) -> tuple[Record, nn.Module]:
    """Trains one cell, from where an earlier try has got to, and writes its record into ``folder``; its network besides.

    The same comes out as if it had never been stopped. ``also`` may keep more of it, before its state is removed.
    """
    begin = partial(trained, recipe, seed, on_epoch=on_epoch)
    place = unfinished(folder, recipe, seed)
    if WATCHERS.keys() & set(recipe.probes):
        record, model = begin()
    else:
        kept = Checkpoints(place, EVERY, keep=1, at_end=False, of=arithmetic())
        try:
            record, model = begin(checkpoints=kept)
        except OtherTraining:
            # On other data or another GPU, say, or by another version. All processes have read it.
            processes().wait_for_everyone()
            forget(folder, recipe, seed)
            record, model = begin(checkpoints=kept)
    if is_first_process():
        write(record, folder)
    if also:
        also(record, model)
    forget(folder, recipe, seed)
    return record, model


def unfinished(folder: Path, recipe: Recipe, seed: int) -> Path:
    """Where the state of a cell in training is kept."""
    return (folder / cell_name(recipe, seed)).with_suffix(".unfinished")


def forget(folder: Path, recipe: Recipe, seed: int) -> None:
    """Removes the state of a cell in training, if there is one."""
    if is_first_process():
        rmtree(unfinished(folder, recipe, seed), ignore_errors=True)


def train_cell(cell: Cell, folder: Path, on_epoch: Callable[[Epoch], None] | None = None) -> None:
    """What a worker is given to do; the record is all that it leaves."""
    trained_into(folder, cell.recipe, cell.seed, on_epoch)


class InTurn:
    """One cell after the other, in this process, or in all processes of a launcher together."""

    def train(
        self, cells: Sequence[Cell], folder: Path, started: Callable[[Cell], None], on_epoch: OnEpoch
    ) -> Iterator[tuple[Cell, Record]]:
        for cell in cells:
            started(cell)
            yield cell, trained_into(folder, cell.recipe, cell.seed, partial(on_epoch, cell))[0]


@dataclass(frozen=True)
class Processes:
    """A process per cell, several at a time.

    Args:
        workers: Processes at a time; as many as there are cores for if left out.
        threads: Threads of each.
        memory: Bytes all workers together may take. The first cell runs alone; what it took says how many fit.
        tries: How often a cell is started before it is given up.
    """

    workers: int | None = None
    threads: int = 1
    memory: int | None = None
    tries: int = 3

    def __post_init__(self) -> None:
        for name in ("workers", "threads", "memory", "tries"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} needs to be at least 1, got {value}.")

    def train(
        self, cells: Sequence[Cell], folder: Path, started: Callable[[Cell], None], on_epoch: OnEpoch
    ) -> Iterator[tuple[Cell, Record]]:
        context = forking()
        waiting = deque(cells)
        tries = dict.fromkeys(cells, 0)
        running: dict[Any, tuple[Any, Cell]] = {}
        most = self.workers or max(1, cores() // self.threads)
        at_a_time = 1 if self.memory else most
        try:
            while waiting or running:
                while waiting and len(running) < at_a_time:
                    cell = waiting.popleft()
                    tries[cell] += 1
                    ours, theirs = context.Pipe(duplex=False)
                    worker = context.Process(target=_work, args=(cell, folder, self.threads, theirs), daemon=True)
                    worker.start()
                    theirs.close()
                    running[ours] = worker, cell
                    started(cell)
                for ready in connection.wait(list(running)):
                    worker, cell = running[ready]
                    pipe: Any = ready
                    try:
                        said = pipe.recv()
                    except (EOFError, OSError):
                        said = None
                    if isinstance(said, Epoch):
                        on_epoch(cell, said)
                        continue
                    worker.join()
                    del running[ready]
                    if isinstance(said, Exception):
                        raise said
                    if said is None:
                        if tries[cell] == self.tries:
                            raise LostCell(
                                f"the worker of {cell.recipe.family} seed {cell.seed} died {self.tries} times "
                                f"(exit code {worker.exitcode}); out of memory?"
                            )
                        waiting.append(cell)
                        continue
                    if self.memory:
                        at_a_time = max(1, min(most, self.memory // said))
                    yield cell, read(folder / cell_name(cell.recipe, cell.seed))
        finally:
            for worker, _ in running.values():
                worker.kill()
                worker.join()


@dataclass(frozen=True)
class Futures:
    """Any ``concurrent.futures.Executor``, or what has its ``submit``: a cluster's, say.

    Args:
        executor: Takes the cells; the folder must be the same for it and for this process.
        tries: How often a cell is handed in before it is given up.
    """

    executor: Executor | Any
    tries: int = 3

    def train(
        self, cells: Sequence[Cell], folder: Path, started: Callable[[Cell], None], on_epoch: OnEpoch
    ) -> Iterator[tuple[Cell, Record]]:
        handed_in = []
        for cell in cells:
            handed_in.append((cell, self.executor.submit(train_cell, cell, folder)))
            started(cell)
        for cell, future in handed_in:
            for attempt in range(1, self.tries + 1):
                try:
                    future.result()
                    break
                except ValueError:
                    raise
                except Exception as lost:
                    if attempt == self.tries:
                        raise LostCell(
                            f"{cell.recipe.family} seed {cell.seed} failed {self.tries} times: {lost}."
                        ) from lost
                    future = self.executor.submit(train_cell, cell, folder)
            yield cell, read(folder / cell_name(cell.recipe, cell.seed))


def slurm(folder: Path, **parameters: Any) -> Futures:
    """An engine that hands cells to Slurm through submitit.

    Args:
        folder: For the logs of the jobs.
        parameters: Those of ``submitit.AutoExecutor.update_parameters``, such as ``timeout_min`` or ``slurm_partition``.

    Raises:
        ValueError: There is no Slurm here, or no such parameter.
    """
    with extras():
        import submitit
    cluster = parameters.pop("cluster", "slurm")
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster=cluster)
        executor.update_parameters(**parameters)
    except (RuntimeError, NameError) as refused:
        raise ValueError(f"submitit refuses: {' '.join(str(refused).split())}") from refused
    return Futures(executor)


def forking() -> ForkServerContext:
    """Where workers come from: forked from a server that has everything imported and no threads; quick, and safe with CUDA.

    The server is started with SIGINT blocked, for it and for all it forks: a terminal sends Ctrl-C to every process of the
    command; the first one ends the others and says what is kept.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def _work(cell: Cell, folder: Path, threads: int, parent: Any) -> None:
    """What a worker does: tells of its epochs, and at the end how much memory it took, or what went wrong."""
    import torch

    torch.set_num_threads(threads)
    try:
        train_cell(cell, folder, parent.send)
    except BrokenPipeError:
        # Whoever started this is gone; there is nobody to tell.
        return
    except (ValueError, OSError) as wrong:
        # Another try would end the same way.
        parent.send(wrong)
    except (MemoryError, RuntimeError) as wrong:
        if not shortage(wrong):
            raise
        # When others have ended, there may be more of it.
        sys.exit(1)
    else:
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        parent.send(taken if sys.platform == "darwin" else 1024 * taken)


def cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
