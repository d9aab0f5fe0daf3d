"""Kernels of infinite width against numerical integration, other recursions and facts of the literature."""

import numpy as np
import pytest
import torch

from neuronal.kernel import relu_ntk


def by_quadrature(x, y, *, depth, v, beta2, v0=1.0, nodes=80):
    """The recursion for one pair; its expectations in polar coordinates, the radius exact, the angle by Gauss-Legendre."""

    def expectations(a, b, c):
        rho = np.clip(c / np.sqrt(a * b), -1, 1)
        theta = np.arccos(rho)
        points, weights = np.polynomial.legendre.leggauss(nodes)
        # Both positive for angles between theta - pi/2 and pi/2; E[r^2] = 2, E over the circle has density 1 / 2 pi.
        low, high = theta - np.pi / 2, np.pi / 2
        phi = (high - low) / 2 * points + (high + low) / 2
        w = (high - low) / 2 * weights / (2 * np.pi)
        return np.sqrt(a * b) * 2 * (w * np.cos(phi) * np.cos(phi - theta)).sum(), w.sum()

    n = len(x)
    a, b, c = (v0 * float(p @ q) / n + beta2 for p, q in ((x, x), (y, y), (x, y)))
    ntk = c
    for _ in range(depth):
        relu, step = expectations(a, b, c)
        a, b, c = v * a / 2 + beta2, v * b / 2 + beta2, v * relu + beta2
        ntk = c + v * step * ntk
    return c, ntk


@pytest.mark.parametrize(("v", "beta2", "depth"), [(2.0, 0.0, 1), (2.0, 0.1, 3), (1.0, 1.0, 4), (2.0, 0.0, 0)])
def test_agrees_with_integration_over_angles(v, beta2, depth):
    x = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = relu_ntk(x, depth=depth, weight_variance=v, bias_variance=beta2)
    for i in range(4):
        for j in range(4):
            covariance, ntk = by_quadrature(x[i].numpy(), x[j].numpy(), depth=depth, v=v, beta2=beta2)
            assert found.covariance[i, j].item() == pytest.approx(covariance, rel=1e-7)
            assert found.ntk[i, j].item() == pytest.approx(ntk, rel=1e-7)


def test_zero_bias_kernels_scale_with_the_inputs_and_biased_ones_do_not():
    x = torch.randn(5, 7, dtype=torch.float64)
    torch.testing.assert_close(relu_ntk(0.01 * x, depth=4).ntk, 1e-4 * relu_ntk(x, depth=4).ntk)
    biased = [relu_ntk(s * x, depth=4, bias_variance=0.01).ntk for s in (1.0, 0.01)]
    assert (biased[1] / biased[0]).min() > 1e-3


def test_the_limit_changes_with_the_biases():
    """Remark 1 of Geng and others says it does not; with unit variance and four layers it is 5 to 7% and 600%."""
    x = torch.randn(40, 784, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    zero = relu_ntk(x, depth=4).ntk
    change = [
        ((relu_ntk(x, depth=4, bias_variance=beta**2).ntk - zero).norm() / zero.norm()).item() for beta in (0.1, 1.0)
    ]
    assert 0.04 < change[0] < 0.08
    assert 5 < change[1] < 8


def test_symmetric_positive_and_in_chunks():
    x, y = torch.randn(9, 2, 3, dtype=torch.float64), torch.randn(4, 2, 3, dtype=torch.float64)
    whole = relu_ntk(x, depth=3, bias_variance=0.2)
    torch.testing.assert_close(whole.ntk, whole.ntk.T)
    assert torch.linalg.eigvalsh(whole.ntk).min() > -1e-10
    chunked = relu_ntk(x, depth=3, bias_variance=0.2, memory=1)
    torch.testing.assert_close(chunked.ntk, whole.ntk)
    cross = relu_ntk(torch.cat([x, y]), depth=3, bias_variance=0.2)
    torch.testing.assert_close(relu_ntk(x, y, depth=3, bias_variance=0.2).ntk, cross.ntk[:9, 9:])


def test_zero_inputs_have_a_kernel():
    x = torch.zeros(2, 3)
    assert (relu_ntk(x, depth=3).ntk == 0).all()
    assert relu_ntk(x, depth=3, bias_variance=1.0).ntk.isfinite().all()
    assert relu_ntk(x[:0], x, depth=1).ntk.shape == (0, 2)


def test_what_cannot_be_asked_for():
    for option, value in (("depth", -1), ("weight_variance", 0), ("bias_variance", -1)):
        with pytest.raises(ValueError, match="relu_ntk needs depth >= 0, positive variances"):
            relu_ntk(torch.zeros(2, 3), **{"depth": 1, option: value})
    with pytest.raises(ValueError, match="batch in front"):
        relu_ntk(torch.zeros(3), depth=1)
    with pytest.raises(ValueError, match="one size"):
        relu_ntk(torch.zeros(2, 3), torch.zeros(2, 4), depth=1)
