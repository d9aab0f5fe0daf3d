r"""Zero-bias layers: ``nn.Linear`` and ``nn.Conv*d`` that never have a bias.

A network of these and of positively homogeneous functions (ReLU, max and average pooling, zero padding) is itself
positively homogeneous, so a change of contrast scales its logits and cannot change its class.
"""

from __future__ import annotations

from typing import Any, Self, cast

from torch import Tensor, nn

from neuronal.nn.standard import Device, Dtype, PaddingMode, Plain, Size, arguments, check_sizes, copied, named


class _ZeroBias:
    """What the four layers share; each is also the torch layer named in ``_plain``."""

    _plain: type[Plain]

    @classmethod
    def _refuse(cls, bias: bool, *sizes: int) -> None:
        check_sizes(cls, *sizes)
        if bias:
            raise ValueError(
                f"{cls.__name__} has no bias, got bias={bias}. "
                f"Leave bias out, or use nn.{cls._plain.__name__} for units with one."
            )

    @classmethod
    def from_standard(cls, layer: Plain) -> Self:
        """The same weights without the bias; the same function exactly when that bias is absent or zero."""
        if not isinstance(layer, cls._plain):
            needed, got = cls._plain.__name__, type(layer).__name__
            raise TypeError(f"{cls.__name__}.from_standard needs an nn.{needed}, got {got}.")
        new: Any = cls(**{**arguments(layer), "device": "meta"})
        new.weight = copied(layer.weight)
        return cast(Self, new.train(layer.training))

    def forward(self, input: Tensor) -> Tensor:
        try:
            y: Tensor = super().forward(input)  # type: ignore[misc]
        except RuntimeError as wrong:
            raise named(wrong, cast(nn.Module, self)) from wrong
        return y

    def departure(self, plain: nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d) -> str:
        """What this layer computes differently from ``plain``, which it was made from; empty if nothing."""
        if plain.bias is None:
            return ""
        if plain.bias.is_meta:
            return "bias dropped"
        largest = plain.bias.detach().abs().max().item() if plain.bias.numel() else 0.0
        return f"bias of up to {largest:.2g} dropped" if largest else ""

    def to_standard(self) -> Plain:
        """The plain torch layer, with ``bias=False``, that computes the same function."""
        own: Any = self
        plain = self._plain(**{**arguments(own), "device": "meta"}, bias=False)
        plain.weight = copied(own.weight)
        return plain.train(own.training)


class ZeroBiasLinear(_ZeroBias, nn.Linear):
    r"""Linear units whose hyperplanes all pass through the origin.

    .. math:: y = W x

    Args:
        in_features: Size of :math:`x`.
        out_features: Number of units.
        bias: Keeps the order of arguments of ``nn.Linear``; ``True`` is refused.

    Shape:
        ``(..., in_features)`` to ``(..., out_features)``.

    Law:
        :math:`y(s x) = s\,y(x)` for :math:`s > 0`, bit for bit when :math:`s` is a power of two
        (tests/laws/test_scaling.py).

    Reference:
        Geng, Xu, Ye & Si, Scalar Invariant Networks with Zero Bias.

    Departs:
        Nothing.
    """

    _plain = nn.Linear

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        self._refuse(bias, in_features, out_features)
        super().__init__(in_features, out_features, False, device, dtype)


class _ZeroBiasConv(_ZeroBias):
    """Constructor of the three convolutions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: str | Size = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = False,
        padding_mode: PaddingMode = "zeros",
        device: Device = None,
        dtype: Dtype = None,
    ) -> None:
        self._refuse(bias, in_channels, out_channels)
        shape: Any = (in_channels, out_channels, kernel_size, stride, padding, dilation, groups)
        super().__init__(*shape, False, padding_mode, device, dtype)  # type: ignore[call-arg]


class ZeroBiasConv1d(_ZeroBiasConv, nn.Conv1d):
    """``nn.Conv1d`` without a bias; equation, law and reference as for :class:`ZeroBiasLinear`."""

    _plain = nn.Conv1d


class ZeroBiasConv2d(_ZeroBiasConv, nn.Conv2d):
    """``nn.Conv2d`` without a bias; equation, law and reference as for :class:`ZeroBiasLinear`."""

    _plain = nn.Conv2d


class ZeroBiasConv3d(_ZeroBiasConv, nn.Conv3d):
    """``nn.Conv3d`` without a bias; equation, law and reference as for :class:`ZeroBiasLinear`."""

    _plain = nn.Conv3d
