"""What limits a computation: cores, memory, nesting, missing packages. One line for each error, whoever raises it."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

EXTRAS = {
    "lab": (
        *("accelerate", "cryptography", "dask", "distributed", "filelock", "jinja2", "matplotlib", "PIL", "pyarrow"),
        *("rich", "safetensors", "scipy", "typer"),
    ),
    "vision": ("huggingface_hub", "timm", "torchvision"),
    "track": ("tensorboard",),
}
"""Optional packages by the extra that brings them; each is ``neuronal[extra]``."""
_NO_MEMORY = re.compile("out of memory|allocate memory|size calculation overflow|ALLOC_FAILED", re.IGNORECASE)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shortage(error: BaseException) -> str | None:
    """One line for an error that says there is too little memory or too deep nesting; None for any other."""
    if isinstance(error, RecursionError):
        return f"something is nested too deeply ({error})."
    is_memory = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
    # torch has no class of its own for it on a CPU.
    if is_memory or (isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error))):
        reason = (str(error).splitlines() or ["no more to be had"])[0].rpartition("] ")[2][:160]
        return f"out of memory ({reason.rstrip('.')}). Take smaller batches, a smaller network or fewer data."
    return None


@contextmanager
def extras() -> Iterator[None]:
    """Inside: the error about an optional package that is not installed says how to install it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        extra = next((name for name, packages in EXTRAS.items() if package in packages), None)
        if extra is None or "pip install" in str(missing):
            raise
        line = f"{package.replace('PIL', 'pillow')} is not installed: pip install 'neuronal[{extra}]'."
        raise ModuleNotFoundError(line, name=package) from missing
