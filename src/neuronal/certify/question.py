"""What every question about classes starts with: inputs that make sense, and the network as a program."""

from __future__ import annotations

from typing import get_args

import torch
from torch import Tensor, nn

from neuronal.certify.certificate import Promise
from neuronal.geometry.lowering import lower
from neuronal.geometry.program import Program


def checked(name: str, x: Tensor, *, dims: int = 1) -> Tensor:
    """A copy of ``x`` without its gradient, if it is a floating-point tensor of finite numbers with enough dimensions."""
    if not isinstance(x, Tensor) or not x.is_floating_point():
        got = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"{name} needs to be a tensor of floating-point numbers, got {got}.")
    if x.dim() < dims or not x.numel():
        raise ValueError(f"{name} needs at least {dims} dimensions and one number, got shape {tuple(x.shape)}.")
    if not torch.isfinite(x).all():
        raise ValueError(f"{name} needs finite numbers, got NaN or infinity.")
    return x.detach().clone()


def check_promise(promise: Promise) -> None:
    if promise not in get_args(Promise):
        raise ValueError(f"promise needs to be one of {', '.join(get_args(Promise))}, got {promise!r}.")


def own_dtype(model: nn.Module) -> torch.dtype:
    """The precision the model computes in: that of its first floating-point parameter."""
    parameter = next((p for p in model.parameters() if p.is_floating_point()), None)
    return torch.get_default_dtype() if parameter is None else parameter.dtype


def classifier(model: nn.Module, x: Tensor) -> Program:
    """The model's program for a batch of inputs ``x``, if its outputs are scores of two or more classes."""
    try:
        program = lower(model, x)
    except RuntimeError as error:
        first = str(error).splitlines()[0]
        raise ValueError(
            f"{type(model).__name__} does not take inputs of shape {tuple(x.shape[1:])}: {first}"
        ) from error
    if not program.steps:
        raise ValueError(f"{type(model).__name__} returns its input; there is nothing to ask about.")
    shape = program.steps[-1].shape
    if len(shape) != 1 or shape[0] < 2:
        raise ValueError(f"The model needs one score for each of two or more classes, got outputs of shape {shape}.")
    return program
