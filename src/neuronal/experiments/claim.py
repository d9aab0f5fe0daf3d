"""What several processes want at once, cells above all: one of them makes it, the others take what it made."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from time import sleep
from typing import TypeVar

from neuronal.core.files import Damaged
from neuronal.experiments.cells import Cell
from neuronal.experiments.engine import OnEpoch, trained_into
from neuronal.experiments.record import Record, cell_name, read
from neuronal.train.engine import from_first

LOOK_EVERY = 0.5
"""Seconds between two looks at what others are making."""
Item = TypeVar("Item")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Claimed:
    """One cell after the other, in this process; those of other processes are handed on as they come, or taken over.

    Processes that train the same cells in the same folder divide them among themselves.

    Args:
        begin: Told before a cell is trained here.
        waiting: As in :func:`divided`.
    """

    begin: Callable[[], None] = lambda: None
    waiting: Callable[[int], None] = lambda left: None

    def train(
        self, cells: Sequence[Cell], folder: Path, started: Callable[[Cell], None], on_epoch: OnEpoch
    ) -> Iterator[tuple[Cell, Record]]:
        def path(cell: Cell) -> Path:
            return folder / cell_name(cell.recipe, cell.seed)

        def make(cell: Cell) -> Record:
            self.begin()
            started(cell)
            return trained_into(folder, cell.recipe, cell.seed, partial(on_epoch, cell))[0]

        yield from divided(cells, path, _finished, make, self.waiting)


def divided(
    items: Sequence[Item],
    path: Callable[[Item], Path],
    finished: Callable[[Path], Made | None],
    make: Callable[[Item], Made],
    waiting: Callable[[int], None] = lambda left: None,
) -> Iterator[tuple[Item, Made]]:
    """Every item with what there is of it, or what ``make`` makes; what other processes are making as it comes.

    Args:
        items: What is wanted; processes that want the same divide it among themselves.
        path: Where an item is kept.
        finished: What is kept there, if anything sound is.
        make: Makes an item and keeps it there.
        waiting: Told, again and again, how many are left when all of these are being made by others.
    """
    left = list(items)
    while left:
        elsewhere: list[Item] = []
        for place, item in enumerate(left):
            with claim(path(item)) as is_ours:
                made = from_first(partial(finished, path(item))) if is_ours else None
                is_new = is_ours and made is None
                if is_new:
                    made = make(item)
            if made is None:
                elsewhere.append(item)
                continue
            yield item, made
            if is_new:
                # That took a while: what others were making may have ended, and whoever watches wants to know.
                left = elsewhere + left[place + 1 :]
                break
        else:
            left = elsewhere
            if left:
                waiting(len(left))
                sleep(LOOK_EVERY)


def has_locks(folder: Path) -> bool:
    """Whether claims hold there: on a file system without locks every process makes everything."""
    with TemporaryFile(dir=folder) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


@contextmanager
def claim(path: Path, *, wait: bool = False) -> Iterator[bool]:
    """Inside: no other process has the claim to ``path``, unless this is False because one has it already.

    A claim ends with its process, however that ends. Among processes of a launcher the first one claims for all.

    Args:
        path: What is about to be made; a hidden file beside it carries the claim.
        wait: Wait for the other one's end, and always have the claim.
    """
    with ExitStack() as held:
        yield from_first(lambda: _take(path, wait, held))


def _take(path: Path, wait: bool, held: ExitStack) -> bool:
    descriptor = os.open(path.with_name(f".{path.name}.claim"), os.O_RDWR | os.O_CREAT, 0o666)
    held.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # A file system without locks: two processes may make the same, and the last one's stays.
        return True
    return True


def _finished(path: Path) -> Record | None:
    """A sound record that came while we were waiting."""
    try:
        return read(path)
    except (Damaged, OSError):
        return None
