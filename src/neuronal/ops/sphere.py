r"""Unit directions and their angles, with the exact gradient.

A direction :math:`u \in S^{n-1}` has :math:`n-1` angles :math:`\theta`. With :math:`P_k = \prod_{i \le k} \sin\theta_i`,

.. math:: u_k = P_{k-1} \cos\theta_k \quad (k < n), \qquad u_n = P_{n-1}.

All but the last angle lie in :math:`[0, \pi]`; the last is signed, so every direction has angles. What is passed around
is :math:`\delta = \theta - \pi/2`: directions drawn uniformly have :math:`\delta_k` of size :math:`1/\sqrt{n-k}`, which
even bfloat16 resolves, while :math:`\theta` near :math:`\pi/2` it does not. In :math:`\delta`,
:math:`\cos\theta = -\sin\delta` and :math:`\sin\theta = \cos\delta`.

Cost: O(n) per direction forward and backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from neuronal.ops import dispatch

# Note [Gradient without division]
# With g = dL/du and R_k = cos(theta_k) g_k + sin(theta_k) R_{k+1}, R_n = g_n, the gradient is
# dL/dtheta_k = P_{k-1} (cos(theta_k) R_{k+1} - sin(theta_k) g_k) = u_k R_{k+1} - P_k g_k. R_{k+1} is the inner product of
# the tail of g with the unit direction of the tail of u, so nothing grows and nothing is divided by a sine: exact zeros
# in u are fine. torch's own gradient of cumprod looks for zeros on the host, which waits for the device, and turns
# quadratic on them.

# Note [Quotient of tails]
# P_k R_{k+1} is also the plain sum of u_j g_j over j > k. Summed from the end it is as small as P_k, rounding included,
# so the quotient keeps all its digits as long as P_k is an ordinary number; and a sum is one pass where the recurrence
# takes many. Used on a CPU, where asking whether all P_k are ordinary costs nothing.
_ORDINARY = 1e-20

_BLOCK = 32


def direction(delta: Tensor) -> Tensor:
    r"""The unit vectors with angles :math:`\delta + \pi/2`.

    Args:
        delta: ``(..., n - 1)`` with :math:`n \ge 2`. Half precision is computed in float32.

    Returns:
        ``(..., n)`` of the same dtype. Differentiable any number of times; finite gradients everywhere.
    """
    if delta.shape[-1] < 1:
        raise ValueError("direction needs at least one angle (n >= 2), got none. In one dimension it is a sign.")
    if delta.dtype in (torch.bfloat16, torch.float16):
        return direction(delta.float()).to(delta.dtype)
    if dispatch.is_traced():
        # A function with a gradient of its own would be a call back to this library.
        one = torch.ones_like(delta[..., :1])
        cosines, sines = torch.cat([-delta.sin(), one], -1), torch.cat([one, delta.cos()], -1)
        return cosines * _running_products(sines)
    # The compiler does not take functions with a forward-mode rule.
    function = _Direction if torch.compiler.is_compiling() else _DirectionForwardMode
    u: Tensor = function.apply(delta)[0]
    return u


def weight_and_bias(
    delta: Tensor, scale: Tensor | None, offset: Tensor | None, shape: Sequence[int], *, channels_last: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Weight and bias of a layer of geometric units: ``scale * direction(delta)`` and ``scale * offset``, row by row.

    On a GPU, in float32, one kernel computes them and one their gradients; under autocast they come in autocast's
    precision at once.

    Args:
        delta: ``(units, n - 1)``.
        scale: ``(units,)``, or None for 1.
        offset: ``(units,)``, or None for no bias.
        shape: That of the weight, ``(units, ...)`` with n entries per unit.
        channels_last: The order of memory the layer wants to read the weight in, where it can be had for nothing.
    """
    if not dispatch.is_cuda(delta) or delta.dtype != torch.float32 or not dispatch.can_launch_triton():
        u = direction(delta)
        if scale is None:
            return u.view(shape), offset
        return (scale.unsqueeze(1) * u).view(shape), None if offset is None else scale * offset
    scale = delta.new_ones(delta.shape[0]) if scale is None else scale
    kind = delta.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else delta.dtype
    # One scale that all units share, or a piece of something larger, does not lie in memory as the kernel reads it.
    vectors = (scale.contiguous(), None if offset is None else offset.contiguous())
    found = _WeightAndBias.apply(delta, *vectors, tuple(shape), channels_last, dtype)
    return (found, None) if isinstance(found, Tensor) else found


