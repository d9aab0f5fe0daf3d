"""When a Triton kernel may stand in for plain steps on a GPU."""

from __future__ import annotations

from importlib.util import find_spec

import torch

HAS_TRITON = find_spec("triton") is not None
"""torch's builds for GPUs bring it."""


def is_fusable() -> bool:
    """Whether a kernel of ours can be called here: not under ``torch.func``, nor in what ``torch.export`` writes down."""
    if torch.compiler.is_compiling():
        # The flag and not is_exporting(), which torch 2.11 takes for True in everything it compiles.
        return HAS_TRITON and not torch.compiler._is_exporting_flag
    return HAS_TRITON and not torch._C._are_functorch_transforms_active()
