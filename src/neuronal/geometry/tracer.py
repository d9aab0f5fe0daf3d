"""Watches a model compute: what touches its input, in which module, and what leaves torch. The only file with hooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from neuronal.core.inference import Arguments, arguments, check_module, is_random, memory

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

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
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

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in EXITS and args:
            self.look(name, args[0])
        return func(*args, **(kwargs or {}))


class Operation:
    """One operation as a rule sees it: its arguments by name, defaults too, and its result."""

    tracer: Any
    result: Any

    def __init__(self, tracer: Tracer, func: Any, args: Sequence[Any], kwargs: Arguments):
        self.tracer, self.func, self.result = tracer, func, None
        self.arguments = arguments(func, args, kwargs)
        self.is_mutable: bool = func._schema.is_mutable
        name: str = func.overloadpacket.__name__
        # In place is a question of memory; the rule is that of the operation.
        self.name = name.removesuffix("_") if self.is_mutable and not name.startswith("_") else name

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def tensors(self) -> list[Tensor]:
        return tensors(self.arguments.values())

    def targets(self) -> list[Tensor]:
        """The tensors it writes to."""
        written = (a.name for a in self.func._schema.arguments if a.alias_info is not None and a.alias_info.is_write)
        return tensors(self[name] for name in written)


class Tracer(TorchDispatchMode, ABC):
    """Hands every operation on what depends on the input to :meth:`visit`, while the model computes as always.

    What depends on the input is known by its memory, so a view nobody saw being made (``x.data``) does too. What is
    computed from parameters alone is a constant.
    """

    operation: ClassVar[type[Operation]] = Operation

    def __init__(self, model: nn.Module, x: Tensor):
        super().__init__()
        self.model = model
        self.running: list[str] = []
        self._memories: dict[int, Tensor] = {}  # a tensor is held, so its memory stays its own
        self.remember(x)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Inside: what the model computes is watched."""
        with places(self.model) as self.running, Exits(self._look), self:
            yield

    @abstractmethod
    def visit(self, call: Any) -> None:
        """An operation on a value that depends on the input."""

    @abstractmethod
    def refuse(self, reason: str, kind: str) -> None:
        """Nothing can be said of what the module that runs does; ``kind``: ``random``, ``control``, or as rules have it."""

    def before(self, call: Any) -> None:
        """Any operation, before it is computed."""

    def skip(self, call: Any) -> None:
        """An operation on constants."""

    def remember(self, tensor: Tensor) -> None:
        self._memories[memory(tensor)] = tensor

    def depends(self, value: object) -> bool:
        return isinstance(value, Tensor) and memory(value) in self._memories

    @property
    def path(self) -> str:
        """Of the innermost module that runs; '' for the model itself."""
        return self.running[-1] if self.running else ""

    @property
    def module(self) -> str:
        """The kind of module that runs."""
        return type(self.model.get_submodule(self.path)).__name__

    @property
    def place(self) -> str:
        return f"{self.module} at '{self.path}'" if self.path else self.module

    def _look(self, name: str, tensor: Tensor) -> None:
        if self.depends(tensor):
            self.refuse(f"takes numbers that depend on the input out of torch ({name})", "control")

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        call = self.operation(self, func, args, kwargs)
        self.before(call)
        call.result = func(*args, **kwargs)
        if is_random(func, args, kwargs):
            self.refuse(f"draws random numbers ({func.overloadpacket.__name__})", "random")
        if any(map(self.depends, call.tensors())):
            self.visit(call)
        else:
            self.skip(call)
        return call.result


def flat(values: Iterable[Any]) -> list[Any]:
    """The values, and in place of lists what is in them."""
    return [v for a in values for v in (a if isinstance(a, list | tuple) else [a])]


def tensors(values: Iterable[Any]) -> list[Tensor]:
    return [v for v in flat(values) if isinstance(v, Tensor)]
