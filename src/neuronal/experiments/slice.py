"""Tasks in processes side by side until a deadline: what would end too late is not started, or stopped early."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from multiprocessing import connection, get_context, parent_process
from threading import Thread
from time import monotonic
from typing import Any

import torch

from neuronal.core.words import one_line
from neuronal.experiments.executors import cores, start_method

MARGIN = 1.05
"""What a task may take longer than those of its kind before it."""
UNKNOWN = 0.5
"""Share of the time in which tasks of a kind that was never seen may start."""
TRIES = 2
"""How often a task is started whose process dies."""
LOOK_EVERY = 1.0
"""Seconds between two looks at the clock."""


@dataclass(frozen=True)
class Task:
    """Something that takes long, for a process of its own.

    Args:
        name: Of its own among all tasks.
        kind: Tasks of one kind take as long for an epoch.
        epochs: How many times ``work`` calls what it is given.
        work: Called with a function to be called after every epoch. A function of a module, or a ``partial`` of one.
        rank: Lower ones are started first; of one rank the longest.
        compiles: The first of a kind runs alone of it for an epoch, so that the others find what it compiled on disk.
    """

    name: str
    kind: str
    epochs: int
    work: Callable[[Callable[[], None]], object]
    rank: int = 0
    compiles: bool = False


@dataclass
class Pace:
    """What tasks of a kind take: seconds for an epoch, and for all besides (start, compiling, measuring)."""

    epoch: float
    besides: float = 0.0

    def seconds(self, epochs: int) -> float:
        return self.besides + epochs * self.epoch


@dataclass
class Report:
    """What came of a slice."""

    finished: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    """Names of tasks that would have ended too late."""
    compiled: set[str] = field(default_factory=set)
    """Kinds of which a task has trained for an epoch here."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why tasks ended without a result."""
    at_once: int = 0
    """The most that ran at a time."""
    paces: dict[str, Pace] = field(default_factory=dict)

    def summary(self, num_left: int) -> str:
        """What came of it, in one line."""
        failed = f", {len(self.failed)} failed" if self.failed else ""
        stopped = f", {len(self.stopped)} stopped, as they would have ended too late" if self.stopped else ""
        return f"{len(self.finished)} finished, {self.at_once} at once{failed}{stopped}; {num_left} known to be left"


@dataclass
class _Run:
    task: Task
    process: Any
    started: float
    epochs: int = 0
    last: float = 0.0
    """When the last epoch ended, and how long it took."""
    took: float | None = None

    def end(self) -> float:
        """When it is expected to end, by its last epoch; infinite until two are known."""
        return inf if self.took is None else self.last + (self.task.epochs - self.epochs) * self.took


def run_slice(
    tasks: Callable[[], Sequence[Task]],
    deadline: float,
    workers: int = 0,
    say: Callable[[str], None] = lambda line: None,
    paces: dict[str, Pace] | None = None,
) -> Report:
    """Runs as many tasks as end before the deadline; those that end decide what is left.

    A task starts when it is expected to end in time, by what others of its kind took on this machine beside as many
    others, and when there is memory for it. Once running tasks turn out to be too slow together, the one that would end
    last is stopped, and the rest goes on faster. Tasks of an unknown kind start in the first half of the time only.

    Args:
        tasks: What is left to do; asked again whenever a task ends.
        deadline: By the clock of ``time.monotonic``. Tasks that still run then are stopped.
        workers: The most at a time; as many as there are cores if 0.
        say: Told of every task that ends.
        paces: What is known of kinds from before.
    """
    report, most = Report(paces=dict(paces or {})), workers or cores()
    running: dict[Any, _Run] = {}
    tries: dict[str, int] = {}
    begun, changed, context = monotonic(), monotonic(), get_context(start_method())
    waiting = list(tasks())
    free_at_start = _free_memory()
    try:
        while True:
            _start(waiting, running, report, tries, most, (begun, deadline), context, free_at_start)
            report.at_once = max(report.at_once, len(running))
            if not running:
                return report
            for pipe in connection.wait(list(running), timeout=LOOK_EVERY):
                said = _received(pipe)
                run = running[pipe]
                if said == "epoch":
                    _note_epoch(run, report, is_steady=run.last >= changed)
                    continue
                run.process.join()
                del running[pipe]
                _note_end(run, said, report, tries, say)
                waiting = list(tasks())
            if late := _latest(running, deadline, changed):
                run = running.pop(late)
                _stop(run)
                report.stopped.append(run.task.name)
                changed = monotonic()
            if monotonic() >= deadline:
                report.stopped += [run.task.name for run in running.values()]
                return report
    finally:
        for run in running.values():
            _stop(run)


