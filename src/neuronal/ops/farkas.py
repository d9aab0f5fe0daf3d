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
    r"""``rows`` and, behind them, minus their weighted sum: :math:`v_m = -\sum_{j<m} \lambda_j v_j`.

    Three operations forward, one backward (three when the multipliers learn); rows in channels_last order stay in it.
    """
    if not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active():
        return torch.cat([rows, -(multipliers @ rows.flatten(1)).view(rows[:1].shape)])
    whole: Tensor = _Closed.apply(rows, multipliers)
    return whole


class _Closed(torch.autograd.Function):
    """Written out, because a GPU waits for the launches of what autograd would put together."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, multipliers: Tensor) -> Tensor:
        ctx.save_for_backward(rows, multipliers)
        last = -torch.mv(_flat(rows).t(), multipliers)
        return torch.cat([rows, _unflat(last, rows)])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor | None]:
        rows, multipliers = ctx.saved_tensors
        free, last = g[:-1], g[-1:]
        spread = multipliers.view(-1, *[1] * (rows.dim() - 1))
        d_rows = torch.addcmul(free, spread, last, value=-1)
        d_multipliers = -(rows * last).flatten(1).sum(1) if ctx.needs_input_grad[1] else None
        return d_rows, d_multipliers


def _is_channels_last(rows: Tensor) -> bool:
    return rows.dim() == 4 and not rows.is_contiguous() and rows.is_contiguous(memory_format=torch.channels_last)


def _flat(rows: Tensor) -> Tensor:
    """Each row as a vector, in the order in which it lies in memory."""
    return rows.permute(0, 2, 3, 1).flatten(1) if _is_channels_last(rows) else rows.flatten(1)


def _unflat(row: Tensor, rows: Tensor) -> Tensor:
    """A vector like those of ``_flat(rows)`` as one row."""
    if _is_channels_last(rows):
        _, c, h, w = rows.shape
        return row.view(1, h, w, c).permute(0, 3, 1, 2)
    return row.view(1, *rows.shape[1:])


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
