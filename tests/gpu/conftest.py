"""All tests of this folder are for a CUDA device: ./run test -m gpu."""

import os
from pathlib import Path

import pytest
import torch

# What makes cuBLAS add up in the same order every time; it looks once, when it is first needed.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
# What torch says of itself: that it could be less exact, that a thread's first product finds no context, and that what it
# records to begin with is empty.
OF_TORCH = (
    "ignore:TensorFloat32 tensor cores",
    "ignore:Attempting to run cuBLAS",
    "ignore:The CUDA Graph is empty",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    marks = [
        pytest.mark.gpu,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
        pytest.mark.filterwarnings(*OF_TORCH),
    ]
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for mark in marks:
                item.add_marker(mark)
