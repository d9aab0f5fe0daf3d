"""Kernels start on the device of their tensors, and are compiled side by side, for which no GPU has to be there."""

import ast
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from neuronal.ops import kernels
from neuronal.ops.kernels import launch
from neuronal.ops.kernels.launch import Launch, on_its_device, start
from tests.conftest import ROOT

pytest.importorskip("triton.backends.nvidia", reason="needs triton")

PROGRAM = """
import json, threading
import torch, triton
from concurrent.futures import ThreadPoolExecutor
from triton import knobs
from triton.backends.compiler import GPUTarget

class Absent:
    def get_current_target(self): return GPUTarget("cuda", 90, 32)
    def get_current_device(self): return 0
    def get_current_stream(self, device): return 0

triton.runtime.driver.set_active(Absent())
made = []
def listen(*, src, cache_hit, **_):
    made.append([src.fn.__name__, threading.current_thread() is threading.main_thread()])
knobs.compilation.listener = listen

from neuronal.ops.kernels import pairs, launch
from neuronal.ops.kernels.launch import Launch

a, of_rows = torch.zeros(4, 8), torch.zeros(2, 4)
options = {"R": 2, "N": 8, "num_warps": 1}
flags, numbers = torch.zeros(4, dtype=torch.bool), torch.zeros(4, dtype=torch.long)
forward = Launch(pairs.forward, 2, (a, a, a, a, a, a, numbers, flags, 4, 1, 1, 8, 1e-4, 9), options)
backward = Launch(pairs.backward, 2, (a, a, a, a, a, *of_rows, 4, 1, 1, 8), options | {"WITH_SLOPE": True})
launch._compile([forward, backward])
kept = {
    kernel.fn.__name__: [type(one).__name__ for one in kernel.device_caches[0][0].values()]
    for kernel in (pairs.forward, pairs.backward)
}
first = len(made)
launch._compile([forward, backward])
with ThreadPoolExecutor(1) as pool, triton.AsyncCompileMode(pool):
    launch._compile([forward, backward])
print(json.dumps({"made": made, "kept": kept, "again": len(made) - first}))
"""


def test_all_are_compiled_in_threads_and_found_when_they_are_started(tmp_path):
    given = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=given, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert sorted(found["made"]) == [["backward", False], ["forward", False]]
    assert found["kept"] == {"forward": ["CompiledKernel"], "backward": ["CompiledKernel"]}
    assert found["again"] == 0


def test_kernels_are_started_in_their_order_and_looked_at_once(monkeypatch):
    told, looked = [], []

    class Kernel(dict):
        def __missing__(self, programs):
            return lambda *given, **options: told.append((programs, given, options))

    monkeypatch.setattr(launch, "_READY", set())
    monkeypatch.setattr(launch, "_compile", looked.append)
    launches = [Launch(Kernel(), 3, (1, 2), {"W": 8}), Launch(Kernel(), 5, (), {})]
    start("a", launches)
    start("a", launches)
    start("b", launches[:1])
    assert told == [((3,), (1, 2), {"W": 8}), ((5,), (), {})] * 2 + [((3,), (1, 2), {"W": 8})]
    assert looked == [launches, launches[:1]]


FILES = sorted(Path(kernels.__path__[0]).glob("*.py"))


def launches(function):
    """Whether it has a call like ``kernel[grid](...)``, or one of ``start``, which makes some."""
    called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    return any(isinstance(one, ast.Subscript) or (isinstance(one, ast.Name) and one.id == "start") for one in called)


def test_whatever_starts_kernels_sees_to_the_device():
    starting = [
        (f"{file.stem}.{function.name}", [ast.unparse(mark) for mark in function.decorator_list])
        for file in FILES
        if file.stem != "launch"
        for function in ast.parse(file.read_text()).body
        if isinstance(function, ast.FunctionDef) and launches(function)
    ]
    assert len(starting) >= 8
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
