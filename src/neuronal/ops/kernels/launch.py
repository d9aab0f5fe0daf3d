"""How kernels are started: on the device of their tensors and, the first time, compiled side by side."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor

First = TypeVar("First", bound=Tensor | Sequence[Tensor])
Others = ParamSpec("Others")
Result = TypeVar("Result")

_READY: set[Hashable] = set()


def on_its_device(
    function: Callable[Concatenate[First, Others], Result],
) -> Callable[Concatenate[First, Others], Result]:
    """For functions that start kernels: where their first tensor is. Left to itself, Triton takes the current device."""

    @wraps(function)
    def there(first: First, /, *args: Others.args, **kwargs: Others.kwargs) -> Result:
        # What is compiled sees to it by itself.
        if not torch.compiler.is_compiling():
            x = first if isinstance(first, Tensor) else first[0]
            if x.is_cuda and x.get_device() != torch.cuda.current_device():
                with torch.cuda.device(x.get_device()):
                    return function(first, *args, **kwargs)
        return function(first, *args, **kwargs)

    return there


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
    from triton import AsyncCompileMode
    from triton.runtime import JITFunction

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
