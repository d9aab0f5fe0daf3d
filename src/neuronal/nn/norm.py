"""Normalisation by the mean alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed, nn

from neuronal.nn.standard import Device, Dtype


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


def _is_shared() -> bool:
    """Whether several processes each hold a part of the batch."""
    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


class InputMeanNorm(nn.Module):
    r"""Centres every channel: subtracts its mean over batch and positions.

    .. math:: y = x - \mu, \qquad \mu_c = \mathrm{mean}_{n, \mathrm{positions}}\, x_{n c \cdot}

    Stands before the layer whose input it centres. In training the gradient flows through the mean; in evaluation the
    running mean is subtracted. No parameters. Where ``torch.distributed`` runs several processes, the batch in training is
    that of all of them together.

    Args:
        num_features: Number of channels, the size of dimension 1.
        momentum: Share of the new mean in the running mean, as in ``nn.BatchNorm2d``.

    Shape:
        ``(batch, num_features, ...)`` to the same.

    Law:
        In training the output has mean 0 in every channel (tests/nn/test_norm.py).

    Reference:
        Chen & Ge, arXiv:2305.15912, Eq. 16.

    Departs:
        The authors' code divides by the root of 1 + 1e-6 and puts the layer before max-pooling, where the next layer's
        input is no longer centred; here nothing is divided and the place is the user's choice.
    """

    running_mean: Tensor

    def __init__(self, num_features: int, momentum: float = 0.01, device: Device = None, dtype: Dtype = None) -> None:
        super().__init__()
        if not 0 < momentum <= 1:
            raise ValueError(f"{type(self).__name__} needs momentum in (0, 1], got {momentum}.")
        self.num_features, self.momentum = num_features, momentum
        self.register_buffer("running_mean", torch.empty(num_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.running_mean.zero_()

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() < 2 or x.shape[1] != self.num_features:
            raise ValueError(
                f"{type(self).__name__} needs input of shape (batch, {self.num_features}, ...), got {tuple(x.shape)}."
            )
        mean = self.running_mean
        if self.training and (x.numel() or _is_shared()):
            mean = self._batch_mean(x)
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
        return self._shifted(x, -mean)

    def _batch_mean(self, x: Tensor) -> Tensor:
        # In float32 under autocast: a mean over a million half-precision values needs the digits.
        dims, dtype = [0, *range(2, x.dim())], torch.promote_types(x.dtype, torch.float32)
        if not _is_shared():
            return x.mean(dims, dtype=dtype)
        count = x.new_full((1,), x.numel() / self.num_features, dtype=dtype)
        total: Tensor = _SumOverProcesses.apply(torch.cat([x.sum(dims, dtype=dtype), count]))
        return total[:-1] / total[-1].clamp(min=1)

    def _shifted(self, x: Tensor, shift: Tensor) -> Tensor:
        """x plus a number per channel; in the wider dtype of both, so that half precision is rounded once."""
        return (x + shift.view(-1, *[1] * (x.dim() - 2))).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.num_features}, momentum={self.momentum}"


class MeanOnlyBatchNorm(InputMeanNorm):
    r"""Batch normalisation without the variance: centre, then add a learnt bias.

    .. math:: y = x - \mu + b

    Stands between a weight-normalised layer (without a bias of its own, which the mean would cancel) and its activation.

    Args:
        num_features: Number of channels.
        momentum: Share of the new mean in the running mean.
        published: Leaves the bias out, as the code compared with in arXiv:2305.15912 does.

    Shape:
        ``(batch, num_features, ...)`` to the same.

    Law:
        In training the output has mean ``bias`` in every channel (tests/nn/test_norm.py).

    Reference:
        Salimans & Kingma, Weight Normalization, NIPS 2016, arXiv:1602.07868, Section 4.

    Departs:
        Nothing.
    """

    bias: nn.Parameter | None

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.01,
        device: Device = None,
        dtype: Dtype = None,
        *,
        published: bool = False,
    ) -> None:
        super().__init__(num_features, momentum, device, dtype)
        bias = None if published else nn.Parameter(torch.zeros(num_features, device=device, dtype=dtype))
        self.register_parameter("bias", bias)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if getattr(self, "bias", None) is not None:
            nn.init.zeros_(self.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y if self.bias is None else self._shifted(y, self.bias)

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.bias is not None else ", published=True")


class ChannelScale(nn.Module):
    r"""A learnt factor per channel, :math:`y_c = s_c\, x_c`: what is left of a batch norm in a network without biases.

    Args:
        scale: The factors to start from.

    Shape:
        ``(batch, channels, ...)`` to the same.

    Law:
        :math:`f(t x) = t f(x)` (tests/nn/test_norm.py).
    """

    def __init__(self, scale: Tensor) -> None:
        super().__init__()
        self.scale = nn.Parameter(scale.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale.view(-1, *[1] * (x.dim() - 2)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{len(self.scale)}"
