"""Kernels start on the device of their tensors."""

import ast
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import neuronal.ops.kernels as kernels
from neuronal.ops.kernels.device import on_its_device

FILES = sorted(Path(kernels.__path__[0]).glob("*.py"))


def launches(function):
    """Whether it has a call like ``kernel[grid](...)``, or one of ``start``, which makes some."""
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(isinstance(one, ast.Subscript) or (isinstance(one, ast.Name) and one.id == "start") for one in called)


def test_whatever_starts_kernels_sees_to_the_device():
    starting = [
        (f"{file.stem}.{function.name}", [ast.unparse(mark) for mark in function.decorator_list])
        for file in FILES
        if file.stem != "together"
        for function in ast.parse(file.read_text()).body
        if isinstance(function, ast.FunctionDef) and launches(function)
    ]
    assert len(starting) >= 14
    assert not [name for name, marks in starting if marks != ["on_its_device"]]


class OnDevice(torch.Tensor):
    """Pretends to be on the second GPU."""

    is_cuda = True

    def get_device(self):
        return 1


@pytest.fixture
def current(monkeypatch):
    """Devices, the current one last."""
    stack = [0]

    @contextmanager
    def device(index):
        stack.append(index)
        yield
        stack.pop()

    monkeypatch.setattr(torch.cuda, "current_device", lambda: stack[-1])
    monkeypatch.setattr(torch.cuda, "device", device)
    return stack


@pytest.mark.parametrize("several", [False, True])
def test_the_device_is_that_of_the_first_tensor(current, several):
    seen = on_its_device(lambda x, y: (current[-1], y))
    there, here = torch.zeros(1).as_subclass(OnDevice), torch.zeros(1)
    assert seen([there] if several else there, 5) == (1, 5)
    assert seen([here] if several else here, y=6) == (0, 6)
    assert current == [0]


def test_a_compiler_sees_through():
    twice = torch.compile(on_its_device(lambda x, factor: factor * x), backend="eager", fullgraph=True)
    assert twice(torch.ones(2), factor=2).tolist() == [2, 2]
    torch.compiler.reset()
