"""Convolutions of every neuron against ``nn.Conv2d``: forward and backward, input gradient included."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from benchmarks.row import Row, ratio_row
from benchmarks.timing import Setting, compare, forward_and_backward
from neuronal.nn import FarkasConv2d, GeometricConv2d, ZeroBiasConv2d


def _weight_norm(*args: int, padding: int) -> nn.Module:
    return weight_norm(nn.Conv2d(*args, padding=padding))


LAYERS: Mapping[str, Callable[..., nn.Module]] = {
    "Conv2d": nn.Conv2d,
    "ZeroBiasConv2d": ZeroBiasConv2d,
    "FarkasConv2d": FarkasConv2d,
    "GeometricConv2d": GeometricConv2d,
    "weight_norm(Conv2d)": _weight_norm,
}
BASELINE = "Conv2d"


@dataclass(frozen=True)
class Shape:
    """3x3 convolutions: channels in and out, side and number of the images, and what the layers may cost."""

    width: int
    side: int
    batch: int
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.width}->{self.width}, {self.side}x{self.side}, batch {self.batch}"

    def rows(self, setting: Setting) -> Iterator[Row]:
        shape = (self.batch, self.width, self.side, self.side)
        x = torch.randn(shape, device=setting.device, requires_grad=True)
        out = torch.randn_like(x)
        layers = {name: make(self.width, self.width, 3, padding=1) for name, make in LAYERS.items()}
        actions = {name: forward_and_backward(layer.to(setting.device), [x], out) for name, layer in layers.items()}
        for name, timed in compare(actions, BASELINE, setting).items():
            yield ratio_row(f"{self.name}: {name}", timed, BASELINE, self.limits.get(name))


_SIZES = ((64, 32, 64), (256, 8, 64), (512, 8, 64))
_LIMITS = {"ZeroBiasConv2d": 1.00, "FarkasConv2d": 1.05, "GeometricConv2d": 1.10}
CASES = {
    "cpu": tuple(Shape(*size, _LIMITS | ({"GeometricConv2d": 1.15} if size[0] == 512 else {})) for size in _SIZES),
    # Launching kernels takes most of the time at these sizes; what layers cost in networks is the suite networks.
    "cuda": tuple(Shape(*size) for size in _SIZES),
}