def _start(
    waiting: list[Task],
    running: dict[Any, _Run],
    report: Report,
    tries: dict[str, int],
    most: int,
    times: tuple[float, float],
    context: Any,
    free_at_start: float,
) -> None:
    """Starts what fits, the longest first."""
    begun, deadline = times
    taken = {run.task.name for run in running.values()} | set(report.finished) | set(report.failed)

    def seconds(task: Task) -> float:
        pace = report.paces.get(task.kind)
        return inf if pace is None else MARGIN * pace.seconds(task.epochs)

    for task in sorted(waiting, key=lambda task: (task.rank, -seconds(task))):
        if len(running) >= most or not _has_memory(running, free_at_start):
            return
        left, needed = deadline - monotonic(), seconds(task)
        is_in_time = left > UNKNOWN * (deadline - begun) if needed == inf else needed < left
        if task.name in taken or tries.get(task.name, 0) >= TRIES or not is_in_time:
            continue
        if (
            task.compiles
            and task.kind not in report.compiled
            and task.kind in {run.task.kind for run in running.values()}
        ):
            continue
        tries[task.name] = tries.get(task.name, 0) + 1
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(task, theirs), daemon=True)
        process.start()
        theirs.close()
        running[ours] = _Run(task, process, monotonic())


def _note_epoch(run: _Run, report: Report, *, is_steady: bool) -> None:
    """The first epoch has the start in it, and those during which others were stopped say nothing of what is to come."""
    now = monotonic()
    if run.epochs:
        run.took = now - run.last
    run.epochs, run.last = run.epochs + 1, now
    report.compiled.add(run.task.kind)
    if run.took is not None and is_steady:
        known = report.paces.get(run.task.kind)
        report.paces[run.task.kind] = Pace(run.took, known.besides if known else now - run.started - 2 * run.took)


def _note_end(run: _Run, said: object, report: Report, tries: dict[str, int], say: Callable[[str], None]) -> None:
    name, seconds = run.task.name, monotonic() - run.started
    if said == "done":
        report.finished.append(name)
        say(f"{name}: {seconds:.0f} s")
        pace = report.paces.get(run.task.kind)
        # A training that diverged ended early.
        if pace and run.epochs == run.task.epochs:
            pace.besides = max(0.0, seconds - run.task.epochs * pace.epoch)
    elif isinstance(said, str):
        report.failed[name] = said
        say(f"{name} failed: {said}")
    elif tries[name] >= TRIES:
        report.failed[name] = f"its process died {TRIES} times (exit code {run.process.exitcode})"
        say(f"{name} failed: {report.failed[name]}")


def _latest(running: dict[Any, _Run], deadline: float, changed: float) -> Any:
    """The task that will end last of those that will end too late; nothing while epochs of before a change count."""
    known = {pipe: run for pipe, run in running.items() if run.took is not None}
    if any(run.last - (run.took or 0) < changed for run in known.values()):
        return None
    late = {pipe: run.end() for pipe, run in known.items() if run.end() > deadline}
    return max(late, key=lambda pipe: late[pipe]) if late else None


def _stop(run: _Run) -> None:
    run.process.kill()
    run.process.join()


def _received(pipe: Any) -> object:
    """What a process says; ``None`` if it is gone."""
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None


def _free_memory() -> float:
    """Bytes that are free: of the GPU, or of this machine."""
    if torch.cuda.is_available():
        return float(torch.cuda.mem_get_info()[0])
    pages = os.sysconf("SC_AVPHYS_PAGES") if hasattr(os, "sysconf") else 0
    return float(pages * os.sysconf("SC_PAGE_SIZE")) if pages else inf


def _has_memory(running: dict[Any, _Run], free_at_start: float) -> bool:
    """Whether another task fits, by what those that have trained for an epoch took; the others are thought to grow."""
    if not running:
        return True
    free = _free_memory()
    of_one = (free_at_start - free) / len(running)
    is_known = any(run.epochs for run in running.values())
    return free > 1.5 * of_one if is_known else free > free_at_start / 2


def _work(task: Task, parent: Any) -> None:
    """What a process does: the task, telling of its epochs."""
    torch.set_num_threads(1)
    Thread(target=_end_with_parent, daemon=True).start()
    try:
        task.work(lambda: parent.send("epoch"))
    except BrokenPipeError:
        # Whoever started this is gone; there is nobody to tell.
        sys.exit(1)
    except Exception as wrong:  # the others go on
        parent.send(f"{type(wrong).__name__}: {one_line(wrong)}")
    else:
        parent.send("done")


def _end_with_parent() -> None:
    """Ends this process when the one that started it is gone, however that ended."""
    if parent := parent_process():
        parent.join()
        os._exit(1)
