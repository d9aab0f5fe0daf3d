"""torchvision and timm for tests, also beside a torch that torchvision's compiled operators do not fit."""

from importlib.util import find_spec

import pytest
import torch

_kept = []


def vision():
    """Makes ``import torchvision`` and ``import timm`` work; skips the test where they are not installed."""
    for package in ("torchvision", "timm"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install 'neuronal[vision]'")
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        # Operators of its own, which no classifier uses, need to be known by name and no more.
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _kept.append(library)
