"""Cells that several processes want at once: one of them trains a cell, the others take what it made."""

from __future__ import annotations

import fcntl
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import sleep

from neuronal.experiments.cells import Cell
from neuronal.experiments.engine import OnEpoch
from neuronal.experiments.record import Record, cell_name, read, write
from neuronal.experiments.run import run
from neuronal.experiments.storage import Damaged
from neuronal.train.engine import from_first, is_first_process

LOOK_EVERY = 0.5
"""Seconds between two looks at cells that others are training."""


class Claimed:
    """One cell after the other, in this process; cells that other processes are training come last and are taken over.

    Processes that train the same cells in the same folder divide them among themselves.
    """

    def train(
        self, cells: Sequence[Cell], folder: Path, started: Callable[[Cell], None], on_epoch: OnEpoch
    ) -> Iterator[tuple[Cell, Record]]:
        left, refused = deque(cells), 0
        while left:
            cell = left.popleft()
            path = folder / cell_name(cell.recipe, cell.seed)
            with claim(path) as is_ours:
                record = from_first(partial(_finished, path)) if is_ours else None
                if is_ours and record is None:
                    started(cell)
                    record = run(cell.recipe, cell.seed, on_epoch=partial(on_epoch, cell))
                    if is_first_process():
                        write(record, folder)
            if record is None:
                left.append(cell)
                refused += 1
                if refused >= len(left):
                    sleep(LOOK_EVERY)
                continue
            refused = 0
            yield cell, record


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
