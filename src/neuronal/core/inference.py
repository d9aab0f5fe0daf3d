"""A model in evaluation mode, on inputs of its own, with or without random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["NoRandomNumbers", "call_on_copy", "evaluating", "is_random", "memory"]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """Inside: evaluation mode and no gradients; afterwards every module's own flag is back."""
    flags = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield model
    finally:
        for module, flag in flags.items():
            module.training = flag


def call_on_copy(model: Callable[[Tensor], Any], x: Tensor) -> Any:
    """The output of a model for a copy of ``x``: a model may change its input in place, and ``x`` stays as it is."""
    return model(x.clone())


def memory(t: Tensor) -> int:
    """What all views of one tensor have in common, as long as one of them is held."""
    return t.untyped_storage().data_ptr() or -id(t)


def is_random(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operation draws random numbers: attention without dropout, and what is in evaluation mode, do not."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    given = {a.name: a.default_value for a in func._schema.arguments}
    given |= dict(zip([a.name for a in func._schema.arguments], args, strict=False)) | dict(kwargs)
    return given.get("dropout_p") != 0 and given.get("training") is not False


class NoRandomNumbers(TorchDispatchMode):
    """Inside: an operation that draws random numbers raises ``ValueError``."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if is_random(func, args, kwargs or {}):
            raise ValueError(f"the model draws random numbers ({func.overloadpacket.__name__}).")
        return func(*args, **(kwargs or {}))
