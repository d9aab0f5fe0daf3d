"""The one table of neuron models: everything that varies the neuron reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import nn

from neuronal.names import find
from neuronal.nn.farkas import FarkasConv1d, FarkasConv2d, FarkasConv3d, FarkasLinear
from neuronal.nn.geometric import GeometricConv1d, GeometricConv2d, GeometricConv3d, GeometricLinear
from neuronal.nn.implicit_bias import ImplicitBiasConv1d, ImplicitBiasConv2d, ImplicitBiasConv3d, ImplicitBiasLinear
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
    Head: Layer = nn.Linear
    """The last layer of a network, whose outputs are logits and not units."""

    def with_options(self, **options: Any) -> Family:
        """The same neuron, its layers made with these options of theirs; the head stays as it is."""
        kinds = ("Linear", "Conv1d", "Conv2d", "Conv3d")
        layers: Any = {kind: partial(getattr(self, kind), **options) for kind in kinds}
        return replace(self, **layers)


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
    Head=ZeroBiasLinear,
)

GEOMETRIC = Family(
    name="geometric",
    unit="r·(u(θ)·x + λ)",
    promise="The boundary moves smoothly in training: direction, offset and scale are learnt apart.",
    Linear=GeometricLinear,
    Conv1d=GeometricConv1d,
    Conv2d=GeometricConv2d,
    Conv3d=GeometricConv3d,
)

FARKAS = Family(
    name="farkas",
    unit="w·x + b; last: −mean of the others + ε",
    promise="In every layer, for every input, at least one unit is active.",
    Linear=FarkasLinear,
    Conv1d=FarkasConv1d,
    Conv2d=FarkasConv2d,
    Conv3d=FarkasConv3d,
)

IMPLICIT_BIAS = Family(
    name="implicit_bias",
    unit="z = w·x + b − λ·mean tanh(p·(z′ − z))",
    promise="A unit's bias depends on the other units of its channel; how much, λ, is learnt from 0.",
    Linear=ImplicitBiasLinear,
    Conv1d=ImplicitBiasConv1d,
    Conv2d=ImplicitBiasConv2d,
    Conv3d=ImplicitBiasConv3d,
)

FAMILIES: dict[str, Family] = {
    family.name: family for family in (STANDARD, ZERO_BIAS, GEOMETRIC, FARKAS, IMPLICIT_BIAS)
}


def family(name: str) -> Family:
    """The family called ``name``; an unknown name gets the list of those that exist."""
    return find(FAMILIES, name, "neuron")
