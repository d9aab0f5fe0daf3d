"""Work done side by side in processes of its own, before anything is timed.

One network after the other, the compiler alone would take most of the time of a bench. It keeps what it makes on disk, so
a network that was compiled in another process is ready in this one within seconds. What other sections can have done
there comes along.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from multiprocessing.process import BaseProcess
from os import cpu_count
from time import monotonic
from typing import Any

import torch

from neuronal.train.recording import one_line

SECONDS = 180.0
"""What is not done by then is left; whoever needs it does it again."""
WORKERS = 12
"""Processes at a time, on a device that has room for as many large networks."""
THREADS = 4
"""Of the compiler, per process; left to itself each would start as many as there are cores."""
_ASSEMBLER = "TRITON_PTXAS_PATH"
_AT_START = os.environ.get(_ASSEMBLER)


@dataclass(frozen=True)
class Job:
    """A function and what it is given; a process that is started for it has to find both by name."""

    name: str
    function: Callable[..., Any]
    given: tuple[Any, ...] = ()
    is_long: bool = False
    """Whether it is to be started before the others."""


def results(jobs: Sequence[Job], *, workers: int | None = None, seconds: float = SECONDS) -> Mapping[str, Any]:
    """What the jobs returned, by name; one that failed is missing, and stderr says why.

    Long ones are started first, then the others in their order.
    """
    found: dict[str, Any] = {}
    if not jobs:
        return found
    before = set(active_children())
    pool = ProcessPoolExecutor(min(len(jobs), workers or WORKERS, cpu_count() or 1), mp_context=get_context("spawn"))
    patience = 0.0
    try:
        with _as_at_start():
            running = {pool.submit(_alone, job): job for job in sorted(jobs, key=lambda job: not job.is_long)}
        for future in as_completed(running, timeout=seconds):
            job = running[future]
            try:
                found[job.name] = future.result()
            except Exception as error:  # whatever it is, the section that wants it meets it again
                print(f"neuronal: not done ahead: {job.name} ({one_line(error)})", file=sys.stderr)
        patience = 10.0
    except TimeoutError:
        late = ", ".join(job.name for job in jobs if job.name not in found)
        print(f"neuronal: not done ahead in {seconds:g} s: {late}", file=sys.stderr)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        _end(set(active_children()) - before, patience)
    return found


@contextmanager
def _as_at_start() -> Iterator[None]:
    """Inside, processes start as this one did.

    torch.compile names another assembler than Triton's own. This process keeps to the one it asked first, and part of a
    kernel's name on disk is which: a process that finds the other there from the start makes kernels that nobody finds.
    """
    now = os.environ.pop(_ASSEMBLER, None)
    try:
        if _AT_START is not None:
            os.environ[_ASSEMBLER] = _AT_START
        yield
    finally:
        os.environ.pop(_ASSEMBLER, None)
        if now is not None:
            os.environ[_ASSEMBLER] = now


def _end(children: Collection[BaseProcess], patience: float) -> None:
    """Waits so many seconds for processes to end by themselves, and ends the others."""
    until = monotonic() + patience
    for child in children:
        child.join(max(0.0, until - monotonic()))
        if child.is_alive():
            child.terminate()


def _alone(job: Job) -> Any:
    from torch._inductor import config

    config.compile_threads = THREADS
    try:
        return job.function(*job.given)
    finally:
        tidy()


def tidy() -> None:
    """Gives back what was compiled and taken on the device, so that what comes next finds it as it was."""
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
