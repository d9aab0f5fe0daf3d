"""Ctrl-C, SIGTERM and a lost terminal end a command the same way: by an exception it can tidy up after."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM, or SIGHUP of a lost terminal, asks for the same clean stop as Ctrl-C."""


_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


@contextmanager
def interruptions() -> Iterator[None]:
    """Inside: SIGINT raises KeyboardInterrupt, SIGTERM and SIGHUP Terminated, once; a second signal ends the process.

    While a module is imported the first one ends the process too: libraries take an exception there for a missing module,
    and go on without it or abort.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        if any(getattr(getattr(m, "__spec__", None), "_initializing", False) for m in list(sys.modules.values())):
            os.write(2, b"neuronal: stopped.\n")
            os._exit(128 + number)
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    # A shell that starts a command in the background has it ignore Ctrl-C, and so it stays.
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    before = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
