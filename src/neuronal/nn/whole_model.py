"""The weights of a whole model from one kernel, where each layer would start its own."""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.nn.farkas import _Farkas
from neuronal.nn.geometric import _Geometric
from neuronal.ops import at_once as ops
from neuronal.ops.fusable import is_fusable


def at_once(model: nn.Module) -> nn.Module:
    """From now on, when ``model`` is called on a GPU, one kernel makes the weights of all its geometric layers, one those
    of all its Farkas layers, and one of each their gradients.

    A layer computes the same as before; a step of a network of many layers has some dozens of launches less, which is what
    small networks wait for. In float32, under autocast or not, for linear layers and convolutions of images. Gradients of
    these layers come together, at the end of a backward pass, so several processes do not exchange the first while
    computing the last: there it is better left out. So it is with activation checkpointing, which computes parts of a
    model again outside of the call. Anywhere else, and for other layers, nothing changes.

    Returns:
        The model itself; asking twice is asking once.

    Raises:
        ValueError: The model's ``forward`` was replaced by somebody else.
    """
    replaced = model.__dict__.get("forward")
    # A pickled model, and one that Accelerate has unwrapped, has the forward of its class for its own.
    if replaced is not None and getattr(replaced, "__func__", None) not in (type(model).forward, forward):
        raise ValueError("at_once needs a model whose forward nobody has replaced. Call it first.")
    # Not hooks, which torch.compile leaves outside of the graph it makes of a model.
    model.forward = MethodType(forward, model)
    return model


# Of this name, a pickled model finds that of its class.
def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """What the model does, with weights of all its layers made before."""
    try:
        _make(self, args, kwargs)
        return type(self).forward(self, *args, **kwargs)
    finally:
        _forget(self)


def _make(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not is_fusable():
        return
    geometric = [m for m in model.modules() if isinstance(m, _Geometric) and _is_ready(m.delta, m) and not m.activation]
    if len(geometric) > 1:
        _give(geometric, _geometric(geometric, _is_channels_last(args, kwargs)))
    farkas = [m for m in model.modules() if isinstance(m, _Farkas) and _is_ready(m.rows, m) and m.balance.is_fixed]
    farkas = [m for m in farkas if m._groups == 1]
    if len(farkas) > 1:
        _give(farkas, _farkas(farkas))


def _forget(model: nn.Module) -> None:
    for layer in model.modules():
        if isinstance(layer, _Geometric | _Farkas):
            layer._made = None


def _give(layers: Sequence[_Geometric | _Farkas], made: ops.Made) -> None:
    for layer, one in zip(layers, made, strict=True):
        layer._made = one


def _geometric(layers: Sequence[_Geometric], channels_last: bool) -> ops.Made:
    return ops.geometric(
        [layer.delta for layer in layers if layer.delta is not None],
        [layer.scale for layer in layers],
        [layer.offset for layer in layers],
        [layer._weight_shape for layer in layers],
        channels_last=channels_last,
    )


def _farkas(layers: Sequence[_Farkas]) -> ops.Made:
    balances = [layer.balance for layer in layers]
    return ops.closed(
        [layer.rows for layer in layers],
        [balance.offsets for balance in balances],
        [balance.last for balance in balances],
        bases=[balance.base for balance in balances],
        margins=[balance.margin for balance in balances],
        cutoffs=[balance.cutoff for balance in balances],
    )


def _is_ready(parameter: Tensor | None, layer: _Geometric | _Farkas) -> bool:
    """Whether a layer's parameters are such as the kernels take."""
    if parameter is None or parameter.dtype != torch.float32 or not on_device(parameter) or not parameter.numel():
        return False
    last = parameter.dim() == 4 and parameter.is_contiguous(memory_format=torch.channels_last)
    return (last or parameter.is_contiguous()) and layer._plain in (nn.Linear, nn.Conv2d)


def on_device(parameter: Tensor) -> bool:
    return parameter.is_cuda


def _is_channels_last(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the model is given images in this order: then its layers want their weights so."""
    images = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and x.dim() == 4]
    return any(x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous() for x in images)
