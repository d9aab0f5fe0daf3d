"""A model in evaluation mode, on inputs of its own, with or without random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

Arguments = dict[str, Any]
"""Of a call, by name."""

__all__ = [
    "NoRandomNumbers",
    "arguments",
    "call_on_copy",
    "check_finite",
    "check_module",
    "evaluating",
    "is_random",
    "memory",
    "not_finite",
    "outputs",
]


def check_module(model: object) -> None:
    """``TypeError``, in one line, for what is no torch module."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"needs a torch module, got {type(model).__name__}.")


def not_finite(model: nn.Module) -> str | None:
    """The first parameter with NaN or infinity in it, or buffer with NaN: of such a network nothing can be shown.

    (A mask may rightly be infinite.)
    """
    wrong = [name for name, value in model.named_parameters() if not value.isfinite().all()]
    wrong += [name for name, value in model.named_buffers() if value.isnan().any()]
    return wrong[0] if wrong else None


def check_finite(model: nn.Module) -> None:
    """``ValueError``, in one line, for a network that :func:`not_finite` finds something in."""
    check_module(model)
    if (name := not_finite(model)) is not None:
        raise ValueError(f"{name} of {type(model).__name__} has NaN or infinity in it: nothing can be shown of it.")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[nn.Module]:
    """Inside: evaluation mode and no gradients; afterwards every module's own flag is back."""
    check_module(model)
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


def outputs(model: nn.Module, x: Tensor, *, batch_size: int = 1024) -> Tensor:
    """The model's outputs for all rows of ``x``, computed in batches in evaluation mode, on the model's device."""
    with evaluating(model):
        device = next(model.parameters()).device
        return torch.cat([call_on_copy(model, part.to(device)) for part in x.split(batch_size)])


def memory(t: Tensor) -> int:
    """What all views of one tensor have in common, as long as one of them is held."""
    return t.untyped_storage().data_ptr() or -id(t)


def arguments(func: Any, args: Sequence[Any], kwargs: Arguments) -> Arguments:
    """What an operation of torch is given, by name, defaults too."""
    schema = func._schema.arguments
    given = dict(zip([a.name for a in schema], args, strict=False))
    return {a.name: a.default_value for a in schema} | given | dict(kwargs)


def is_random(func: Any, args: Sequence[Any], kwargs: Arguments) -> bool:
    """Whether an operation draws random numbers: attention without dropout, and what is in evaluation mode, do not."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    given = arguments(func, args, kwargs)
    return given.get("dropout_p") != 0 and given.get("training") is not False


class NoRandomNumbers(TorchDispatchMode):
    """Inside: an operation that draws random numbers raises ``ValueError``."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if is_random(func, args, kwargs or {}):
            raise ValueError(f"the model draws random numbers ({func.overloadpacket.__name__}).")
        return func(*args, **(kwargs or {}))
