"""The fused kernels against plain steps in float64, on whichever device: run by the interpreter here, or on a GPU."""

import torch

from neuronal.nn import FarkasConv2d, FarkasLinear
from neuronal.ops.sphere import direction

GEOMETRIC = [(5, 2), (4, 3), (3, 17), (4, 5, 3), (6, 3, 3, 3), (3, 4, 1, 2), (2, 3, 2, 2, 2), (1, 130), (2, 2500)]
FARKAS = [(2, 1), (3, 5), (70, 40), (6, 3, 3, 3), (2, 4, 1, 2)]


def geometric(shape, *, device, channels_last=False, dtype=torch.float32, angles="random", bias=True):
    """Weight, bias and gradients of one weight shape; raises where they differ."""
    from neuronal.ops.kernels.sphere import gradients, weight_and_bias

    generator = torch.Generator().manual_seed(sum(shape))
    units, n = shape[0], torch.Size(shape[1:]).numel()
    delta = torch.randn(units, n - 1, generator=generator) * 0.5
    if angles == "poles":
        # theta = 0: the sine is zero up to rounding, and everything behind it vanishes.
        delta[:, 0] = -torch.pi / 2
    scale, offset, g_bias = (torch.randn(units, generator=generator) for _ in range(3))
    g = torch.randn(shape, generator=generator).to(dtype)
    d, r, lam = (t.double().requires_grad_() for t in (delta, scale, offset))
    want = (r.unsqueeze(1) * direction(d)).view(shape)
    torch.autograd.backward([want, r * lam], [g.double(), g_bias.double() * bias])
    if channels_last:
        g = g.contiguous(memory_format=torch.channels_last)
    there = [t.to(device) for t in (delta, scale)] + [offset.to(device) if bias else None]
    got, got_bias, products = weight_and_bias(*there, shape, channels_last, dtype)
    assert got.dtype == dtype
    assert not channels_last or got.is_contiguous(memory_format=torch.channels_last)
    tolerance = 4e-6 if dtype == torch.float32 else 1e-2
    _close(got, want, tolerance)
    d_delta, d_scale, d_offset = gradients(*there, products, g.to(device), g_bias.to(device) if bias else None)
    size = 4e-6 * (g.double().norm().item() + 3) * max(1.0, scale.abs().max().item())
    _close(d_delta, d.grad, size)
    _close(d_scale, r.grad, size)
    if bias:
        _close(got_bias, r * lam, tolerance)
        _close(d_offset, lam.grad, size)
    else:
        assert got_bias is None
        assert d_offset is None


def farkas(shape, *, device, channels_last=False, dtype=torch.float32, bias=True, aggregate="sum", cutoff=0.0):
    """The same for a layer of Farkas units, whose plain path in float64 is the oracle."""
    from neuronal.ops.kernels.farkas import gradients, weight_and_bias

    torch.manual_seed(sum(shape))
    units, n, *size = shape
    options = {"bias": bias, "aggregate": aggregate, "cutoff": cutoff}
    layer = (FarkasConv2d(n, units, size, **options) if size else FarkasLinear(n, units, **options)).double()
    g, g_bias = torch.randn(shape).to(dtype), torch.randn(units).to(dtype)
    weight = layer.weight
    outputs, given = [weight], [g.double()]
    if bias:
        outputs, given = [weight, layer.bias], [g.double(), g_bias.double()]
    torch.autograd.backward(outputs, given)
    order = torch.channels_last if channels_last else torch.contiguous_format
    rows = layer.rows.detach().float().contiguous(memory_format=order).to(device)
    balance = layer.balance
    offsets, last = (t.detach().float().to(device) if bias else None for t in (balance.offsets, balance.last))
    base = 1.0 if aggregate == "sum" else 1 / (units - 1)
    got, got_bias = weight_and_bias(rows, offsets, last, base, balance.margin, cutoff, dtype)
    assert got.dtype == dtype
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    _close(got, weight, tolerance * units**0.5)
    d_rows, d_offsets, d_last = gradients(rows, last, g.to(device), g_bias.to(device) if bias else None, base)
    _close(d_rows, layer.rows.grad, 1e-5)
    if bias:
        _close(got_bias, layer.bias, tolerance * units)
        _close(d_offsets, balance.offsets.grad, 1e-5)
        _close(d_last, balance.last.grad, 1e-5)


def _close(got, want, size):
    torch.testing.assert_close(got.cpu().double(), want.detach(), rtol=0, atol=size)
