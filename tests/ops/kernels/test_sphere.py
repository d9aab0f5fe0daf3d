"""Fused weights of geometric layers, by Triton's interpreter, in a program of its own: it must be told before import."""

import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="Triton is not installed")

PROGRAM = """
import torch
from tests.ops.kernels.sphere_cases import SHAPES, compare
for shape in SHAPES:
    compare(shape, device="cpu")
    compare(shape, device="cpu", angles="poles")
    if len(shape) == 4:
        compare(shape, device="cpu", channels_last=True)
compare((6, 3, 3, 3), device="cpu", dtype=torch.bfloat16)
print("all agree")
"""


def test_the_kernels_agree_with_plain_steps(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=110)
    assert done.stdout.strip() == "all agree", done.stderr[-2000:]
