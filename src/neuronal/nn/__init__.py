"""Layers: one neuron model per file, drop-in for ``torch.nn``."""

from neuronal.core.decay import decay_groups
from neuronal.nn.farkas import FarkasConv1d, FarkasConv2d, FarkasConv3d, FarkasLayer, FarkasLinear
from neuronal.nn.farkas_block import FarkasBasicBlock, FarkasBottleneck, FarkasResidual
from neuronal.nn.geometric import GeometricConv1d, GeometricConv2d, GeometricConv3d, GeometricLayer, GeometricLinear
from neuronal.nn.implicit_bias import (
    ImplicitBiasConv1d,
    ImplicitBiasConv2d,
    ImplicitBiasConv3d,
    ImplicitBiasLayer,
    ImplicitBiasLinear,
)
from neuronal.nn.norm import ChannelScale, InputMeanNorm, MeanOnlyBatchNorm
from neuronal.nn.residual import (
    Multiplier,
    ScaledResidual,
    ScaledStandardisedConv1d,
    ScaledStandardisedConv2d,
    ScaledStandardisedConv3d,
    ScaledStandardisedLinear,
    fixup_,
)
from neuronal.nn.zero_bias import ZeroBiasConv1d, ZeroBiasConv2d, ZeroBiasConv3d, ZeroBiasLinear

__all__ = [
    "ChannelScale",
    "FarkasBasicBlock",
    "FarkasBottleneck",
    "FarkasConv1d",
    "FarkasConv2d",
    "FarkasConv3d",
    "FarkasLayer",
    "FarkasLinear",
    "FarkasResidual",
    "GeometricConv1d",
    "GeometricConv2d",
    "GeometricConv3d",
    "GeometricLayer",
    "GeometricLinear",
    "ImplicitBiasConv1d",
    "ImplicitBiasConv2d",
    "ImplicitBiasConv3d",
    "ImplicitBiasLayer",
    "ImplicitBiasLinear",
    "InputMeanNorm",
    "MeanOnlyBatchNorm",
    "Multiplier",
    "ScaledResidual",
    "ScaledStandardisedConv1d",
    "ScaledStandardisedConv2d",
    "ScaledStandardisedConv3d",
    "ScaledStandardisedLinear",
    "ZeroBiasConv1d",
    "ZeroBiasConv2d",
    "ZeroBiasConv3d",
    "ZeroBiasLinear",
    "decay_groups",
    "fixup_",
]