def angles_of(vector: Tensor) -> tuple[Tensor, Tensor]:
    r"""Angles, less :math:`\pi/2`, and lengths of vectors: the inverse of ``length * direction(delta)``.

    Args:
        vector: ``(..., n)`` with :math:`n \ge 2`.

    Returns:
        ``delta`` of shape ``(..., n - 1)`` and ``length`` of shape ``(...)``. A zero vector gets length 0 and the angles
        of some direction.
    """
    if vector.shape[-1] < 2:
        raise ValueError(f"angles_of needs vectors of at least two entries, got {vector.shape[-1]}.")
    # In double, because a rounding in an early angle turns all later coordinates; scaled, so that squares cannot overflow.
    w = vector.detach().double()
    largest = w.abs().amax(-1, keepdim=True)
    w = w / torch.where(largest > 0, largest, 1)
    tails = w.square().flip(-1).cumsum(-1).flip(-1).sqrt()
    # theta_k = atan2(|w_{k+1:}|, w_k) is pi/2 - atan2(w_k, |w_{k+1:}|); for the last angle the tail is w_n with its sign.
    after = torch.cat([tails[..., 1:-1], w[..., -1:]], -1)
    delta = -torch.atan2(w[..., :-1], after)
    return delta.to(vector.dtype), (tails[..., 0] * largest[..., 0]).to(vector.dtype)


class _Direction(torch.autograd.Function):
    """See Note [Gradient without division]."""

    @staticmethod
    def forward(delta: Tensor) -> tuple[Tensor, Tensor]:
        sines = pad(delta.cos(), (1, 0), value=1.0)
        # ONNX has no cumprod, and torch's own way to write it out ends in a product it has not either.
        products = _running_products(sines) if dispatch.is_exporting() else sines.cumprod(-1)
        return _cosines(delta) * products, products

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *output)
        ctx.save_for_forward(*inputs, output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, _: None) -> Tensor | None:
        if g is None:
            return None
        delta, u, products = ctx.saved_tensors
        again = torch.is_grad_enabled()
        watched = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
        readable = g.is_cpu and not watched and not dispatch.is_valueless(g)
        if readable and not again and g.numel() and products[..., -1].abs().amin() > _ORDINARY:
            # See Note [Quotient of tails].
            tails = (u * g).flip(-1).cumsum(-1).flip(-1)
            R = tails[..., 1:] / products[..., 1:]
            return torch.addcmul(u[..., :-1] * R, products[..., 1:], g[..., :-1], value=-1)
        cosines, sines = _cosines(delta), delta.cos()
        if again:
            # Somebody will differentiate this gradient, so it is built from delta in differentiable steps.
            products = _running_products(pad(sines, (1, 0), value=1.0))
        R = _tails(cosines * g, pad(sines, (0, 1)))
        gradient: Tensor = products[..., :-1] * (cosines[..., :-1] * R[..., 1:] - sines * g[..., :-1])
        return gradient


