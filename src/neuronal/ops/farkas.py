r"""The inequality behind Farkas layers.

Let a layer's pre-activations be :math:`z_j(x) = w_j^\top x + b_j`, :math:`j = 1 \dots m`, and let the last row close the
others: :math:`w_m = -\sum_{j<m} \lambda_j w_j` with :math:`\lambda_j > 0`, :math:`\lambda_m = 1`. Then
:math:`\sum_j \lambda_j z_j(x) = \sum_j \lambda_j b_j` for every :math:`x`, and a weighted mean cannot exceed the maximum:

.. math:: \max_j z_j(x) \;\ge\; \frac{\sum_j \lambda_j b_j}{\sum_j \lambda_j}.
"""

from __future__ import annotations

from torch import Tensor


def weighted_sum(values: Tensor, multipliers: Tensor) -> Tensor:
    r""":math:`\sum_j \lambda_j v_j` over the first dimension."""
    return (multipliers @ values.flatten(1)).view(values.shape[1:])


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
