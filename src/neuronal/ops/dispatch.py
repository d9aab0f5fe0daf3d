"""Which path an operation takes: a Triton kernel on a GPU, or plain torch; and what torch's transforms hide from a choice.

Call these through the module (``dispatch.is_cuda(x)``), so that a test can put something in their place.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor
from torch._functorch import eager_transforms
from torch._subclasses.fake_tensor import is_fake
from torch.autograd import forward_ad
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

HAS_TRITON = find_spec("triton") is not None
"""torch's builds for GPUs bring it."""


def is_cuda(x: Tensor) -> bool:
    """True for a tensor that Triton kernels can read."""
    return x.is_cuda


def is_exporting() -> bool:
    """True in what ``torch.export`` records."""
    # The flag and not torch's is_exporting(), which torch 2.11 takes for True in everything it compiles.
    return torch.compiler._is_exporting_flag


def can_launch_triton() -> bool:
    """True where a kernel of ours can be called: not under ``torch.func``, nor in what ``torch.export`` records."""
    if torch.compiler.is_compiling():
        return HAS_TRITON and not is_exporting()
    return HAS_TRITON and not torch._C._are_functorch_transforms_active()


def is_traced() -> bool:
    """True where ``torch.jit`` records operations: for its own programs, or for tools such as auto_LiRPA."""
    return torch._C._get_tracing_state() is not None


def is_plain_eager() -> bool:
    """True where operations run as they are written and no mode, tracer, compiler or transform sees them one by one."""
    return (
        # First: what a compiler sees ends here.
        not torch.compiler.is_compiling()
        and not is_traced()
        and not torch._C._are_functorch_transforms_active()
        and not torch._C._len_torch_dispatch_stack()
        # A default device is a mode too, and looks at nothing.
        and all(isinstance(mode, DeviceContext) for mode in _get_current_function_mode_stack())
        # Tangents pass through operations of torch only.
        and forward_ad._current_level < 0
    )


def is_valueless(x: Tensor) -> bool:
    """True for a tensor that has a shape and no numbers: on the meta device, or under ``FakeTensorMode``."""
    return x.is_meta or is_fake(x)


def check_forward_mode() -> None:
    """``RuntimeError`` in forward mode of forward mode, where torch loses a tangent in functions with their own rules."""
    if eager_transforms.JVP_NESTING > 1:
        raise RuntimeError(
            "forward mode of forward mode is not offered: torch would leave out a part of it in this layer, in silence. "
            "Use torch.func.hessian (jacfwd of jacrev), jacrev of jacrev, or jacrev of jacfwd."
        )


def is_backward_transformed() -> bool:
    """True in a backward step that is part of a graph itself, or batched: it has to be made of what has derivatives."""
    return torch.is_grad_enabled() or torch._C._are_functorch_transforms_active()


def is_vmapped(x: Tensor) -> bool:
    """True for a tensor batched by ``torch.func.vmap``, whose values and strides are hidden."""
    if torch.compiler.is_compiling():
        return False
    while torch._C._functorch.is_gradtrackingtensor(x):
        x = torch._C._functorch.get_unwrapped(x)
    return torch._C._functorch.is_batchedtensor(x)
