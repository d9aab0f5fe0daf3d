"""The fused kernels against plain steps in float64, on whichever device: run by the interpreter here, or on a GPU."""

import torch

from neuronal.ops.sphere import direction

SHAPES = [(5, 2), (4, 3), (3, 17), (4, 5, 3), (6, 3, 3, 3), (3, 4, 1, 2), (2, 3, 2, 2, 2), (1, 130)]


def compare(shape, *, device, channels_last=False, dtype=torch.float32, angles="random"):
    """Weight and gradients of one weight shape; raises where they differ."""
    from neuronal.ops.kernels.sphere import scaled_direction, scaled_direction_backward

    generator = torch.Generator().manual_seed(sum(shape))
    units, n = shape[0], torch.Size(shape[1:]).numel()
    delta = torch.randn(units, n - 1, generator=generator) * 0.5
    if angles == "poles":
        # theta = 0: the sine is zero up to rounding, and everything behind it vanishes.
        delta[:, 0] = -torch.pi / 2
    scale, g = torch.randn(units, generator=generator), torch.randn(shape, generator=generator).to(dtype)
    d, r = delta.double().requires_grad_(), scale.double().requires_grad_()
    want = (r.unsqueeze(1) * direction(d)).view(shape)
    want.backward(g.double())
    if channels_last:
        g = g.contiguous(memory_format=torch.channels_last)
    there = [t.to(device) for t in (delta, scale)]
    got = scaled_direction(*there, shape, channels_last, dtype)
    assert got.dtype == dtype
    assert not channels_last or got.is_contiguous(memory_format=torch.channels_last)
    tolerance = 4e-6 if dtype == torch.float32 else 1e-2
    torch.testing.assert_close(got.cpu().double(), want.detach(), rtol=tolerance, atol=tolerance)
    d_delta, d_scale = scaled_direction_backward(*there, g.to(device))
    size = 4e-6 * g.double().norm().item() * max(1.0, scale.abs().max().item())
    torch.testing.assert_close(d_delta.cpu().double(), d.grad, rtol=0, atol=size)
    torch.testing.assert_close(d_scale.cpu().double(), r.grad, rtol=0, atol=size)
