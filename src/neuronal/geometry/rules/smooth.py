"""Operations that are not piecewise linear, of which is known how much they stretch distances."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from neuronal.geometry.program import Smooth
from neuronal.geometry.recorder import Call, Rule


def _flat(call: Call) -> int:
    """Applied number by number, with slopes up to 1."""
    return call.add(Smooth(partial(_each, call.func), 1.0), call.value())


def _each(func: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, float]:
    y = func(x)
    return y, 8 * torch.finfo(y.dtype).eps * y.norm().item()  # right to a few units of the last place


def _mean_field(call: Call) -> int:
    r"""The units of a row, coupled; see :mod:`neuronal.ops.mean_field`.

    For couplings :math:`\lambda \le 0` the result is the proximal map of a convex function and distances do not grow;
    for :math:`0 < \lambda p < 1` they grow by :math:`1 / (1 - \lambda p)` at most.
    """
    func, coupling, slope = call.func, call.constant("coupling"), call.constant("slope")
    rest = {name: value for name, value in call.arguments.items() if name not in ("a", "coupling", "slope")}
    batch, per_input = call.tracer.rows, len(call["a"]) // call.tracer.rows
    strength = (coupling * slope).max().item()
    if rest.get("sigma", "tanh") != "tanh" or not strength < 1:
        raise call.refuse("by something else than tanh, or where solutions need not be unique")
    if per_input % len(coupling) or per_input % len(slope):
        raise call.refuse("with a constant for each row of the batch")
    constant = 1 / (1 - max(strength, 0.0))
    step = Smooth(partial(_coupled, partial(func, **rest), coupling, slope, constant), constant)
    if len(call["a"]) == batch:
        return call.add(step, call.value("a"))
    call.tracer.merged.add(id(call.result[0]))
    return call.add(step, call.value("a"), shape=(per_input, *call.shape))


def _coupled(
    solve: Callable[..., Any], coupling: Tensor, slope: Tensor, constant: float, x: Tensor
) -> tuple[Tensor, float]:
    a = x.reshape(-1, x.shape[-1])
    z, residual, *_ = solve(a, coupling.to(a), slope.to(a))
    # The result solves the equation for inputs that are off by the residual.
    off = residual * a.abs().amax(1).clamp(min=1) * sqrt(a.shape[1])
    return z.view(x.shape), off.norm().item() * constant


SMOOTH: dict[str, Rule] = {"tanh": _flat, "sigmoid": _flat, "mean_field": _mean_field}
