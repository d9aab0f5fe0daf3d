"""Neural tangent kernels: of a network, and of infinitely wide ones."""

from neuronal.kernel.empirical import empirical_ntk
from neuronal.kernel.infinite import Kernels, relu_ntk

__all__ = ["Kernels", "empirical_ntk", "relu_ntk"]
