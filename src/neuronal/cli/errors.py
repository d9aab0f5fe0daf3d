"""One line for whatever goes wrong, and what is kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NoReturn

import typer

from neuronal.cli.interrupts import Terminated
from neuronal.core.files import Unreadable
from neuronal.core.limits import extras, shortage
from neuronal.names import printable

__all__ = ["fail", "going_on", "one_line_errors", "whole_results"]


def fail(line: str, code: int) -> NoReturn:
    """Ends the command with its one line; among several processes the others than the first say which they are."""
    rank, line = os.environ.get("RANK", "0"), printable(line)
    print(f"neuronal: {line}" if rank == "0" else f"neuronal, process {rank}: {line}", file=sys.stderr)
    raise typer.Exit(code)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Inside: a wrong value, a file that cannot be used, or what is not there ends the command with its message alone."""
    try:
        with extras():
            yield
    except ValueError as wrong:
        fail(str(wrong), 2)
    except ModuleNotFoundError as missing:
        if "pip install" not in str(missing):
            raise
        fail(str(missing), 1)
    except BrokenPipeError:
        raise
    except (OSError, MemoryError, RuntimeError) as stop:
        fail(_why(stop), 1)


@contextmanager
def whole_results(folder: Path) -> Iterator[None]:
    """Inside: results of that folder are drawn; one that lacks something is a ``ValueError`` that says so."""
    try:
        yield
    except KeyError as lacking:
        raise ValueError(f"a result in {folder} has no {lacking}. neuronal reproduce makes it anew.") from lacking


def _why(stop: Exception) -> str:
    """Why a command cannot go on, and what to do; ``stop`` itself is raised if it is nothing of the kind."""
    if line := shortage(stop):
        return line
    if not isinstance(stop, OSError):
        raise stop
    what_to_do = "Give the right to read it." if isinstance(stop, Unreadable) else "Choose another place with --out."
    return f"cannot use {stop.filename or 'a file'} ({stop.strerror or stop}). {what_to_do}"


@contextmanager
def _told(kept: Callable[[], str] | None, *others: type[Exception], results: Path | None = None) -> Iterator[None]:
    """Inside: Ctrl-C, SIGTERM, a full disk, too little memory or one of ``others`` ends the command, which says why and
    what is kept: by its notes if ``kept`` is None.
    """

    def noted(stop: BaseException) -> str:
        return kept() if kept else " ".join(getattr(stop, "__notes__", ()))

    try:
        yield
    except BrokenPipeError:
        raise
    except KeyboardInterrupt as stop:
        fail(f"stopped; {noted(stop)}".rstrip("; "), 143 if isinstance(stop, Terminated) else 130)
    except (OSError, MemoryError, RuntimeError) as stop:
        why = str(stop) if isinstance(stop, others) else _why(stop)
        if results and isinstance(stop, OSError) and stop.filename and Path(stop.filename).is_relative_to(results):
            why = why.replace("--out", "--results")
        fail(f"{why} {noted(stop)}".rstrip(), 1)


def going_on(out: Path, results: Path) -> AbstractContextManager[None]:
    """Inside: Ctrl-C, SIGTERM or a full disk ends a work of many parts, and the command says what is kept of it."""
    kept = f"what is finished is kept in {out}. The same command goes on from there."
    from neuronal.experiments.executors import WorkerError

    return _told(lambda: kept, WorkerError, results=results)


def keeping(place: Path) -> AbstractContextManager[None]:
    """Inside: Ctrl-C, SIGTERM or a full disk ends a training, and the command says from where it can go on."""

    def kept() -> str:
        how = "goes on from there" if any(place.glob("step-*.safetensors")) else "begins again"
        return f"{last_state(place)}. The same command {how}."

    return _told(kept)


def last_state(place: Path) -> str:
    """What is kept of a training in the folder of its checkpoints."""
    steps = sorted(int(file.stem.removeprefix("step-")) for file in place.glob("step-*.safetensors"))
    return (
        f"the state of step {steps[-1]:,} is kept in {place}" if steps else "there is no checkpoint yet (see --every)"
    )


def stopping() -> AbstractContextManager[None]:
    """Inside: Ctrl-C, SIGTERM, a full disk or a trial that kills its workers ends a sweep, whose notes say what is kept."""
    from neuronal.experiments.executors import WorkerError

    return _told(None, WorkerError)
