"""Kernels that are started one behind the other and, the first time, compiled side by side."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple

from triton import AsyncCompileMode
from triton.runtime import JITFunction

_READY: set[Hashable] = set()


class Launch(NamedTuple):
    kernel: Any
    programs: int
    given: tuple[Any, ...]
    options: Mapping[str, Any]


def start(key: Hashable, launches: Sequence[Launch]) -> None:
    """Starts kernels in their order.

    With a key not seen before, those that are not compiled yet are compiled in threads first: the wait is as long as that
    for the slowest one. A key is to tell apart whatever kernels are compiled anew for; where it does not, the kernel is
    compiled when it is started.
    """
    if key not in _READY:
        _compile(launches)
        _READY.add(key)
    for kernel, programs, given, options in launches:
        kernel[(programs,)](*given, **options)


def _compile(launches: Sequence[Launch]) -> None:
    # The interpreter compiles nothing.
    left = [one for one in launches if isinstance(one.kernel, JITFunction)]
    with ThreadPoolExecutor(max(1, len(left))) as pool, ExitStack() as mode:
        try:
            mode.enter_context(AsyncCompileMode(pool))
        except RuntimeError:
            # Somebody else has such a mode on, and compiles side by side already.
            return
        for kernel, _, given, options in left:
            kernel.warmup(*given, grid=(1,), **options)
