"""Normalisation by the mean alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from neuronal.nn.graph import one_node
from neuronal.nn.standard import Device, Dtype, check_sizes
from neuronal.ops.centre import centred, is_shared, shifted


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
        check_sizes(type(self), num_features)
        if not 0 < momentum <= 1:
            raise ValueError(f"{type(self).__name__} needs momentum in (0, 1], got {momentum}.")
        self.num_features, self.momentum = num_features, momentum
        self.register_buffer("running_mean", torch.empty(num_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.running_mean.zero_()

    @one_node
    def forward(self, x: Tensor) -> Tensor:
        if x.dim() < 2 or x.shape[1] != self.num_features:
            raise ValueError(
                f"{type(self).__name__} needs input of shape (batch, {self.num_features}, ...), got {tuple(x.shape)}."
            )
        added = self._added()
        if self.training and (x.numel() or is_shared()):
            y, mean = centred(x, added)
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            return y
        return shifted(x, -self.running_mean if added is None else added - self.running_mean)

    def _added(self) -> Tensor | None:
        """What is added to the channels once they are centred."""
        return None

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

    def _added(self) -> Tensor | None:
        return self.bias

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.bias is not None else ", published=True")


class ChannelScale(nn.Module):
    r"""A learnt factor per channel, :math:`y_c = s_c\, x_c`: what is left of a batch norm in a network without biases.

    Args:
        scale: The factors to start from.

    Shape:
        ``(batch, channels, ...)`` to the same.

    Law:
        :math:`f(t x) = t f(x)` (tests/certify/test_scaling.py).
    """

    def __init__(self, scale: Tensor) -> None:
        super().__init__()
        self.scale = nn.Parameter(scale.detach().clone())

    @one_node
    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale.view(-1, *[1] * (x.dim() - 2)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{len(self.scale)}"
