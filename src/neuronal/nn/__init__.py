"""Layers: one neuron model per file, drop-in for ``torch.nn``."""

from neuronal.nn.zero_bias import ZeroBiasConv1d, ZeroBiasConv2d, ZeroBiasConv3d, ZeroBiasLinear

__all__ = ["ZeroBiasConv1d", "ZeroBiasConv2d", "ZeroBiasConv3d", "ZeroBiasLinear"]
