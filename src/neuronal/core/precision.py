"""Arithmetic as its name says: on a GPU, torch shortens float32 numbers before it convolves them, unless told not to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def all_digits(device: torch.device) -> Iterator[None]:
    """Inside: products of float32 numbers on a GPU keep all their digits (no TF32); afterwards all is as before."""
    backends: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.cuda.matmul)
    name: str = "allow_tf32"
    whole: str | bool = False
    if hasattr(torch.backends.cudnn, "conv"):
        # torch 2.9 and later; the switches of before refuse to be read where these were used.
        backends, name, whole = (torch.backends.cudnn.conv, torch.backends.cuda.matmul), "fp32_precision", "ieee"
    short = {backend: getattr(backend, name) for backend in backends} if device.type == "cuda" else {}
    changed = {backend: value for backend, value in short.items() if value in (True, "tf32")}
    for backend in changed:
        setattr(backend, name, whole)
    try:
        yield
    finally:
        for backend, value in changed.items():
            setattr(backend, name, value)
