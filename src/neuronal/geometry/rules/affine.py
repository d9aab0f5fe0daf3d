"""Operations that are affine in the input."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

from neuronal.geometry.program import Average, Convolution, Dense, Scale, Sum
from neuronal.geometry.recorder import Call, Rule


def _addmm(call: Call) -> int:
    weight, bias = call.constant("mat2"), call.constant("self")
    if bias.dim() != 1:
        raise call.refuse("with a bias for each row of the batch")
    return _dense(call, Dense(weight.t().contiguous() * call["alpha"], bias * call["beta"]), "mat1")


def _dense(call: Call, step: Dense, name: str) -> int:
    """A matrix on the last dimension; where positions and rows are merged, also on those of each position."""
    merged = call.tracer.merged
    if id(call[name]) not in merged:
        return call.add(step, call.value(name))
    merged.add(id(call.result))
    return call.add(step, call.value(name), shape=(len(call.result) // call.tracer.rows, *call.shape))


def _convolution(call: Call) -> int:
    if call["transposed"]:
        raise call.refuse("transposed")
    stride, padding, dilation = (tuple(call[name]) for name in ("stride", "padding", "dilation"))
    step = Convolution(call.constant("weight"), call.constant("bias"), stride, padding, dilation, call["groups"])
    return call.add(step, call.value("input"))


def _batch_norm(call: Call) -> int:
    if call.arguments.get("training"):
        raise call.refuse("with the statistics of the batch; a norm without running statistics has no others")
    mean, var = call.constant("running_mean"), call.constant("running_var")
    weight, bias = call.constant("weight"), call.constant("bias")
    eps = call["eps"] if "eps" in call.arguments else call["epsilon"]
    scale = (var + eps).rsqrt() * (1.0 if weight is None else weight)
    bias = torch.zeros_like(mean) if bias is None else bias
    wide = (-1, *[1] * (len(call.shape) - 1))
    moved = mean * scale
    # Deployed: five roundings in the scale and its product, six on the shift's way.
    step = Scale(scale.view(wide), (bias - moved).view(wide), (bias.abs() + moved.abs()).view(wide), terms=8)
    return call.add(step, call.value("input"))


def _scaled(call: Call) -> int:
    one, other = call["self"], call["other"]
    is_div = call.name == "div"
    if is_div and call.arguments.get("rounding_mode") is not None:
        raise call.refuse("with rounding")
    if call.tracer.number(one) is None:
        if is_div:
            raise call.refuse("by a value that depends on the input")
        one, other = other, one
    if call.tracer.number(other) is not None:
        raise call.refuse("of two values that both depend on the input")
    factor = call.like(other)
    return call.add(Scale(1 / factor if is_div else factor), call.spread(one))


def _sum(call: Call) -> int:
    one, other, factor = call["self"], call["other"], float(call["alpha"])
    if call.name == "rsub":
        return _affine_sum(call, other, one, -factor)
    return _affine_sum(call, one, other, -factor if call.name == "sub" else factor)


def _affine_sum(call: Call, one: Any, other: Any, factor: float) -> int:
    """one + factor * other, of which one may be a constant."""
    a, b = call.tracer.number(one), call.tracer.number(other)
    if a is not None and b is not None:
        return call.add(Sum(factor), call.spread(one), call.spread(other))
    if a is not None:
        return call.add(Scale(call.like(1.0), call.like(other) * factor), call.spread(one))
    return call.add(Scale(call.like(factor), call.like(one)), call.spread(other))


def _mean(call: Call) -> int:
    dims = call.arguments.get("dim")
    if dims is None or not len(dims):
        raise call.refuse("over the batch too")
    call.keeps_batch(*dims)
    terms = math.prod(call["self"].shape[dim] for dim in dims) + 1
    reduce = torch.mean if call.name == "mean" else torch.sum
    keep = call["keepdim"]
    return call.add(Average(partial(reduce, dim=dims, keepdim=keep), terms), call.value())


def _average_pool(call: Call) -> int:
    func, rest = call.func, call.rest()
    if (rest.get("divisor_override") or 1) < 0:
        raise call.refuse("with a negative divisor")
    if "kernel_size" in rest:
        terms = math.prod(rest["kernel_size"])
    else:
        sizes = call["self"].shape[-len(rest["output_size"]) :]
        terms = math.prod(-(-size // out) + 1 for size, out in zip(sizes, rest["output_size"], strict=True))
    return call.add(Average(partial(func, **rest), terms + 1), call.value())


AFFINE: dict[str, Rule] = {
    "addmm": _addmm,
    "mm": lambda call: _dense(call, Dense(call.constant("mat2").t().contiguous()), "self"),
    "convolution": _convolution,
    "native_batch_norm": _batch_norm,
    "cudnn_batch_norm": _batch_norm,
    "miopen_batch_norm": _batch_norm,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "mul": _scaled,
    "div": _scaled,
    "neg": lambda call: call.add(Scale(call.like(-1.0), terms=0), call.value()),
    "add": _sum,
    "sub": _sum,
    "rsub": _sum,
    "mean": _mean,
    "sum": _mean,
    "avg_pool1d": _average_pool,
    "avg_pool2d": _average_pool,
    "avg_pool3d": _average_pool,
    "adaptive_avg_pool1d": _average_pool,
    "_adaptive_avg_pool2d": _average_pool,
    "_adaptive_avg_pool3d": _average_pool,
}
