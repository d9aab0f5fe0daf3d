"""Channels less their mean over a batch: of all processes together, where several hold a part of it.

Cost: a batch is read twice and written once, and so is its gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed, nn

from neuronal.ops import dispatch


def is_shared() -> bool:
    """Whether several processes each hold a part of the batch."""
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def centred(x: Tensor, shift: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Every channel less its mean over batch and positions, plus a number; and the means.

    Half precision is rounded once: means, and what is added, are in float32. Differentiable any number of times.

    Args:
        x: ``(batch, channels, ...)``.
        shift: ``(channels,)``, or None for 0.

    Returns:
        Of the shape and dtype of ``x``; and ``(channels,)``, which is not for gradients to flow through.
    """
    if dispatch.is_plain_eager() and _is_plain(x):
        found: tuple[Tensor, Tensor] = _Centred.apply(x, shift)
        return found
    mean = _mean(x)
    return shifted(x, _less(shift, mean)), mean


def _is_plain(x: Tensor) -> bool:
    # Of many gradients at once autograd makes one tensor, which is not what it seems.
    return type(x) in (Tensor, nn.Parameter) and not torch._C._functorch.is_legacy_batchedtensor(x)


def shifted(x: Tensor, shift: Tensor) -> Tensor:
    """x plus a number per channel; in the wider dtype of both, so that half precision is rounded once."""
    return (x + _spread(shift, x)).to(x.dtype)


class _Centred(torch.autograd.Function):
    """What is centred has a centred gradient."""

    # With a context, which transforms of torch.func do not take: none comes here, and a call costs less.
    @staticmethod
    def forward(ctx: Any, x: Tensor, shift: Tensor | None) -> tuple[Tensor, Tensor]:
        y, mean = _centred_at_once(x, shift)
        ctx.mark_non_differentiable(mean)
        ctx.set_materialize_grads(False)
        ctx.dtype = None if shift is None else shift.dtype
        return y, mean

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, _: None) -> tuple[Tensor | None, Tensor | None]:
        if g is None:
            return None, None
        of_x, of_shift = ctx.needs_input_grad
        is_last = not torch.is_grad_enabled()
        centring = _centred_at_once if is_last and dispatch.is_plain_eager() and _is_plain(g) else centred
        found, mean = centring(g, None) if of_x else (None, None)
        if not of_shift:
            return found, None
        if mean is None or not is_last or is_shared():
            return found, g.sum(_dims(g), dtype=ctx.dtype)
        return found, (mean * (g.numel() / len(mean))).to(ctx.dtype)


def _centred_at_once(x: Tensor, shift: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same without gradients. On a GPU by the parts of synchronised batch norm, which write no copy in float32."""
    if not x.is_cuda or not x.numel():
        mean = _mean(x)
        return shifted(x, _less(shift, mean)), mean
    mean = _mean(x) if is_shared() else torch.batch_norm_stats(x, 1.0)[0]
    taken = mean if shift is None else (mean - shift).to(mean.dtype)
    return torch.batch_norm_elemt(x, None, None, taken, torch.ones_like(taken), 0.0), mean


class _SumOverProcesses(torch.autograd.Function):
    """The sum of a tensor over all processes. Each loss depends on every summand, so gradients are summed as well."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.clone()
        distributed.all_reduce(total)
        return total


def _mean(x: Tensor) -> Tensor:
    # In float32 under autocast: a mean over a million half-precision values needs the digits.
    dims, dtype = _dims(x), torch.promote_types(x.dtype, torch.float32)
    if not is_shared():
        return x.mean(dims, dtype=dtype)
    count = x.new_full((1,), x.numel() / x.shape[1], dtype=dtype)
    total: Tensor = _SumOverProcesses.apply(torch.cat([x.sum(dims, dtype=dtype), count]))
    return total[:-1] / total[-1].clamp(min=1)


def _dims(x: Tensor) -> list[int]:
    return [0, *range(2, x.dim())]


def _less(shift: Tensor | None, mean: Tensor) -> Tensor:
    return -mean if shift is None else shift - mean


def _spread(of_channels: Tensor, x: Tensor) -> Tensor:
    return of_channels.view(-1, *[1] * (x.dim() - 2))
