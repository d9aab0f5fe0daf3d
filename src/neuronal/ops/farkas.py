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


def closed(rows: Tensor, multipliers: Tensor) -> Tensor:
    r"""``rows`` and, behind them, minus their weighted sum: :math:`v_m = -\sum_{j<m} \lambda_j v_j`."""
    # Matrices and elementwise products only, here and below: fvcore has no count for a vector times a matrix. No sums over
    # all dimensions, and nothing flattened that is flat: auto_LiRPA has none.
    flat = rows if rows.dim() == 2 else rows.flatten(1)
    return torch.cat([rows, -(multipliers.unsqueeze(0) @ flat).view(rows[:1].shape)])


def weight_and_bias(
    rows: Tensor, offsets: Tensor | None, last: Tensor | None, *, base: float, margin: float, cutoff: float
) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of a layer whose multipliers are all ``base``, on a GPU: one kernel, and one for the gradients.

    Under autocast they come in autocast's precision at once. The rows keep their order of memory.
    """
    kind = rows.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else rows.dtype
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


def closing_bias(free: Tensor, multipliers: Tensor, slack: Tensor | float, cutoff: float) -> Tensor:
    r"""Bias of the last unit that makes :math:`\sum_j \lambda_j b_j = c \sum_j \lambda_j + \mathrm{slack}`.

    Args:
        free: Biases of the others, ``(m - 1,)``.
        multipliers: :math:`\lambda_j` of the others, ``(m - 1,)``.
        slack: What is left above the cutoff.
        cutoff: :math:`c`; units count as active above it.
    """
    return slack + cutoff * (1 + multipliers.sum(0)) - (multipliers * free).sum(0)


def guarantee(multipliers: Tensor, slack: Tensor | float, cutoff: float) -> Tensor:
    r"""The least value :math:`\max_j z_j(x)` can take: :math:`c + \mathrm{slack} / \sum_j \lambda_j`."""
    return cutoff + slack / (1 + multipliers.sum())
