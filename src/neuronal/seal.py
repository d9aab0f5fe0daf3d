"""What a file of tensors is sealed with, so that a changed byte is noticed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def checksum(header: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of the header, and of the names and bytes of all tensors, in the order of their names."""
    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].detach().cpu().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
