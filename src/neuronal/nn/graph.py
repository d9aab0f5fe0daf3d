"""Layers in the graphs of ``torch.fx``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from torch import Tensor, fx, nn


def is_recorded(x: object) -> bool:
    """Whether ``x`` stands for a tensor in a graph that ``torch.fx`` records: it has no shape and no numbers."""
    return isinstance(x, fx.Proxy)


def one_node(forward: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Tensor], Tensor]:
    """A ``forward`` that ``torch.fx`` records as one call of the module, as it does with torch's own layers.

    What goes on inside depends on devices and shapes, which a graph does not hold.
    """

    @wraps(forward)
    def traced(self: nn.Module, input: Tensor) -> Tensor:
        if is_recorded(input):
            tracer = cast(Any, input).tracer
            return cast(Tensor, tracer.create_proxy("call_module", tracer.path_of_module(self), (input,), {}))
        return forward(self, input)

    return traced
