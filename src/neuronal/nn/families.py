"""The one table of neuron models: everything that varies the neuron reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from neuronal.names import find
from neuronal.nn.zero_bias import ZeroBiasConv1d, ZeroBiasConv2d, ZeroBiasConv3d, ZeroBiasLinear

Layer = Callable[..., nn.Module]


@dataclass(frozen=True)
class Family:
    """A neuron model: its layers, each called like the one of the same name in ``torch.nn``."""

    name: str
    unit: str
    """The unit as a formula, in plain text."""
    promise: str
    """What the neuron is meant to give, in one short sentence."""
    Linear: Layer
    Conv1d: Layer
    Conv2d: Layer
    Conv3d: Layer


STANDARD = Family(
    name="standard",
    unit="w·x + b",
    promise="The usual unit; everything is compared with it.",
    Linear=nn.Linear,
    Conv1d=nn.Conv1d,
    Conv2d=nn.Conv2d,
    Conv3d=nn.Conv3d,
)

ZERO_BIAS = Family(
    name="zero_bias",
    unit="w·x",
    promise="The class does not depend on contrast; at the zero image every class is equally likely.",
    Linear=ZeroBiasLinear,
    Conv1d=ZeroBiasConv1d,
    Conv2d=ZeroBiasConv2d,
    Conv3d=ZeroBiasConv3d,
)

FAMILIES: dict[str, Family] = {family.name: family for family in (STANDARD, ZERO_BIAS)}


def family(name: str) -> Family:
    """The family called ``name``; an unknown name gets the list of those that exist."""
    return find(FAMILIES, name, "neuron")
