"""The fused kernels against plain steps in float64, on whichever device: run by the interpreter here, or on a GPU."""

import torch

from neuronal.nn import FarkasConv2d, FarkasLinear
from neuronal.ops.sphere import direction

GEOMETRIC = [(5, 2), (4, 3), (3, 17), (4, 5, 3), (6, 3, 3, 3), (3, 4, 1, 2), (2, 3, 2, 2, 2), (1, 130), (2, 2500)]
SUMS = [(3, 2), (1, 5, 1), (2, 5, 7), (2, 29, 3, 5), (3, 64, 2, 2), (1, 257, 9, 1), (2, 4, 3, 3, 2), (2, 2, 40, 31)]
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


def farkas_sum(
    shape,
    *,
    device,
    channels_last=False,
    dtype=torch.float32,
    other=None,
    widen=False,
    aggregate="sum",
    cutoff=0.0,
    above=None,
):
    """relu(close(x + h)) and its gradients against the formulas; the branch may have another dtype than the skip.

    With ``above`` by the paper's rule, the last bias being larger than what is needed by so much, or smaller.
    """
    from neuronal.ops.kernels.farkas_sum import gradients, relu_of_closed_sum

    generator = torch.Generator().manual_seed(sum(shape))
    channels = shape[1]
    num_free = channels if widen else channels - 1
    base, margin = 1.0 if aggregate == "sum" else 1 / num_free, 0.01
    given = [torch.randn(shape, generator=generator).to(kind) for kind in (dtype, other or dtype)]
    offsets, last = torch.randn(num_free, generator=generator), torch.randn((), generator=generator)
    if above is not None:
        last = cutoff * (1 + base * num_free) - base * offsets.sum() + above
    result = torch.promote_types(dtype, other or dtype)
    g = torch.randn(shape[0], num_free + 1, *shape[2:], generator=generator).to(result)

    z = (given[0].double() + given[1].double()).requires_grad_()
    b, beta = offsets.double().requires_grad_(), last.double().requires_grad_()
    free, spread = z[:, :num_free], [1] * (z.dim() - 2)
    needed = cutoff * (1 + base * num_free) - base * b.sum()
    closing_bias = beta.exp().log1p() + margin + needed if above is None else torch.maximum(beta, needed)
    closing = closing_bias - base * free.sum(1, keepdim=True)
    before = torch.cat([free + b.view(-1, *spread), closing], 1)
    want = before.clamp(min=0)

    order = torch.channels_last if channels_last else torch.contiguous_format
    x, h = (t.to(device).contiguous(memory_format=order) for t in given)
    y = relu_of_closed_sum(x, h, offsets.to(device), last.to(device), base, margin, cutoff, above is not None)
    assert y.dtype == result
    assert y.is_contiguous(memory_format=order)
    # Results are as large as sums over all channels, and off by their dtype's spacing.
    spacing = torch.finfo(result).eps
    _close(y, want, 4 * spacing * (1 + want.abs().max().item()))
    # What is 0 up to rounding may be on in one of the two only: the gradient is that of what was found.
    before.backward(g.double() * (y.cpu() > 0))
    rule = () if above is None else (torch.tensor(above > 0, device=device),)
    d, d_offsets, d_last = gradients(y, last.to(device), g.to(device), base, channels, *rule)
    assert d.dtype == result
    assert d.is_contiguous(memory_format=order)
    _close(d, z.grad, 4 * spacing * (1 + z.grad.abs().max().item()))
    # Sums over all positions of terms of both signs.
    size = 4e-6 * (want.numel() / want.shape[1]) ** 0.5
    _close(d_offsets, b.grad, size)
    _close(d_last, beta.grad, size)
    again = gradients(y, last.to(device), g.to(device), base, channels, *rule)
    assert all(torch.equal(one, other) for one, other in zip((d, d_offsets, d_last), again, strict=True))


def _close(got, want, size):
    torch.testing.assert_close(got.cpu().double(), want.detach(), rtol=0, atol=size)
