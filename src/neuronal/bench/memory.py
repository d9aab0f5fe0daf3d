"""How much memory something takes, seen from outside: what the process holds more than before, at its highest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from resource import getpagesize
from threading import Event, Thread

OWN = Path("/proc/self/statm")
PAUSE = 0.002  # seconds between two looks


def peak_bytes(action: Callable[[], object]) -> int | None:
    """The most bytes the process held during ``action`` beyond those before it; None where the system does not say.

    Memory freed before and still kept by the allocator is used again without being seen, so do nothing large before.
    """
    if not OWN.exists():
        return None
    before = highest = _held()
    done = Event()

    def look() -> None:
        nonlocal highest
        while not done.wait(PAUSE):
            highest = max(highest, _held())

    watcher = Thread(target=look, daemon=True)
    watcher.start()
    try:
        action()
    finally:
        done.set()
        watcher.join()
    return max(highest, _held()) - before


def _held() -> int:
    return int(OWN.read_text().split()[1]) * getpagesize()
