r"""The inequality behind Farkas layers.

Let a layer's pre-activations be :math:`z_j(x) = w_j^\top x + b_j`, :math:`j = 1 \dots m`, and let the last row close the
others: :math:`w_m = -\sum_{j<m} \lambda_j w_j` with :math:`\lambda_j > 0`, :math:`\lambda_m = 1`. Then
:math:`\sum_j \lambda_j z_j(x) = \sum_j \lambda_j b_j` for every :math:`x`, and a weighted mean cannot exceed the maximum:

.. math:: \max_j z_j(x) \;\ge\; \frac{\sum_j \lambda_j b_j}{\sum_j \lambda_j}.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from neuronal.ops.fusable import is_unwatched


def closed(rows: Tensor, multipliers: Tensor) -> Tensor:
    r"""``rows`` and, behind them, minus their weighted sum: :math:`v_m = -\sum_{j<m} \lambda_j v_j`."""
    return torch.cat([rows, -(multipliers @ rows.flatten(1)).view(rows[:1].shape)])


def weight_and_bias(
    rows: Tensor, offsets: Tensor | None, last: Tensor | None, *, base: float, margin: float, cutoff: float
) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of a layer whose multipliers are all ``base``, on a GPU: one kernel, and one for the gradients.

    Under autocast they come in autocast's precision at once. The rows keep their order of memory.
    """
    dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else rows.dtype
    offsets = None if offsets is None else offsets.contiguous()
    found = _WeightAndBias.apply(rows, offsets, last, base, margin, cutoff, dtype)
    return (found, None) if isinstance(found, Tensor) else found


class _WeightAndBias(torch.autograd.Function):
    """The fused kernels; a gradient that will be differentiated again is built from plain steps."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        offsets: Tensor | None,
        last: Tensor | None,
        base: float,
        margin: float,
        cutoff: float,
        dtype: torch.dtype,
    ) -> Tensor | tuple[Tensor, Tensor]:
        from neuronal.ops.kernels import farkas

        ctx.save_for_backward(rows, last)
        ctx.base = base
        weight, bias = farkas.weight_and_bias(rows, offsets, last, base, margin, cutoff, dtype)
        # What is compiled has no place for a None among several.
        return weight if bias is None else (weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor, g_bias: Tensor | None = None) -> tuple[Tensor | None, ...]:
        rows, last = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (*gradients(rows, last, g, g_bias, ctx.base), None, None, None, None)
        from neuronal.ops.kernels import farkas

        return (*farkas.gradients(rows, last, g, g_bias, ctx.base), None, None, None, None)


def gradients(
    rows: Tensor, last: Tensor | None, g: Tensor, g_bias: Tensor | None, base: float
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Those for rows, offsets and ``last`` from those of weight and bias, in steps that can be differentiated."""
    g = g.to(rows.dtype)
    d_rows = g[:-1] - base * g[-1:]
    if last is None or g_bias is None:
        return d_rows, None, None
    g_bias = g_bias.to(rows.dtype)
    return d_rows, g_bias[:-1] - base * g_bias[-1], g_bias[-1] * last.sigmoid()


def relu_of_closed_sum(
    x: Tensor,
    h: Tensor,
    offsets: Tensor,
    last: Tensor,
    *,
    base: float,
    margin: float,
    cutoff: float,
    is_max: bool = False,
) -> Tensor:
    """relu of a sum, ``(batch, channels, ...)``, whose last channel closes the others, on a GPU: one kernel each way.

    Channels that have an offset are kept; one more, if there is one, is dropped. All multipliers are ``base``. ``is_max``
    for the paper's last bias: ``last`` itself, where it is larger than what is needed.
    """
    y: Tensor = _ReluOfClosedSum.apply(x, h, offsets, last, base, margin, cutoff, is_max)
    return y


class _ReluOfClosedSum(torch.autograd.Function):
    """The fused kernels; a gradient that is differentiated again, or looked at, is built from plain steps."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h: Tensor,
        offsets: Tensor,
        last: Tensor,
        base: float,
        margin: float,
        cutoff: float,
        is_max: bool,
    ) -> Tensor:
        from neuronal.ops.kernels import farkas_sum

        y = farkas_sum.relu_of_closed_sum(x, h, offsets, last, base, margin, cutoff, is_max)
        is_larger = last >= cutoff * (1 + base * len(offsets)) - base * offsets.sum() if is_max else None
        ctx.save_for_backward(y, last, is_larger)
        ctx.base, ctx.channels = base, x.shape[1]
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        y, last, is_larger = ctx.saved_tensors
        # Not many gradients at once, of which autograd makes one tensor.
        plain = type(g) is Tensor and not torch._C._functorch.is_legacy_batchedtensor(g)
        if torch.is_grad_enabled() or not plain or not is_unwatched():
            d, *of_biases = _gradients_of_sum(y, last, g, ctx.base, ctx.channels, is_larger)
        else:
            from neuronal.ops.kernels import farkas_sum

            d, *of_biases = farkas_sum.gradients(y, last, g, ctx.base, ctx.channels, is_larger)
        return (d, d, *of_biases, None, None, None, None)


def _gradients_of_sum(
    y: Tensor, last: Tensor, g: Tensor, base: float, channels: int, is_larger: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Those for the sum, the offsets and ``last``, in steps that can be differentiated."""
    g = g.masked_fill(y <= 0, 0)
    d = g[:, :-1] - base * g[:, -1:]
    d_offsets = d.sum([0, *range(2, d.dim())], dtype=last.dtype)
    of_last = g[:, -1].sum(dtype=last.dtype)
    if is_larger is None:
        d_last = of_last * last.sigmoid()
    else:
        d_last = of_last * is_larger
        d_offsets = d_offsets + base * d_last
    dropped = torch.zeros_like(g[:, : channels - d.shape[1]])
    return torch.cat([d, dropped], 1), d_offsets, d_last


def closing_bias(free: Tensor, multipliers: Tensor, slack: Tensor | float, cutoff: float) -> Tensor:
    r"""Bias of the last unit that makes :math:`\sum_j \lambda_j b_j = c \sum_j \lambda_j + \mathrm{slack}`.

    Args:
        free: Biases of the others, ``(m - 1,)``.
        multipliers: :math:`\lambda_j` of the others, ``(m - 1,)``.
        slack: What is left above the cutoff.
        cutoff: :math:`c`; units count as active above it.
    """
    return slack + cutoff * (1 + multipliers.sum()) - multipliers @ free


def guarantee(multipliers: Tensor, slack: Tensor | float, cutoff: float) -> Tensor:
    r"""The least value :math:`\max_j z_j(x)` can take: :math:`c + \mathrm{slack} / \sum_j \lambda_j`."""
    return cutoff + slack / (1 + multipliers.sum())
