"""Further processes of this machine that do the same work as this one; what they claim divides it among them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from threading import Thread
from types import TracebackType
from typing import Any

import torch

from neuronal.experiments.engine import cores, forking

MOST = 4
"""Workers for each core."""


class Crew:
    """Processes that do ``work`` too, from :meth:`start` to :meth:`end`, to that of the ``with`` block, or of this process.

    They are for work that is divided by claims (see :mod:`neuronal.experiments.claim`): a worker that dies leaves what it
    had to the others. Inside the block each process, this one too, has one thread: on a CPU last digits depend on the number
    of threads, and are to be the same however many share the work.

    Args:
        count: How many besides this process; ``ValueError`` if these are too many for its cores.
        work: What each does; it has to be a function of a module, or a ``partial`` of one.
    """

    def __init__(self, count: int, work: Callable[[], object]) -> None:
        if not 0 <= count < MOST * cores():
            raise ValueError(
                f"--workers needs to be from 1 to {MOST * cores()}, {MOST} for each core, got {count + 1}."
            )
        self.count, self.work = count, work
        self.started = 0
        """How many there are or have been."""
        self._running: list[tuple[Any, Any]] = []
        self._threads = torch.get_num_threads()

    def start(self) -> None:
        """Starts them, the first time."""
        if self.started or not self.count:
            return
        context = forking()
        for _ in range(self.count):
            theirs, ours = context.Pipe(duplex=False)
            worker = context.Process(target=_work, args=(self.work, theirs), daemon=True)
            worker.start()
            theirs.close()
            self._running.append((worker, ours))
            self.started += 1

    def num_lost(self) -> int:
        """How many of them died or failed; those that found nothing more to do did not."""
        return sum(worker.exitcode not in (None, 0) for worker, _ in self._running)

    def end(self) -> None:
        """Ends them: this process goes on alone."""
        for worker, _ in self._running:
            worker.kill()
        for worker, pipe in self._running:
            worker.join()
            pipe.close()
        self._running.clear()

    def __enter__(self) -> Crew:
        torch.set_num_threads(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        torch.set_num_threads(self._threads)


def _work(work: Callable[[], object], parent: Any) -> None:
    torch.set_num_threads(1)
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        work()
    except ValueError:
        # A wrong value is the same for all; the first process says so.
        return
    except Exception as wrong:
        reason = (str(wrong).splitlines() or [""])[0]
        sys.exit(f"neuronal: a worker ended ({type(wrong).__name__}: {reason})")


def _end_with(parent: Any) -> None:
    """Ends this process when the one that started it is gone, however that ended."""
    try:
        parent.recv()
    except (EOFError, OSError):
        os._exit(1)
