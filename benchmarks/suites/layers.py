"""Convolutions of every neuron against ``nn.Conv2d``: forward and backward, input gradient included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from benchmarks.cases import Case, Comparison, Prepared
from benchmarks.timing import Setting, forward_and_backward
from neuronal.nn import FarkasConv2d, GeometricConv2d, ZeroBiasConv2d

LAYERS: Mapping[str, Callable[[int], nn.Module]] = {
    "Conv2d": lambda width: nn.Conv2d(width, width, 3, padding=1),
    "ZeroBiasConv2d": lambda width: ZeroBiasConv2d(width, width, 3, padding=1),
    "FarkasConv2d": lambda width: FarkasConv2d(width, width, 3, padding=1),
    "GeometricConv2d": lambda width: GeometricConv2d(width, width, 3, padding=1),
    "weight_norm(Conv2d)": lambda width: weight_norm(nn.Conv2d(width, width, 3, padding=1)),
}


def convolutions(width: int, side: int, batch: int, setting: Setting) -> Prepared:
    """Every layer at one shape."""
    x = torch.randn(batch, width, side, side, device=setting.device, requires_grad=True)
    out = torch.randn_like(x)
    layers = {name: make(width).to(setting.device) for name, make in LAYERS.items()}
    return Prepared({name: forward_and_backward(layer, [x], out) for name, layer in layers.items()})


def case(width: int, side: int, batch: int, limits: Mapping[str, float] | None = None) -> Comparison:
    """3x3 convolutions: channels in and out, side and number of the images, and what the layers may cost."""
    name = f"{width}->{width}, {side}x{side}, batch {batch}"
    return Comparison(name, "Conv2d", partial(convolutions, width, side, batch), limits or {})


_SHAPES = ((64, 32, 64), (256, 8, 64), (512, 8, 64))
_LIMITS = {"ZeroBiasConv2d": 1.00, "FarkasConv2d": 1.05}
CASES: Mapping[str, Sequence[Case]] = {
    "cpu": tuple(case(*s, _LIMITS | {"GeometricConv2d": 1.15 if s[0] == 512 else 1.10}) for s in _SHAPES),
    # Launching kernels takes most of the time at these sizes; what layers cost in networks is the suite networks.
    "cuda": tuple(case(*s) for s in _SHAPES),
}
