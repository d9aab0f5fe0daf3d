"""Tasks in workers side by side until a deadline: what would end too late is not started, or stopped early."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep, time
from typing import Any

import torch

from neuronal.core.limits import cores
from neuronal.core.words import one_line
from neuronal.experiments.executors import Workers, is_lost
from neuronal.experiments.trial import Followed, Progress

MARGIN = 1.05
"""What a task may take longer than those of its kind before it."""
UNKNOWN = 0.5
"""Share of the time in which tasks of a kind that was never seen may start."""
LOOK_EVERY = 0.2
"""Seconds between two looks at the clock and at what workers tell."""


class _Late(Exception):
    """A task was told to stop."""


@dataclass(frozen=True)
class Task:
    """Something that takes long, for one worker.

    Args:
        name: Of its own among all tasks.
        kind: Tasks of one kind take as long for an epoch.
        epochs: How many times ``work`` calls what it is given.
        work: Called with a function to be called after every epoch, which ends it if it is to stop.
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
    future: Future[None]
    started: float
    stop: Path
    """A file that is there when the task is to stop."""
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
    last is stopped after its epoch, and the rest goes on faster. Tasks of an unknown kind start in the first half of the
    time only. One whose worker dies is begun again.

    Args:
        tasks: What is left to do; asked again whenever a task ends.
        deadline: By the clock of ``time.monotonic``. Tasks that still run then are ended with their workers.
        workers: The most at a time; as many as there are cores if 0.
        say: Told of every task that ends.
        paces: What is known of kinds from before.
    """
    with TemporaryDirectory() as folder, Workers(workers or cores()) as executor:
        return _Slice(Path(folder), executor, deadline, say, Report(paces=dict(paces or {}))).run(tasks)


class _Slice:
    """What runs, and what is known of it."""

    def __init__(
        self, folder: Path, executor: Workers, deadline: float, say: Callable[[str], None], report: Report
    ) -> None:
        self.folder, self.executor, self.deadline, self.say, self.report = folder, executor, deadline, say, report
        self.begun = self.changed = monotonic()
        self.running: dict[str, _Run] = {}
        self.progress = Followed({}, self._told)
        self.free_at_start = _free_memory()

    def run(self, tasks: Callable[[], Sequence[Task]]) -> Report:
        waiting = list(tasks())
        while True:
            self._start(waiting)
            self.report.at_once = max(self.report.at_once, len(self.running))
            if not self.running:
                return self.report
            sleep(LOOK_EVERY)
            self.executor.check()
            self.progress.look()
            if done := [run for run in self.running.values() if run.future.done()]:
                for run in done:
                    del self.running[run.task.name]
                    self._note_end(run)
                waiting = list(tasks())
            if late := self._latest():
                late.stop.touch()
            if monotonic() >= self.deadline:
                self.report.stopped += self.running
                return self.report

    def _start(self, waiting: Sequence[Task]) -> None:
        """Starts what fits, the longest first."""
        report, running = self.report, self.running
        taken = {*running, *report.finished, *report.failed, *report.stopped}

        def seconds(task: Task) -> float:
            pace = report.paces.get(task.kind)
            return inf if pace is None else MARGIN * pace.seconds(task.epochs)

        for task in sorted(waiting, key=lambda task: (task.rank, -seconds(task))):
            if len(running) >= self.executor.most or not _has_memory(list(running.values()), self.free_at_start):
                return
            left, needed = self.deadline - monotonic(), seconds(task)
            is_in_time = left > UNKNOWN * (self.deadline - self.begun) if needed == inf else needed < left
            kinds = {run.task.kind for run in running.values()}
            must_wait = task.compiles and task.kind not in report.compiled and task.kind in kinds
            if task.name in taken or not is_in_time or must_wait:
                continue
            self.executor.expect(len(running) + 1)
            number = len(self.progress.items)
            path, stop = self.folder / f"{number}.progress", self.folder / f"{number}.stop"
            self.progress.items[path] = task.name
            future = self.executor.submit(_work, task, Progress(path), stop)
            running[task.name] = _Run(task, future, monotonic(), stop)

    def _told(self, name: str, event: Mapping[str, Any]) -> None:
        """The first epoch has the start in it, and those during which others were stopped say nothing of what is to come."""
        if (run := self.running.get(name)) is None:
            return
        if "ended" not in event:
            # A worker begins; after another one died, say.
            run.epochs, run.last, run.took = 0, 0.0, None
            return
        # By the clock of the deadline.
        now = event["ended"] - time() + monotonic()
        is_steady = run.last >= self.changed
        if run.epochs:
            run.took = now - run.last
        run.epochs, run.last = run.epochs + 1, now
        self.report.compiled.add(run.task.kind)
        if run.took is not None and is_steady:
            known = self.report.paces.get(run.task.kind)
            besides = known.besides if known else now - run.started - 2 * run.took
            self.report.paces[run.task.kind] = Pace(run.took, besides)

    def _note_end(self, run: _Run) -> None:
        name, seconds, error = run.task.name, monotonic() - run.started, run.future.exception()
        if isinstance(error, _Late):
            self.report.stopped.append(name)
            self.changed = monotonic()
        elif error is not None:
            died = "its worker died again and again"
            self.report.failed[name] = died if is_lost(error) else f"{type(error).__name__}: {one_line(error)}"
            self.say(f"{name} failed: {self.report.failed[name]}")
        else:
            self.report.finished.append(name)
            self.say(f"{name}: {seconds:.0f} s")
            pace = self.report.paces.get(run.task.kind)
            # A training that diverged ended early.
            if pace and run.epochs == run.task.epochs:
                pace.besides = max(0.0, seconds - run.task.epochs * pace.epoch)

    def _latest(self) -> _Run | None:
        """What will end last of those that will end too late; nothing while one is stopping, or epochs of before count."""
        known = [run for run in self.running.values() if run.took is not None]
        is_new = all(run.last - (run.took or 0) >= self.changed for run in known)
        if not is_new or any(run.stop.exists() for run in self.running.values()):
            return None
        return max((run for run in known if run.end() > self.deadline), key=_Run.end, default=None)


def _free_memory() -> float:
    """Bytes that are free: of the GPU, or of this machine."""
    if torch.cuda.is_available():
        return float(torch.cuda.mem_get_info()[0])
    pages = os.sysconf("SC_AVPHYS_PAGES") if hasattr(os, "sysconf") else 0
    return float(pages * os.sysconf("SC_PAGE_SIZE")) if pages else inf


def _has_memory(running: Sequence[_Run], free_at_start: float) -> bool:
    """Whether another task fits, by what those that have trained for an epoch took; the others are thought to grow."""
    if not running:
        return True
    free = _free_memory()
    of_one = (free_at_start - free) / len(running)
    is_known = any(run.epochs for run in running)
    return free > 1.5 * of_one if is_known else free > free_at_start / 2


def _work(task: Task, tell: Progress, stop: Path) -> None:
    """What a worker does: the task, telling of its epochs."""

    def on_epoch() -> None:
        tell({"ended": time()})
        if stop.exists():
            raise _Late

    tell({})
    task.work(on_epoch)
