"""Fused weights of geometric and Farkas layers against plain steps, by Triton's interpreter where there is no GPU."""

import pytest
import torch

from tests.ops.kernels.cases import FARKAS, GEOMETRIC, farkas, geometric

pytest.importorskip("triton", reason="Triton is not installed")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="tests/gpu runs the kernels themselves")


@pytest.mark.parametrize("shape", GEOMETRIC)
def test_geometric_weights(shape):
    geometric(shape, device="cpu")
    geometric(shape, device="cpu", angles="poles", bias=False)
    if len(shape) == 4:
        geometric(shape, device="cpu", channels_last=True)
        geometric(shape, device="cpu", dtype=torch.bfloat16)


@pytest.mark.parametrize("shape", FARKAS)
def test_farkas_weights(shape):
    farkas(shape, device="cpu")
    farkas(shape, device="cpu", aggregate="mean", cutoff=0.5)
    farkas(shape, device="cpu", bias=False)
    if len(shape) == 4:
        farkas(shape, device="cpu", channels_last=True)
        farkas(shape, device="cpu", dtype=torch.bfloat16)
