"""Kernels run on the device of their tensors, whichever is the current one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor

First = TypeVar("First", bound=Tensor | Sequence[Tensor])
Others = ParamSpec("Others")
Result = TypeVar("Result")


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
