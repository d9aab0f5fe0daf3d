"""Neural tangent kernels: of a network, and of infinitely wide ones."""

from neuronal.kernel.empirical import empirical_ntk, rates_of_width
from neuronal.kernel.infinite import Kernels, relu_ntk

__all__ = ["Kernels", "empirical_ntk", "rates_of_width", "relu_ntk"]
