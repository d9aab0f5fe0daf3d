"""Deep residual networks without batch norm and without biases: Fixup, and scaled weight standardisation."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
from typing import Any, Self

import torch
from torch import Tensor, nn

from neuronal.nn.standard import Conv1dShape, Conv2dShape, Conv3dShape, Device, Dtype, LinearShape, Plain, StandIn

RELU_GAIN = sqrt(2 / (1 - 1 / pi))
r"""Factor that gives unit variance to a ReLU of a standard normal: its variance is :math:`(1 - 1/\pi) / 2`."""


class Multiplier(nn.Module):
    r"""A learnt number the input is multiplied by, 1 at first: the scale of a residual branch in Fixup.

    Law:
        :math:`f(s x) = s f(x)`.

    Reference:
        Zhang, Dauphin & Ma, Fixup Initialization, ICLR 2019, arXiv:1901.09321, rule 3, without the scalar biases.
    """

    def __init__(self, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.empty((), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.scale)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


# The parameter that scales a layer's map, by the name it has in one family or another.
_PROPORTIONAL = ("weight", "rows", "scale")


@torch.no_grad()
def he_(layer: nn.Module, factor: float = 1.0) -> None:
    """Draws a layer's weights as He does (normal, variance 2 / fan-in) times ``factor``; its biases become zero.

    A layer with other parameters than a weight reads them from a plain layer drawn so. A Farkas layer keeps the last
    bias, which is never zero.
    """
    ways = [name for name, _ in layer.named_parameters(recurse=False) if name in _PROPORTIONAL]
    if not ways:
        raise TypeError(f"he_ needs a layer of one of the families, got {type(layer).__name__}.")
    own: Any = layer
    if getattr(own, ways[0]).is_meta:
        return
    plain = own if ways[0] == "weight" else own._plain_with(own.weight, own.bias)
    nn.init.kaiming_normal_(plain.weight, nonlinearity="relu")
    if plain.bias is not None:
        nn.init.zeros_(plain.bias)
    if plain is not own:
        own._take(plain)
    getattr(own, ways[0]).mul_(factor)


def fixup_(branch: Sequence[nn.Module], num_branches: int) -> None:
    r"""Initialises the layers of one residual branch so that a network of ``num_branches`` of them can be trained.

    With :math:`L` branches of :math:`m` layers each: normal weights of He's variance (fan-in) times
    :math:`L^{-1/(2m-2)}` for all layers but the last, which is zero. Biases, where there are any, become zero.

    Reference:
        Zhang, Dauphin & Ma, arXiv:1901.09321, rules 1 and 2. The classification layer, which rule 1 starts at zero too, is
        no part of a branch and left to the caller.
    """
    m = len(branch)
    if m < 2:
        raise ValueError(f"fixup_ needs at least 2 layers in a branch, got {m}.")
    if num_branches < 1:
        raise ValueError(f"fixup_ needs at least 1 branch, got {num_branches}.")
    for layer in branch[:-1]:
        he_(layer, num_branches ** (-1 / (2 * m - 2)))
    he_(branch[-1], 0.0)


class _ScaledStandardised(StandIn):
    """What the four layers share; see :class:`ScaledStandardisedLinear`."""

    offset: nn.Parameter | None

    def _setup(self, bias: bool, device: Device, dtype: Dtype, *, gain: float = RELU_GAIN, eps: float = 1e-5) -> None:
        if self.fan_in < 2:
            raise ValueError(f"{type(self).__name__} needs at least 2 inputs per unit to centre, got {self.fan_in}.")
        kind: Any = {"device": device, "dtype": dtype}
        self.factor, self.eps = gain, eps
        self.raw = nn.Parameter(torch.empty(self._weight_shape, **kind))
        self.gain = nn.Parameter(torch.empty(self.num_units, **kind))
        self.register_parameter("offset", nn.Parameter(torch.empty(self.num_units, **kind)) if bias else None)

    def reset_parameters(self) -> None:
        nn.init.kaiming_normal_(self.raw, nonlinearity="linear")
        nn.init.ones_(self.gain)
        if self.offset is not None:
            nn.init.zeros_(self.offset)

    def _take(self, plain: Plain) -> None:
        self.reset_parameters()
        self.raw.copy_(plain.weight)
        if self.offset is not None and plain.bias is not None:
            self.offset.copy_(plain.bias)

    @property
    def weight(self) -> Tensor:
        """Weight of the plain layer with the same map."""
        w = self.raw.flatten(1)
        variance, mean = torch.var_mean(w, dim=1, correction=0, keepdim=True)
        scale = self.gain.unsqueeze(1) * (self.factor / sqrt(self.fan_in)) * torch.rsqrt(variance + self.eps)
        return ((w - mean) * scale).view(self._weight_shape)

    @property
    def bias(self) -> Tensor | None:
        return self.offset

    def forward(self, x: Tensor) -> Tensor:
        return self._map(x, self.weight, self.bias)

    def departure(self, plain: Plain) -> str:
        return "rows are centred and scaled"

    def to_standard(self) -> Plain:
        """The plain torch layer that computes the same function."""
        return self._plain_with(self.weight, self.bias)


class ScaledStandardisedLinear(_ScaledStandardised, LinearShape):
    r"""A layer whose rows are centred and scaled before use, so that signals keep unit variance without batch norm.

    .. math:: \hat w_i = g_i \, \gamma \, \frac{w_i - \mathrm{mean}(w_i)}{\sqrt{N \,(\mathrm{var}(w_i) + \epsilon)}}

    Args:
        in_features: :math:`N`; for a convolution, inputs per filter.
        out_features: Number of units.
        bias: ``False`` for scale-invariant networks.
        gain: :math:`\gamma`: the default for inputs that come out of a ReLU, 1 for the first layer.
        eps: :math:`\epsilon`.

    Shape:
        ``(..., in_features)`` to ``(..., out_features)``.

    Law:
        Rows have mean 0 and squared length :math:`\gamma^2 g_i^2\, v / (v + \epsilon)`, :math:`v` being their variance
        (tests/nn/test_residual.py); without a bias :math:`f(s x) = s f(x)` (tests/models/test_every_model.py).

    Reference:
        Brock, De & Smith, Characterizing signal propagation to close the performance gap in unnormalized ResNets,
        ICLR 2021, arXiv:2101.08692, Eq. 3.

    Departs:
        :math:`\gamma` is the exact :math:`\sqrt{2 / (1 - 1/\pi)} = 1.7129`, not the estimate 1.7140 in use elsewhere.
    """


class ScaledStandardisedConv1d(_ScaledStandardised, Conv1dShape):
    """``nn.Conv1d`` with the rows of :class:`ScaledStandardisedLinear`."""


class ScaledStandardisedConv2d(_ScaledStandardised, Conv2dShape):
    """``nn.Conv2d`` with the rows of :class:`ScaledStandardisedLinear`."""


class ScaledStandardisedConv3d(_ScaledStandardised, Conv3dShape):
    """``nn.Conv3d`` with the rows of :class:`ScaledStandardisedLinear`."""


class ScaledResidual(nn.Module):
    r"""A residual branch between two fixed scales, behind the activation of its input.

    .. math:: y = x + \alpha f(h), \qquad h = \mathrm{relu}(\beta x), \qquad \beta = 1 / \sqrt{\mathrm{variance}}

    :math:`\beta` brings the input, whose variance has grown block by block, back to variance 1; :math:`\alpha` lets the
    branch add :math:`\alpha^2` to it. A transition block, which changes the shape, has a ``shortcut``:
    :math:`y = \mathrm{shortcut}(h) + \alpha f(h)`, and the variance starts again from 1. Positively homogeneous when
    branch and shortcut are.

    Args:
        branch: :math:`f`; keeps variance, as weight-standardised layers do.
        alpha: Share of the branch.
        variance: Expected variance of the input.
        shortcut: For a transition block; keeps variance too.

    Reference:
        Brock, De & Smith, arXiv:2101.08692, Eq. 1 and Section 3, where our :math:`\beta` is called :math:`1/\beta`.
    """

    def __init__(
        self, branch: nn.Module, alpha: float = 0.2, variance: float = 1.0, shortcut: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.branch, self.shortcut, self.relu = branch, shortcut, nn.ReLU()
        self.alpha, self.beta = alpha, 1 / sqrt(variance)
        self.out_variance = (variance if shortcut is None else 1.0) + alpha**2

    @classmethod
    def stage(
        cls,
        branches: Sequence[nn.Module],
        alpha: float = 0.2,
        variance: float = 1.0,
        shortcut: nn.Module | None = None,
    ) -> list[Self]:
        """Blocks in a row, for an input of the given variance; the first one has the shortcut, if there is one."""
        blocks: list[Self] = []
        for branch in branches:
            blocks.append(cls(branch, alpha, variance, None if blocks else shortcut))
            variance = blocks[-1].out_variance
        return blocks

    def forward(self, x: Tensor) -> Tensor:
        h = self.relu(self.beta * x)
        kept = x if self.shortcut is None else self.shortcut(h)
        y: Tensor = kept + self.alpha * self.branch(h)
        return y

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:g}, beta={self.beta:g}"
