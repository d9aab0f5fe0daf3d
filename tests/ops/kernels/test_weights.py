"""Fused weights of geometric and Farkas layers, by Triton's interpreter, in a program of its own: it asks at import."""

import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

PROGRAM = """
import torch
from tests.ops.kernels.cases import FARKAS, GEOMETRIC, farkas, geometric
for shape in GEOMETRIC:
    geometric(shape, device="cpu")
    geometric(shape, device="cpu", angles="poles", bias=False)
    if len(shape) == 4:
        geometric(shape, device="cpu", channels_last=True)
geometric((6, 3, 3, 3), device="cpu", dtype=torch.bfloat16)
for shape in FARKAS:
    farkas(shape, device="cpu")
    farkas(shape, device="cpu", aggregate="mean", cutoff=0.5)
    farkas(shape, device="cpu", bias=False)
    if len(shape) == 4:
        farkas(shape, device="cpu", channels_last=True)
farkas((6, 3, 3, 3), device="cpu", dtype=torch.bfloat16)
print("all agree")
"""


def test_the_kernels_agree_with_plain_steps(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=110)
    assert done.stdout.strip() == "all agree", done.stderr[-2000:]
