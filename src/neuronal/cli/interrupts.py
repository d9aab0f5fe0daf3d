"""Ctrl-C and SIGTERM end a command the same way: by an exception it can tidy up after."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

PATIENCE, AGAIN = 0.05, 0.5
"""Seconds after which an interrupt is tried again that came in the middle of an import, or that went lost."""


class Terminated(KeyboardInterrupt):
    """SIGTERM asks for the same clean stop as Ctrl-C."""


@contextmanager
def interruptions() -> Iterator[list[int]]:
    """Inside: SIGINT raises KeyboardInterrupt and SIGTERM Terminated; gives the list of the signals that came.

    In the middle of an import the exception waits for its end: libraries take one there for a missing module, and go on
    without it, recurse or abort. A second signal does not wait: it ends the process. An exception that goes lost (Python
    drops those of finalisers) is raised again until somebody is seen handling it.
    """
    asked: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGALRM:
            asked.append(number)
        elif _is_handled():
            # Not lost. Asking once more could meet the end of the handling, and end a command that has tidied up.
            return
        if not _is_importing(frame):
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
            raise KeyboardInterrupt if asked[-1] == signal.SIGINT else Terminated
        if len(asked) > 1:
            os.write(2, b"neuronal: stopped.\n")
            os._exit(128 + asked[-1])
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    # A shell that starts a command in the background has it ignore Ctrl-C, and so it stays.
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    for number in before:
        signal.signal(number, stop)
    try:
        yield asked
    finally:
        if asked:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_handled() -> bool:
    """Whether an interrupt is on its way up, or somebody tidies up after it."""
    error = sys.exception()
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being run for the first time (one that is loaded already is only looked up)."""
    while frame is not None:
        if frame.f_code.co_name == "_load_unlocked" and frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
