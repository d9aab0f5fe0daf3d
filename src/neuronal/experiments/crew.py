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


class Crew:
    """Processes that do ``work`` too, from :meth:`start` to the end of the ``with`` block, or of this process.

    They are for work that is divided by claims (see :mod:`neuronal.experiments.claim`): a worker that dies leaves what it
    had to the others. All share the cores.

    Args:
        count: How many besides this process.
        work: What each does; it has to be a function of a module, or a ``partial`` of one.
    """

    def __init__(self, count: int, work: Callable[[], object]) -> None:
        self.count, self.work = count, work
        self.started = 0
        """How many there are or have been."""
        self._running: list[tuple[Any, Any]] = []
        self._before = torch.get_num_threads()
        self._threads = max(1, min(self._before, cores() // (1 + count)))

    def start(self) -> None:
        """Starts them, the first time."""
        if self._running or not self.count:
            return
        context = forking()
        for _ in range(self.count):
            theirs, ours = context.Pipe(duplex=False)
            worker = context.Process(target=_work, args=(self.work, self._threads, theirs), daemon=True)
            worker.start()
            theirs.close()
            self._running.append((worker, ours))
            self.started += 1

    def __enter__(self) -> Crew:
        # At once: what one process computes before the others are there has the same digits.
        if self.count:
            torch.set_num_threads(self._threads)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker, _ in self._running:
            worker.kill()
        for worker, pipe in self._running:
            worker.join()
            pipe.close()
        self._running.clear()
        torch.set_num_threads(self._before)


def _work(work: Callable[[], object], threads: int, parent: Any) -> None:
    torch.set_num_threads(threads)
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        work()
    except ValueError:
        # A wrong value is the same for all; the first process says so.
        return
    except Exception as wrong:
        reason = (str(wrong).splitlines() or [""])[0]
        print(
            f"neuronal: a worker ended and the others go on without it ({type(wrong).__name__}: {reason})",
            file=sys.stderr,
        )


def _end_with(parent: Any) -> None:
    """Ends this process when the one that started it is gone, however that ended."""
    try:
        parent.recv()
    except (EOFError, OSError):
        os._exit(1)
