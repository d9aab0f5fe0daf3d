"""Sines, cosines and places of the kernels against numpy's in float64; interpreted where there is no GPU."""

import numpy as np
import pytest
import torch

triton = pytest.importorskip("triton", reason="needs triton")
import triton.language as tl  # noqa: E402

from neuronal.ops.kernels.device_functions import place, sine_and_cosine  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def _both(x, sine, cosine, N: tl.constexpr):
    lane = tl.arange(0, N)
    s, c = sine_and_cosine(tl.load(x + lane))
    tl.store(sine + lane, s)
    tl.store(cosine + lane, c)


@triton.jit
def _places(out, start, inner, outer_stride, inner_stride, SHORT: tl.constexpr, N: tl.constexpr):
    lane = tl.arange(0, N)
    tl.store(out + lane, place(start + lane, inner, outer_stride, inner_stride, SHORT))


def both(angles):
    x = torch.tensor(angles, dtype=torch.float32, device=DEVICE)
    sine, cosine = torch.empty_like(x), torch.empty_like(x)
    _both[(1,)](x, sine, cosine, N=len(x))
    true = x.double().cpu().numpy()
    return sine.double().cpu().numpy(), cosine.double().cpu().numpy(), np.sin(true), np.cos(true)


@pytest.mark.parametrize("most", [1.0, 4.0, 100.0, 1e4])
def test_errors_are_below_2e_7(most):
    sine, cosine, true_sine, true_cosine = both(np.random.default_rng(0).uniform(-most, most, 2**14))
    assert abs(sine - true_sine).max() < 2e-7
    assert abs(cosine - true_cosine).max() < 2e-7


def test_small_angles_keep_all_their_digits():
    sine, cosine, true_sine, true_cosine = both(np.logspace(-30, -1, 2**10))
    assert (abs(sine - true_sine) / true_sine).max() < 2e-7
    # A product of thousands of these must not drift.
    assert abs(np.log(cosine).sum() - np.log(true_cosine).sum()) < 1e-5


# The interpreter's, of differences of infinities and casts that give any whole number.
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_what_is_beyond_float32_stays_bounded():
    sine, cosine, *_ = both(np.logspace(6, 30, 64))
    assert (abs(sine) <= 1.0001).all()
    assert (abs(cosine) <= 1.0001).all()
    assert all(np.isnan(one).all() for one in both([np.inf, -np.inf, np.nan, np.nan])[:2])


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("inner", [1, 2, 9, 25, 49, 343])
@pytest.mark.parametrize("start", [0, 4095, 2**22 - 2048])
def test_places_are_those_of_whole_numbers(start, inner, short):
    out = torch.empty(2048, dtype=torch.int32, device=DEVICE)
    _places[(1,)](out, start, inner, 7, 100_003, SHORT=short, N=2048)
    k = np.arange(start, start + 2048)
    expected = (k // inner * 7 + k % inner * 100_003).astype(np.int32)
    assert (out.cpu().numpy() == expected).all()
