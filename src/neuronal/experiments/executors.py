"""Where trials run: in this process, or in worker processes of dask.distributed, here or on a cluster of the user's."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing import forkserver, get_all_start_methods, get_context, resource_tracker
from pathlib import Path
from typing import Any

import torch

from neuronal.core.limits import cores, extras
from neuronal.train.engine import processes

MOST = 4
"""Workers for each core."""
PATIENCE = 10
"""Seconds that a scheduler may take to answer."""


class WorkerError(RuntimeError):
    """Workers, or their scheduler, are lost; what is finished is kept."""


class InProcess(Executor):
    """Runs every call in this process while it is submitted; among processes of a launcher all run it together."""

    num_workers = 1

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Workers(Executor):
    """Executor on workers of dask.distributed, started at the first call.

    A worker of this machine that dies is restarted, and its calls are run again.

    Args:
        most: How many on this machine; each runs one call at a time.
        threads: Threads of a call.
        memory: Bytes for all workers of this machine; what the machine has if left out. One that takes more than its share
            is killed.
        cluster: Address of a scheduler that has workers of its own, such as ``tcp://host:8786``.
    """

    def __init__(self, most: int, threads: int = 1, memory: int | None = None, cluster: str | None = None) -> None:
        self.most, self.threads, self.memory, self.cluster = most, threads, memory, cluster
        self.num_workers = 1
        """The most workers there have been at a time."""
        self._open = ExitStack()
        self._had_workers = False
        self._local: Any = None
        self._client: Any = None
        self._executor: Any = None

    def expect(self, count: int) -> None:
        """Starts as many workers as so many calls need, and does not wait for them."""
        if self._client is None:
            self._local = None if self.cluster else self._start()
            self._connect(self._local or self.cluster)
        if self._local:
            self.num_workers = max(self.num_workers, min(self.most, count))
            if len(self._local.worker_spec) < self.num_workers:
                self._local.scale(self.num_workers)
        else:
            self.num_workers = max(self.num_workers, len(self._client.scheduler_info(-1)["workers"]))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._executor is None:
            self.expect(self.most)
        future: Future[Any] = self._executor.submit(_with_threads, self.threads, partial(fn, *args, **kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the workers of this machine at once, whatever they are doing; those of a cluster are told to stop."""
        for nanny in list(self._local.workers.values()) if self._local else ():
            nanny.auto_restart = False
            if nanny.pid:
                with suppress(ProcessLookupError):
                    os.kill(nanny.pid, signal.SIGKILL)
        # What is closed may have lost its other end, or not have begun yet: its process ends with this one then.
        if self._executor and not self._local:
            with suppress(Exception):
                self._executor.shutdown(wait=False)
        for part in (self._client, self._local):
            if part is not None:
                with suppress(Exception):
                    part.close(timeout=PATIENCE)
        if self._local:
            self._local.shutdown_on_close = False
        self._local = self._client = self._executor = None
        self._open.close()

    def check(self) -> None:
        """``WorkerError`` if workers of this machine could not be started again."""
        self._had_workers = self._had_workers or bool(self._local and self._local.workers)
        if self._local and self._had_workers and not self._local.workers:
            raise WorkerError("all workers died, and new ones do not start; out of memory?")

    def _start(self) -> Any:
        check_main_script()
        with extras():
            import dask
            from distributed import LocalCluster
            from distributed.system import MEMORY_LIMIT

        # None of them holds data that could be written to a disk in the place of ending a worker.
        memory = {f"distributed.worker.memory.{name}": False for name in ("target", "spill", "pause")}
        method = {"distributed.worker.multiprocessing-method": start_method()}
        # As long as there are workers: one that is started again goes by it too.
        self._open.enter_context(dask.config.set({**memory, **method, "distributed.scheduler.worker-saturation": 1.0}))
        return LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            processes=True,
            dashboard_address="localhost:0",
            memory_limit=(self.memory or MEMORY_LIMIT) // self.most,
            silence_logs=logging.CRITICAL,
            preload=[__name__],
            env=dict(os.environ),
            # Keys that are made now and stay in memory: other users of this machine cannot hand calls to the workers.
            security=True,
        )

    def _connect(self, to: Any) -> None:
        with extras():
            from distributed import Client

        be_quiet()
        try:
            self._client = Client(to, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as unreachable:
            raise ValueError(f"no scheduler answers at {to}. Start one: dask scheduler.") from unreachable
        self._executor = self._client.get_executor(pure=False)


@contextmanager
def executor_for(
    workers: int | None = None, threads: int = 1, cluster: str | None = None, memory: int | None = None
) -> Iterator[InProcess | Workers]:
    """Yields what runs trials: worker processes, or with one worker this process; inside, this process has ``threads`` too.

    On a CPU last digits depend on the number of threads: they are the same however many workers share the work. Among
    processes of a launcher all train together, with the threads they have.

    Args:
        workers: Processes at a time on this machine; as many as it has cores for if left out.
        threads: Threads of each.
        cluster: Address of a dask scheduler whose workers run the trials instead.
        memory: Bytes that all workers of this machine together may take.

    Raises:
        ValueError: A number that makes no sense, or workers under a launcher.
    """
    if processes().num_processes > 1:
        if (workers or 1) > 1 or cluster or memory:
            raise ValueError("--workers, --memory and --cluster start processes of their own: run without torchrun.")
        yield InProcess()
        return
    for name, value, most in (
        ("workers", workers, MOST * cores()),
        ("threads", threads, MOST * cores()),
        ("memory", memory, sys.maxsize),
    ):
        if value is not None and not 1 <= value <= most:
            limit = f"from 1 to {most}, {MOST} for each core" if name != "memory" else "at least 1 byte"
            raise ValueError(f"--{name} needs to be {limit}, got {value}.")
    most = workers or max(1, cores() // threads)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    executor = InProcess() if most == 1 and not (cluster or memory) else Workers(most, threads, memory, cluster)
    try:
        yield executor
    finally:
        executor.shutdown()
        torch.set_num_threads(before)


def check_main_script() -> None:
    """``ValueError`` for a script that each worker would run again from its first line, without end."""
    main = sys.modules["__main__"]
    file, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
    # Python imports neither what has no file into its workers nor the __main__ of a package.
    if file is None or (spec and spec.name.endswith("__main__")) or not Path(file).is_file():
        return
    if "__name__" not in Path(file).read_text("utf-8", errors="replace"):
        raise ValueError(
            f'{file} starts workers, and each of them reads it too: put what it does below if __name__ == "__main__":, '
            "or ask for one worker."
        )


def is_lost(error: BaseException) -> bool:
    """True for errors that mean a worker died repeatedly or the scheduler is gone."""
    distributed: Any = sys.modules.get("distributed")
    return isinstance(error, (CancelledError, BrokenExecutor)) or bool(
        distributed and isinstance(error, distributed.KilledWorker)
    )


def be_quiet() -> None:
    """Silences dask's own log; the command reports lost workers itself."""
    for handler in logging.getLogger("distributed").handlers:
        handler.setLevel(logging.CRITICAL + 1)


def dask_setup(worker: object) -> None:
    """Called by dask in every worker that preloads this module."""
    be_quiet()


def start_method() -> str:
    """How workers begin: forked, where possible, from a server that has everything imported and no threads.

    The server is started with SIGINT and SIGHUP blocked, for it and for all it forks: a terminal sends them to every process
    of the command; the first one ends the others and says what is kept.
    """
    if "forkserver" not in get_all_start_methods():
        return "spawn"
    get_context("forkserver").set_forkserver_preload(["distributed", "neuronal.experiments.trial"])
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        resource_tracker.ensure_running()
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return "forkserver"


def _with_threads(threads: int, call: Callable[[], Any]) -> Any:
    torch.set_num_threads(threads)
    return call()
