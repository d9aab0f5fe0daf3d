"""When a Triton kernel may stand in for plain steps on a GPU, and what transforms of torch do not let one see."""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

HAS_TRITON = find_spec("triton") is not None
"""torch's builds for GPUs bring it."""


def is_fusable() -> bool:
    """Whether a kernel of ours can be called here: not under ``torch.func``, nor in what ``torch.export`` writes down."""
    if torch.compiler.is_compiling():
        # The flag and not is_exporting(), which torch 2.11 takes for True in everything it compiles.
        return HAS_TRITON and not torch.compiler._is_exporting_flag
    return HAS_TRITON and not torch._C._are_functorch_transforms_active()


def is_unwatched() -> bool:
    """Whether something else may stand in for operations that somebody could want to see one by one.

    That is so where they run as they are written, and no mode, tracer, compiler or transform looks on.
    """
    return (
        # First: what a compiler sees ends here.
        not torch.compiler.is_compiling()
        and torch._C._get_tracing_state() is None
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._len_torch_dispatch_stack()
        # A default device is a mode too, and looks at nothing.
        and all(isinstance(mode, DeviceContext) for mode in _get_current_function_mode_stack())
        # Tangents pass through operations of torch only.
        and forward_ad._current_level < 0
    )


def is_of_several(x: Tensor) -> bool:
    """Whether it is one tensor for several, under ``torch.func.vmap``: neither its numbers nor its order can be read."""
    if torch.compiler.is_compiling():
        return False
    while torch._C._functorch.is_gradtrackingtensor(x):
        x = torch._C._functorch.get_unwrapped(x)
    return torch._C._functorch.is_batchedtensor(x)
