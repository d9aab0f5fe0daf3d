"""Residual blocks with the Farkas property: the last channel balances the sum of skip and branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.nn.farkas import Balance, FarkasConv2d, need_two
from neuronal.nn.graph import is_recorded, one_node
from neuronal.nn.standard import Device, Dtype, Options

Norm = Callable[[int], nn.Module]


class FarkasResidual(nn.Module):
    r"""Closes a sum of skip and branch.

    With ``widen``, one more channel, minus the weighted sum of all, is put behind them: :math:`m` channels become
    :math:`m + 1`. Without, it takes the place of the last channel, which is dropped: the width stays.

    Args:
        channels: :math:`m`.
        widen: The paper's variant.
        fan_in: Sets the size of the first biases, as in ``nn.Linear``; ``channels`` if left out.
        options: Those of :class:`neuronal.nn.farkas.Balance`.

    Shape:
        ``(batch, channels, ...)`` to ``(batch, channels + 1, ...)``, or the same width without ``widen``.

    Law:
        The largest channel of the output is at least ``promise()`` at every position, whatever the sign of the input
        (tests/laws/test_farkas.py).

    Reference:
        Pooladian, Finlay & Oberman, Farkas layers, Algorithm 2.

    Departs:
        The bias is strict; see :class:`neuronal.nn.farkas.FarkasLinear`.
    """

    def __init__(
        self,
        channels: int,
        widen: bool = True,
        device: Device = None,
        dtype: Dtype = None,
        *,
        fan_in: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if not widen:
            need_two("FarkasResidual without widen", channels, "widen=True")
        if channels < 1:
            raise ValueError(f"FarkasResidual needs at least 1 channel, got {channels}.")
        self.channels, self.widen = channels, widen
        free = channels if widen else channels - 1
        self.balance = Balance(free, fan_in or channels, True, device, dtype, **options)

    @property
    def out_channels(self) -> int:
        return self.channels + 1 if self.widen else self.channels

    def promise(self) -> Tensor:
        return self.balance.promise()

    @one_node
    def forward(self, z: Tensor) -> Tensor:
        if z.dim() < 2 or z.shape[1] != self.channels:
            raise ValueError(f"FarkasResidual needs shape (batch, {self.channels}, ...), got {tuple(z.shape)}.")
        return self.balance.close(z if self.widen else z[:, :-1])


class _FarkasBlock(nn.Module):
    """relu(close(x + branch(x))), with an optional norm after every ReLU, as the paper places it.

    Biases behind the sum start as those of a 3x3 convolution, whatever the branch ends with: as the authors' do.
    """

    def __init__(
        self,
        channels: int,
        widen: bool = True,
        norm: Norm | None = None,
        zero_last: bool = False,
        published: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        self._check(channels)
        self.branch = self._branch(channels, norm, options)
        self.close = FarkasResidual(channels, widen, fan_in=9 * channels, **options)
        self.relu = nn.ReLU()
        self.norm = norm(self.close.out_channels) if norm else nn.Identity()
        self._start(9 * channels, zero_last, published)

    @torch.no_grad()
    def _start(self, fan_in: int, zero_last: bool, published: bool) -> None:
        last: Any = self.branch[-1]
        if published:
            nn.init.uniform_(last.weight, -(fan_in**-0.5), fan_in**-0.5)
        if zero_last:
            balance = self.close.balance
            for zero in (last.weight, balance.offsets, balance.last if balance.rule == "max" else None):
                if zero is not None:
                    zero.zero_()

    def _check(self, channels: int) -> None:
        """``ValueError`` if the block is too narrow; each kind of block says it."""
        raise NotImplementedError

    def _branch(self, channels: int, norm: Norm | None, options: Options) -> nn.Sequential:
        """What is added to the skip, its last layer a plain convolution; each kind of block has its own."""
        raise NotImplementedError

    @property
    def out_channels(self) -> int:
        return self.close.out_channels

    def forward(self, x: Tensor) -> Tensor:
        if not is_recorded(x) and x.dim() != 4:
            raise ValueError(
                f"{type(self).__name__} needs a batch of images, (batch, channels, h, w), got {tuple(x.shape)}."
            )
        y: Tensor = self.norm(self.relu(self.close(x + self.branch(x))))
        return y


def _activated(conv: FarkasConv2d, norm: Norm | None) -> list[nn.Module]:
    return [conv, nn.ReLU(), *([norm(conv.num_units)] if norm else [])]


class FarkasBasicBlock(_FarkasBlock):
    """Two 3x3 convolutions, the first a Farkas layer, the second closed together with the skip.

    Args:
        channels: Channels of the input, at least 2.
        widen: One channel more in the output (the paper), or the same width.
        norm: Makes a norm for a number of channels, put after every ReLU.
        zero_last: Starts the second convolution and the biases behind it at zero: at first the block is its skip, but
            for the last channel.
        published: Starts the second convolution as the authors' code does, which for this block is what torch does.
        options: ``aggregate``, ``margin``, ``learn_multipliers``, ``cutoff``, ``rule`` of
            :class:`neuronal.nn.farkas.Balance`; ``device``, ``dtype``.

    Shape:
        ``(batch, channels, h, w)`` to ``(batch, out_channels, h, w)``.

    Law:
        Before its last ReLU the largest channel is at least ``close.promise()`` at every position
        (tests/nn/test_farkas_block.py).

    Reference:
        Pooladian, Finlay & Oberman, Farkas layers, Algorithm 2.

    Departs:
        The bias is strict; ``widen=False`` is ours.
    """

    def _check(self, channels: int) -> None:
        need_two("FarkasBasicBlock", channels, "a plain block")

    def _branch(self, channels: int, norm: Norm | None, options: Options) -> nn.Sequential:
        kind = {name: options[name] for name in ("device", "dtype") if name in options}
        first = FarkasConv2d(channels, channels, 3, padding=1, **options)
        return nn.Sequential(*_activated(first, norm), nn.Conv2d(channels, channels, 3, padding=1, bias=False, **kind))


class FarkasBottleneck(_FarkasBlock):
    """1x1 and 3x3 Farkas convolutions at a quarter of the width, and a plain 1x1 closed together with the skip.

    Args:
        channels: Channels of the input; a quarter of them is the inner width and must be at least 2.
        widen: One channel more in the output (the paper), or the same width.
        norm: Makes a norm for a number of channels, put after every ReLU.
        zero_last: Starts the last convolution and the biases behind it at zero.
        published: Starts the last convolution as the authors' code does, as if it had 9 times ``channels`` inputs where it
            has a quarter of them: six times smaller than torch's start.
        options: ``aggregate``, ``margin``, ``learn_multipliers``, ``cutoff``, ``rule`` of
            :class:`neuronal.nn.farkas.Balance`; ``device``, ``dtype``.

    Shape:
        ``(batch, channels, h, w)`` to ``(batch, out_channels, h, w)``.

    Law:
        Before its last ReLU the largest channel is at least ``close.promise()`` at every position
        (tests/nn/test_farkas_block.py).

    Reference:
        Pooladian, Finlay & Oberman, Farkas layers, Algorithm 2.

    Departs:
        The bias is strict; ``widen=False`` is ours.
    """

    def _check(self, channels: int) -> None:
        name = f"FarkasBottleneck with {channels} channels, inner width a quarter of them,"
        need_two(name, channels // 4, "8 channels or more")

    def _branch(self, channels: int, norm: Norm | None, options: Options) -> nn.Sequential:
        inner = channels // 4
        kind = {name: options[name] for name in ("device", "dtype") if name in options}
        first = FarkasConv2d(channels, inner, 1, **options)
        second = FarkasConv2d(inner, inner, 3, padding=1, **options)
        last = nn.Conv2d(inner, channels, 1, bias=False, **kind)
        return nn.Sequential(*_activated(first, norm), *_activated(second, norm), last)
