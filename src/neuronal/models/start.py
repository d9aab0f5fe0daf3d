"""What the parameters of a network start from, where the usual start is not wanted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from neuronal.models.classifier import Classifier
from neuronal.names import find
from neuronal.nn.farkas import Balance, FarkasLayer
from neuronal.nn.geometric import GeometricLayer

STARTS = {
    "usual": "as the layers start by themselves",
    "glorot": "Glorot's uniform weights and no biases; geometric units as their authors' code makes them of such weights",
    "he": "He's normal weights and no biases; geometric units and the head as they start by themselves, the free "
    "units of Farkas layers",
    "normal": "normal weights of deviation 1 in layers of any size, no biases; geometric units uniform with scale 1; the "
    "head as with glorot",
}
"""The starts, in words."""


_DRAWN: dict[str, Callable[[Tensor], Tensor]] = {
    "glorot": nn.init.xavier_uniform_,
    "he": partial(nn.init.kaiming_normal_, mode="fan_out", nonlinearity="relu"),
    "normal": nn.init.normal_,
}


@torch.no_grad()
def started(model: Classifier, start: str) -> Classifier:
    """The same network with its parameters drawn anew, as ``start`` says, one of ``STARTS``."""
    find(STARTS, start, "start")
    if start == "usual":
        return model
    for layer in model.modules():
        if isinstance(layer, GeometricLayer):
            layer.init = "published" if start == "glorot" else "sphere"
            layer.reset_parameters()
        elif isinstance(layer, FarkasLayer):
            _DRAWN[start](layer.rows)
        elif isinstance(layer, Balance):
            for bias in (layer.offsets, layer.last if layer.rule == "max" else None):
                if bias is not None:
                    nn.init.zeros_(bias)
        elif isinstance(layer, nn.Linear | nn.Conv2d) and not (start == "he" and layer is model.head):
            draw = _DRAWN["glorot" if layer is model.head else start]
            if is_parametrized(layer):
                # The weight of a layer with weight norm is made of its parameters.
                layer.weight = draw(torch.empty_like(layer.weight))
            else:
                draw(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model
