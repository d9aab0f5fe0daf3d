"""A trial, one recipe with one seed, from start to record; and what several processes want at once, made by one of them.

Each attempt keeps its state in a folder of its own and ends with one atomic rename of its result into place. Where two
attempts make the same, because there are no locks, say, the result is the same, and whole, whichever ends last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from shutil import rmtree
from time import sleep
from typing import Any, TypeVar
from uuid import uuid4

from filelock import FileLock, Timeout
from torch import nn

from neuronal.core.files import make_writable
from neuronal.core.limits import shortage
from neuronal.experiments.environment import arithmetic
from neuronal.experiments.executors import InProcess, WorkerError, Workers, is_lost
from neuronal.experiments.recipe import Recipe
from neuronal.experiments.record import Record, cell_name, write
from neuronal.experiments.run import WATCHERS, trained
from neuronal.train.checkpoint import Checkpoints, OtherTraining
from neuronal.train.engine import from_first, is_first_process, processes
from neuronal.train.progress import Epoch

EVERY: int | timedelta = timedelta(minutes=5)
"""How often the state of a trial in training is kept. Most have ended before."""
LOOK_EVERY = 0.2
"""Seconds between two looks at the progress of workers."""
WAIT = 0.5
"""Seconds before a task is asked for again that another command was making."""
TRIES = 3
"""How often a task is begun that runs out of memory."""
UNFINISHED = ".unfinished"
"""Folder, beside the results, for all that is there for a while: locks, states of trials in training, progress."""
Item = TypeVar("Item")
Made = TypeVar("Made")
Tell = Callable[[Mapping[str, Any]], None]
"""Reports progress: ``{"epoch": fields}``, ``{"say": line}``, or ``{}`` when a task begins."""


def train_into(
    folder: Path,
    recipe: Recipe,
    seed: int,
    on_epoch: Callable[[Epoch], None] | None = None,
    also: Callable[[Record, nn.Module], None] | None = None,
    *,
    take_over: bool = True,
) -> tuple[Record, nn.Module]:
    """Trains a trial, from where an earlier attempt got to, and writes its record into ``folder``; its network besides.

    The same comes out as if it had never been stopped.

    Args:
        folder: For the record.
        recipe: What to train.
        seed: Fixes everything random.
        on_epoch: Told of every epoch as it ends.
        also: May keep more of it, before its state is removed.
        take_over: This process holds the lock of the trial: folders of other attempts belong to dead ones.
    """
    begin = partial(trained, recipe, seed, on_epoch=on_epoch)
    states = unfinished(folder, recipe, seed)
    own = from_first(lambda: _own_folder(states, take_over))
    if WATCHERS.keys() & set(recipe.probes):
        record, model = begin()
    else:
        kept = Checkpoints(own, EVERY, keep=1, at_end=False, of=arithmetic())
        try:
            record, model = begin(checkpoints=kept)
        except OtherTraining:
            # On other data or another GPU, say, or by another version. All processes have read it.
            processes().wait_for_everyone()
            if is_first_process():
                rmtree(own, ignore_errors=True)
            record, model = begin(checkpoints=kept)
    if is_first_process():
        write(record, folder)
    if also:
        also(record, model)
    if is_first_process():
        rmtree(own, ignore_errors=True)
        with suppress(OSError):
            states.rmdir()
    return record, model


def unfinished(folder: Path, recipe: Recipe, seed: int) -> Path:
    """Folder of the checkpoints of a trial in training; each attempt has a folder of its own in it."""
    return folder / UNFINISHED / Path(cell_name(recipe, seed)).stem


def _own_folder(states: Path, take_over: bool) -> Path:
    """A new folder for this attempt. With ``take_over``, the newest one of a dead attempt is renamed to it."""
    own = states / uuid4().hex[:12]
    found = sorted(states.glob("*"), key=lambda path: path.stat().st_mtime, reverse=True) if take_over else []
    for number, path in enumerate(found):
        if number == 0:
            path.rename(own)
        else:
            rmtree(path, ignore_errors=True)
    return own


@contextmanager
def lock(path: Path, *, wait: bool = False) -> Iterator[bool | None]:
    """Exclusive file lock for making ``path``: yields True if acquired, False if another process holds it.

    It yields None on a file system without locks. The lock ends with its process, however that ends. Among processes of a
    launcher the first one locks for all.

    Args:
        path: The file that is about to be made.
        wait: Block until the lock is free.
    """
    with ExitStack() as held:
        yield from_first(lambda: _lock(path, wait, held))


def _lock(path: Path, wait: bool, held: ExitStack) -> bool | None:
    folder = path.parent / UNFINISHED
    folder.mkdir(exist_ok=True)
    try:
        held.enter_context(FileLock(folder / f"{path.name}.lock", timeout=-1 if wait else 0))
    except Timeout:
        return False
    except (OSError, NotImplementedError):
        return None
    return True


@dataclass(frozen=True)
class Task:
    """A unit of work whose result is one file.

    Args:
        path: The file.
        kept: Reads the file; None if there is no valid one.
        make: Makes the file and returns the result. Called with a function that reports progress, and with whether the lock
            is held. ``kept`` and ``make`` are pickled on the way to a worker.
        name: For messages.
    """

    path: Path
    kept: Callable[[], Any]
    make: Callable[[Tell, bool], Any]
    name: str = ""

    def run(self, tell: Tell) -> Any:
        """The result, read or made now; None while another process holds the lock."""
        with lock(self.path) as is_alone:
            if is_alone is False:
                return None
            if (found := from_first(self.kept)) is not None:
                return found
            tell({})
            return self.make(tell, bool(is_alone))


def complete(
    executor: Executor,
    tasks: Mapping[Item, Task],
    told: Callable[[Item, Mapping[str, Any]], None] = lambda item, event: None,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[tuple[Item, Any]]:
    """Yields every item with the result of its task, in the order in which they finish.

    A task that another command is making is tried again until its file is there. A task that ran out of memory is tried
    again, alone, when the others have ended.

    Args:
        executor: Runs the tasks; all its workers have to see the folder of their files.
        tasks: By item.
        told: Called with an item and its progress.
        say: Called with a line when this command waits for another one.

    Raises:
        WorkerError: Workers died again and again, or their scheduler is gone.
        ValueError: A worker does not see the folder.
    """
    tries = dict.fromkeys(tasks, 0)
    batches: list[Sequence[Item]] = [list(tasks)] if tasks else []
    if isinstance(executor, Workers) and tasks:
        executor.expect(len(tasks))
    for folder in {task.path.parent for task in tasks.values()} if not isinstance(executor, InProcess) else ():
        check_shared(executor, folder)
    num_busy = 0
    while batches:
        busy: list[Item] = []
        for item, future in _ended(executor, {item: tasks[item] for item in batches.pop(0)}, told):
            try:
                made = future.result()
            except Exception as error:
                tries[item] += 1
                name = tasks[item].name or tasks[item].path.name
                if is_lost(error):
                    raise WorkerError(_why_lost(name, error)) from error
                if isinstance(executor, InProcess) or not (short := shortage(error)):
                    raise
                if tries[item] == TRIES:
                    raise WorkerError(f"{name} failed {TRIES} times: {short}") from error
                batches.append([item])
                continue
            if made is None:
                busy.append(item)
            else:
                yield item, made
        if busy:
            if len(busy) != num_busy:
                say(f"waiting for {len(busy)} that another command makes")
            num_busy = len(busy)
            sleep(WAIT)
            batches.append(busy)


def _why_lost(name: str, error: BaseException) -> str:
    if hasattr(error, "last_worker"):
        return f"the worker of {name} died {1 + getattr(error, 'allowed_failures', 0)} times; out of memory?"
    return f"the scheduler of the workers is gone ({type(error).__name__})."


def _ended(
    executor: Executor, tasks: Mapping[Item, Task], told: Callable[[Item, Mapping[str, Any]], None]
) -> Iterator[tuple[Item, Future[Any]]]:
    """Yields every item with its finished future; reports progress while it waits."""
    done: SimpleQueue[Future[Any]] = SimpleQueue()
    pending: dict[Future[Any], Item] = {}
    progress = {} if isinstance(executor, InProcess) else {item: Progress.of(task.path) for item, task in tasks.items()}
    followed = Followed({one.path: item for item, one in progress.items()}, told)
    try:
        for item, task in tasks.items():
            tell = progress.get(item, partial(told, item))
            future = executor.submit(task.run, tell)
            pending[future] = item
            future.add_done_callback(done.put)
            while not done.empty():
                future = done.get()
                yield pending.pop(future), future
        while pending:
            try:
                future = done.get(timeout=LOOK_EVERY)
            except Empty:
                followed.look()
                if isinstance(executor, Workers):
                    executor.check()
                continue
            followed.look()
            item = pending.pop(future)
            progress[item].path.unlink(missing_ok=True)
            yield item, future
    finally:
        for future in pending:
            future.cancel()


@dataclass(frozen=True)
class Progress:
    """Progress file of a task: one line of JSON per event."""

    path: Path

    @classmethod
    def of(cls, path: Path) -> Progress:
        return cls(path.parent / UNFINISHED / f"{path.name}.progress")

    def __call__(self, event: Mapping[str, Any]) -> None:
        # Without an event a task begins.
        with self.path.open("a" if event else "w") as file:
            file.write(json.dumps(event) + "\n")


class Followed:
    """Files of progress as they grow, by what they are of."""

    def __init__(self, items: Mapping[Path, Any], told: Callable[[Any, Mapping[str, Any]], None]) -> None:
        self.items, self._told = dict(items), told
        self._seen: dict[Path, int] = {}
        for path in items:
            path.unlink(missing_ok=True)

    def look(self) -> None:
        """Reports what was added since the last look."""
        for folder in {path.parent for path in self.items}:
            for path in folder.glob("*.progress"):
                if path in self.items:
                    self._read(path)

    def _read(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            lines = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
            seen = self._seen.get(path, 0)
            # A task that is done again begins its file again.
            for line in lines[seen if seen <= len(lines) else 0 :]:
                self._told(self.items[path], json.loads(line))
            self._seen[path] = len(lines)


def check_shared(executor: Executor, folder: Path) -> None:
    """``ValueError`` if a worker does not see what this process writes into the folder, or the other way round."""
    make_writable(folder / UNFINISHED)
    asked = folder / UNFINISHED / f"{uuid4().hex}.seen"
    answered = asked.with_suffix(".answer")
    try:
        asked.write_text(asked.name)
        seen = executor.submit(_answer, asked, answered).result()
        if not seen or answered.read_text() != asked.name:
            raise FileNotFoundError(asked)
    except OSError as unseen:
        raise ValueError(
            f"the workers do not see the folder {folder} of this process. Choose one that all machines share with --out."
        ) from unseen
    finally:
        for path in (asked, answered):
            path.unlink(missing_ok=True)


def _answer(asked: Path, answered: Path) -> bool:
    if not asked.exists():
        return False
    answered.write_text(asked.read_text())
    return True


def train_trial(folder: Path, recipe: Recipe, seed: int, tell: Tell, is_alone: bool) -> Record:
    """What a worker does for :func:`neuronal.experiments.sweep.sweep`."""
    return train_into(folder, recipe, seed, lambda epoch: tell({"epoch": asdict(epoch)}), take_over=is_alone)[0]
