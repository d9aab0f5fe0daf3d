"""What goes on inside a model: its outputs, and its activations on the way. The only room with hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from neuronal.core.inference import call_on_copy, check_module, evaluating

Look = Callable[[str, Tensor], None]
# Ways out of torch: what happens to the numbers there is not seen.
EXITS = {
    "tolist",
    "numpy",
    "item",
    "__array__",
    "__bool__",
    "__float__",
    "__int__",
    "__index__",
    "__repr__",
    "__format__",
    "data_ptr",
    "storage",
    "untyped_storage",
    "__reduce_ex__",
    "__deepcopy__",
    "__dlpack__",
}


def outputs(model: nn.Module, x: Tensor, *, batch_size: int = 1024) -> Tensor:
    """The model's outputs for all rows of ``x``, computed in batches in evaluation mode, on the model's device."""
    with evaluating(model):
        device = next(model.parameters()).device
        return torch.cat([call_on_copy(model, part.to(device)) for part in x.split(batch_size)])


@contextmanager
def places(model: nn.Module) -> Iterator[list[str]]:
    """Inside: the list holds the paths of the modules that are running, the innermost last; the model's own is ''."""
    check_module(model)
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise TypeError(
            f"{type(model).__name__} is compiled by TorchScript, so what it computes cannot be watched. Give the module it "
            "was made from."
        )
    running: list[str] = []

    def leave(*_: object) -> None:
        running.pop()

    handles = []
    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda *_, path=path: running.append(path)))
        handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        yield running
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def watching_relus(model: nn.Module, look: Look) -> Iterator[None]:
    """Inside: ``look(name, output)`` is called with what every ReLU gives, module or function, in the order they run.

    ``name`` is the path of the innermost module around it; the second one inside the same module is ``path:2``, and so on.
    """
    with places(model) as running:
        relus = _Relus(running, look)
        handle = model.register_forward_pre_hook(lambda *_: relus.calls.clear())
        try:
            with relus:
                yield
        finally:
            handle.remove()


class _Relus(TorchDispatchMode):
    """Sees the operation itself, whoever calls it."""

    def __init__(self, running: list[str], look: Look):
        super().__init__()
        self.running, self.look = running, look
        self.calls: dict[str, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("relu", "relu_") and self.running:
            path = self.running[-1]
            self.calls[path] = self.calls.get(path, 0) + 1
            self.look(path if self.calls[path] == 1 else f"{path}:{self.calls[path]}", result)
        return result


class Exits(TorchFunctionMode):
    """Inside: ``look(name, tensor)`` is called when the numbers of a tensor leave torch, before they do."""

    def __init__(self, look: Look):
        super().__init__()
        self.look = look

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in EXITS and args:
            self.look(name, args[0])
        return func(*args, **(kwargs or {}))
