"""Checksums of text, bytes, arrays and tensors: one way for all that is written down or compared by contents."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

# JSON files are read by commands that do not wait for torch.
if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    Part = str | bytes | Tensor | np.ndarray[Any, Any]

__all__ = ["checksum", "raw"]


def checksum(*parts: Part) -> str:
    """SHA-256 of the parts, one after the other: text as UTF-8, numbers by :func:`raw`."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part if isinstance(part, bytes) else raw(part))
    return digest.hexdigest()


def raw(values: Tensor | np.ndarray[Any, Any]) -> memoryview:
    """The bytes of all values, row by row, wherever and in whichever order they lie in memory."""
    import numpy as np
    import torch

    if isinstance(values, torch.Tensor):
        # Not numpy's view, which has no bfloat16.
        return values.detach().cpu().flatten().view(torch.uint8).numpy().data
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
