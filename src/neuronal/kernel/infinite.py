r"""Kernels of infinitely wide fully connected ReLU networks, in closed form.

With :math:`f_1 = \sqrt{v_0 / n_0}\, W x + \beta b` and :math:`f_{l+1} = \sqrt{v / n_l}\, W \mathrm{relu}(f_l) + \beta b`,
all of :math:`W` and :math:`b` drawn from N(0, 1), the covariance :math:`\Sigma` of an output and the tangent kernel
:math:`K` are

.. math::
    \Sigma_1 = K_1 = v_0\, x^\top x' / n_0 + \beta^2, \qquad
    \Sigma_{l+1} = v\, \mathrm{E}[\mathrm{relu}(u)\, \mathrm{relu}(u')] + \beta^2, \qquad
    K_{l+1} = \Sigma_{l+1} + v\, \mathrm{E}[1_{u>0} 1_{u'>0}]\, K_l

for :math:`(u, u')` normal with covariances :math:`\Sigma_l`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Kernels:
    """``covariance`` of the outputs at initialisation and tangent kernel ``ntk``, each (inputs, other inputs)."""

    covariance: Tensor
    ntk: Tensor


def relu_ntk(
    x: Tensor,
    other: Tensor | None = None,
    *,
    depth: int,
    weight_variance: float = 2.0,
    bias_variance: float = 0.0,
    input_variance: float = 1.0,
    memory: int = 2**30,
) -> Kernels:
    r"""Both kernels between the rows of ``x`` and of ``other`` (``x`` itself if left out), in the precision of ``x``.

    Cost: one matrix product and about 20 operations per pair and layer; rows are done in chunks within ``memory`` bytes.
    In float32 inputs at nearly the same angle lose digits in the arc cosine: 1e-3 after ten layers, float64 about 1e-7.

    Args:
        x: ``(inputs, ...)``; everything behind the first dimension is one vector.
        other: The same for the columns.
        depth: Hidden layers; 0 for a linear network.
        weight_variance: :math:`v`; 2 is He's, 1 that of Geng and others' eq. 27.
        bias_variance: :math:`\beta^2`; 0 for zero-bias networks.
        input_variance: :math:`v_0`.
        memory: For intermediate results, on top of the two answers.

    Reference:
        Jacot, Gabriel & Hongler, Neural Tangent Kernel, NeurIPS 2018, arXiv:1806.07572; the expectations are the
        arc-cosine kernels of Cho & Saul, NeurIPS 2009.
    """
    if depth < 0 or weight_variance <= 0 or input_variance <= 0 or bias_variance < 0:
        raise ValueError(
            "relu_ntk needs depth >= 0, positive variances of weights and inputs and a bias_variance that is not "
            f"negative, got {depth}, {weight_variance}, {input_variance}, {bias_variance}."
        )
    a = _vectors(x)
    b = a if other is None else _vectors(other)
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"both sets need inputs of one size, got {a.shape[1]} and {b.shape[1]} numbers.")
    size = input_variance / a.shape[1]
    own_a, own_b = (v.square().sum(1) * size + bias_variance for v in (a, b))
    # About ten arrays of a chunk are alive at once.
    rows = max(1, memory // (10 * max(1, len(b)) * a.element_size()))
    parts = []
    for start in range(0, len(a), rows):
        part, own = a[start : start + rows], own_a[start : start + rows]
        covariance = part @ b.T * size + bias_variance
        parts.append(_layers(covariance, own, own_b, depth, weight_variance, bias_variance))
    if not parts:
        empty = a.new_empty(0, len(b))
        return Kernels(empty, empty)
    return Kernels(torch.cat([p.covariance for p in parts]), torch.cat([p.ntk for p in parts]))


def _vectors(x: Tensor) -> Tensor:
    if x.dim() < 2 or not x.is_floating_point():
        raise ValueError(f"inputs need to be numbers with a batch in front, got {x.dtype} of shape {tuple(x.shape)}.")
    return x.flatten(1)


def _layers(covariance: Tensor, own_a: Tensor, own_b: Tensor, depth: int, v: float, beta2: float) -> Kernels:
    ntk = covariance
    for _ in range(depth):
        norm = (own_a.unsqueeze(1) * own_b).sqrt()
        # A zero input without biases has no angle; any does, because everything is multiplied by its norm.
        cosine = (covariance / torch.where(norm > 0, norm, 1)).clamp(-1, 1)
        angle = cosine.arccos()
        on = (pi - angle) / (2 * pi)
        covariance = v * norm * (angle.sin() / (2 * pi) + on * cosine) + beta2
        ntk = covariance + v * on * ntk
        # E[relu(u)^2] is half the variance.
        own_a, own_b = v * own_a / 2 + beta2, v * own_b / 2 + beta2
    return Kernels(covariance, ntk)
