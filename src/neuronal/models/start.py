"""What the parameters of a network start from, where the usual start is not wanted."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from neuronal.models.classifier import Classifier
from neuronal.names import find
from neuronal.nn.geometric import GeometricConv2d, GeometricLinear

STARTS = {
    "usual": "as the layers start by themselves",
    "glorot": "Glorot's uniform weights and no biases; geometric units as their authors' code makes them of such weights",
    "normal": "normal weights of deviation 1 in layers of any size, no biases; geometric units uniform with scale 1; the "
    "head as with glorot",
}
"""The starts, in words."""


@torch.no_grad()
def started(model: Classifier, start: str) -> Classifier:
    """The same network with its parameters drawn anew, as ``start`` says, one of ``STARTS``."""
    find(STARTS, start, "start")
    if start == "usual":
        return model
    for layer in model.modules():
        if isinstance(layer, GeometricLinear | GeometricConv2d):
            layer.init = "published" if start == "glorot" else "sphere"
            layer.reset_parameters()
        elif isinstance(layer, nn.Linear | nn.Conv2d):
            draw = nn.init.xavier_uniform_ if start == "glorot" or layer is model.head else nn.init.normal_
            if is_parametrized(layer):
                # The weight of a layer with weight norm is made of its parameters.
                layer.weight = draw(torch.empty_like(layer.weight))
            else:
                draw(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model
