"""The units of a layer as rows of a matrix: what every unit computes from the inputs it can see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.nn.farkas import Balance, FarkasLayer
from neuronal.nn.farkas_block import FarkasResidual
from neuronal.nn.geometric import GeometricLayer
from neuronal.nn.implicit_bias import ImplicitBiasLayer

Grouped = nn.Conv1d | nn.Conv2d | nn.Conv3d


@dataclass(frozen=True)
class Closing:
    """How a Farkas layer closes its biases: their weighted sum is ``cutoff`` times that of the multipliers, plus ``slack``.

    ``error`` bounds what rounding may have done to the slack.
    """

    cutoff: float
    slack: float
    error: float


@dataclass(frozen=True, eq=False)
class Units:
    """z = W v + b, with v the inputs of a layer, or of one position of a convolution (a patch).

    Attributes:
        weight: W, ``(units, inputs)``, in float64, with the values the layer computes with.
        bias: b.
        patch: ``(channels, *kernel)`` of a convolution, ``()`` of a linear layer.
        is_padded: Whether a patch at the border holds zeros in the place of inputs.
        multipliers: Known in advance, where the layer is built to have them.
        closing: With ``multipliers``: how much their weighted sum of biases is above that of the layer's own cutoff.
        bias_size: Size of the parts the bias was put together from, for rounding.
    """

    weight: Tensor
    bias: Tensor
    patch: tuple[int, ...] = ()
    is_padded: bool = False
    multipliers: Tensor | None = None
    closing: Closing | None = None
    bias_size: Tensor | None = None


def is_as_named(layer: nn.Module) -> bool:
    """Whether a layer computes what its class stands for: no other ``forward``, and no hook behind it."""
    return layer.forward.__module__.startswith(("torch.nn.", "neuronal.nn.")) and not layer._forward_hooks


@torch.no_grad()
def units_of(layer: nn.Module) -> Units:
    """The units of a linear layer, a convolution or one of ours.

    Raises:
        TypeError: The layer's units are not affine functions of its input, or it has none.
    """
    if isinstance(layer, ImplicitBiasLayer):
        raise TypeError(
            f"{type(layer).__name__} is not affine: its units depend on each other. certify_activity knows linear, "
            "convolutional, zero-bias, geometric and Farkas layers."
        )
    if not is_as_named(layer):
        raise TypeError(
            f"{type(layer).__name__} has a forward of its own, or hooks, so what its units compute cannot be read off its "
            "parameters. Put it into a network with a ReLU and give a box."
        )
    if isinstance(layer, FarkasResidual):
        return _closing(layer)
    if isinstance(layer, FarkasLayer):
        return _with_multipliers(layer.balance, _plain(layer, _farkas_weight(layer), layer.bias))
    if isinstance(layer, GeometricLayer) and layer.activation == "relu":
        return _plain(layer, layer.direction().view(layer.weight.shape), layer.offset)
    if isinstance(layer, nn.Linear | Grouped | GeometricLayer) or hasattr(layer, "_plain"):
        return _plain(layer, layer.weight, layer.bias)  # type: ignore[arg-type]
    raise TypeError(
        f"certify_activity needs a layer with units (linear, convolutional, zero-bias, geometric, Farkas) or a model and "
        f"a box, got {type(layer).__name__}."
    )


def _plain(layer: Any, weight: Tensor, bias: Tensor | None) -> Units:
    weight = weight.detach().double().cpu()
    bias = torch.zeros(len(weight), dtype=torch.float64) if bias is None else bias.detach().double().cpu()
    if weight.dim() == 2:
        return Units(weight, bias)
    groups = 1 if isinstance(layer, FarkasLayer) else layer.groups
    full = ungrouped(weight, groups)
    padding = layer.padding if isinstance(layer.padding, tuple) else (1 if layer.padding == "same" else 0,)
    is_padded = layer.padding_mode == "zeros" and any(padding)
    return Units(full.flatten(1), bias, tuple(full.shape[1:]), is_padded)


def ungrouped(weight: Tensor, groups: int) -> Tensor:
    """A convolution's weight as if there were no groups: zeros where a unit does not look."""
    if groups == 1:
        return weight
    outputs, inputs = weight.shape[:2]
    full = weight.new_zeros(outputs, inputs * groups, *weight.shape[2:])
    for unit, filter in enumerate(weight):
        start = unit // (outputs // groups) * inputs
        full[unit, start : start + inputs] = filter
    return full


def _farkas_weight(layer: Any) -> Tensor:
    if layer._groups == 1:
        weight: Tensor = layer.weight
        return weight
    rows = ungrouped(layer._padded(), layer._groups)[:-1]
    last = -(layer.balance.multipliers @ rows.flatten(1)).view(1, *rows.shape[1:])
    return torch.cat([rows, last])


def _with_multipliers(balance: Balance, units: Units) -> Units:
    free = balance.multipliers.double().cpu()
    multipliers = torch.cat([free, torch.ones(1, dtype=torch.float64)])
    slack = balance.slack.item()
    parts = abs(slack)
    if balance.rule == "max" and balance.offsets is not None and balance.last is not None:
        # There the slack is a difference.
        parts += balance.last.abs().item() + (free @ balance.offsets.double().cpu().abs()).item()
        parts += abs(balance.cutoff) * multipliers.sum().item()
    error = (balance.num_free + 8) * torch.finfo(balance.multipliers.dtype).eps * parts
    return replace(units, multipliers=multipliers, closing=Closing(balance.cutoff, slack, error))


def _closing(layer: FarkasResidual) -> Units:
    """The layer that puts minus the weighted sum of its inputs behind them, at every position."""
    inputs, known = layer.channels, layer.balance.num_free
    identity = torch.eye(known, inputs, dtype=torch.float64)
    last = -layer.balance.multipliers.double().cpu() @ identity
    bias = layer.balance.bias
    assert bias is not None
    plain = Units(torch.cat([identity, last.unsqueeze(0)]), bias.double().cpu(), (inputs, 1, 1))
    return _with_multipliers(layer.balance, plain)
