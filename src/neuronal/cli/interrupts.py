"""Ctrl-C and SIGTERM end a command the same way: by an exception it can tidy up after."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """SIGTERM asks for the same clean stop as Ctrl-C."""


@contextmanager
def interruptions() -> Iterator[list[int]]:
    """Inside: SIGINT raises KeyboardInterrupt and SIGTERM Terminated; gives the list of the signals that came.

    In the middle of an import the process ends at once instead. Libraries take an exception there for a missing module:
    they go on without it, recurse or abort. What is worth keeping is on the disk by then, or has not begun.
    """
    asked: list[int] = []

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        if _is_importing(frame):
            os.write(2, b"neuronal: stopped.\n")
            os._exit(128 + number)
        asked.append(number)
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    # A shell that starts a command in the background has it ignore Ctrl-C, and so it stays.
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM)
        if (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    for number in before:
        signal.signal(number, stop)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