class _DirectionForwardMode(_Direction):
    """The same, also for ``torch.func.jvp`` and ``torch.func.vmap``."""

    @staticmethod
    def jvp(ctx: Any, t: Tensor) -> tuple[Tensor, None]:
        dispatch.check_forward_mode()
        delta, products = ctx.saved_tensors
        cosines, sines = _cosines(delta), delta.cos()
        # The product rule as a recurrence: dP_k = sin(theta_k) dP_{k-1} + P_{k-1} cos(theta_k) t_k.
        a = products[..., :-1] * cosines[..., :-1] * t
        d_products = pad(_tails(a.flip(-1), sines.flip(-1)).flip(-1), (1, 0))
        return cosines * d_products - pad(sines * t, (0, 1)) * products, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None], delta: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        (dim,) = in_dims
        assert dim is not None
        return _DirectionForwardMode.apply(delta.movedim(dim, 0)), (0, 0)


class _WeightAndBias(torch.autograd.Function):
    """The fused kernels; a gradient that will be differentiated again is built from plain steps."""

    @staticmethod
    def forward(
        ctx: Any,
        delta: Tensor,
        scale: Tensor,
        offset: Tensor | None,
        shape: tuple[int, ...],
        channels_last: bool,
        dtype: torch.dtype,
    ) -> Tensor | tuple[Tensor, Tensor]:
        from neuronal.ops.kernels import sphere

        weight, bias, products = sphere.weight_and_bias(delta, scale, offset, shape, channels_last, dtype)
        ctx.save_for_backward(delta, scale, offset, products)
        # What is compiled has no place for a None among several.
        return weight if bias is None else (weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor, g_bias: Tensor | None = None) -> tuple[Tensor | None, ...]:
        delta, scale, offset, products = ctx.saved_tensors
        if torch.is_grad_enabled():
            outputs, gradients = [scale.unsqueeze(1) * direction(delta)], [g.flatten(1)]
            if offset is not None and g_bias is not None:
                outputs, gradients = [*outputs, scale * offset], [*gradients, g_bias]
            return (*plain_gradients(outputs, [delta, scale, offset], gradients), None, None, None)
        from neuronal.ops.kernels import sphere

        return (*sphere.gradients(delta, scale, offset, products, g, g_bias), None, None, None)


def plain_gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor | None], g: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Gradients that can be differentiated, for those inputs that want one; of outputs without one, ``g`` has None."""
    used = [(o, one.to(o.dtype)) for o, one in zip(outputs, g, strict=True) if o.requires_grad and one is not None]
    wanted = [one for one in inputs if one is not None and one.requires_grad]
    given = ([o for o, _ in used], wanted, [one for _, one in used])
    found = iter(torch.autograd.grad(*given, create_graph=True, allow_unused=True))
    return [next(found) if one is not None and one.requires_grad else None for one in inputs]


def _cosines(delta: Tensor) -> Tensor:
    """cos(theta_k), and 1 in the place of the last coordinate, which has no angle of its own."""
    return pad(-delta.sin(), (0, 1), value=1.0)


def _tails(a: Tensor, c: Tensor) -> Tensor:
    """R with R_k = a_k + c_k R_{k+1} along the last dimension, nothing coming after the end.

    Doubling inside blocks, then the same for the blocks: O(n log block) work in O(log n) steps.
    """
    n = a.shape[-1]
    size = min(n, _BLOCK)
    a, c = (pad(v, (0, -n % size)).unflatten(-1, (-1, size)) for v in (a, c))
    step = 1
    while step < size:
        a = torch.addcmul(a, c, pad(a[..., step:], (0, step)))
        c = c * pad(c[..., step:], (0, step), value=1.0)
        step *= 2
    if a.shape[-2] > 1:
        coming = pad(_tails(a[..., 0], c[..., 0])[..., 1:], (0, 1))
        a = torch.addcmul(a, c, coming.unsqueeze(-1))
    return a.flatten(-2)[..., :n]


def _running_products(c: Tensor) -> Tensor:
    """``cumprod`` along the last dimension whose gradient does not look for zeros."""
    step = 1
    while step < c.shape[-1]:
        # Not up to -step: auto_LiRPA counts from the end once, and from there for every layer.
        c = c * torch.cat([torch.ones_like(c[..., :step]), c[..., : c.shape[-1] - step]], -1)
        step *= 2
    return c
