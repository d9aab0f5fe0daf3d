"""Kernels compiled side by side: on a GPU that is not there, which compiling does not need."""

import json
import os
import subprocess
import sys

import pytest

from neuronal.ops.kernels import together
from neuronal.ops.kernels.together import Launch, start
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

from neuronal.ops.kernels import pairs, together
from neuronal.ops.kernels.together import Launch

a, of_rows = torch.zeros(4, 8), torch.zeros(2, 4)
options = {"R": 2, "N": 8, "num_warps": 1}
flags, numbers = torch.zeros(4, dtype=torch.bool), torch.zeros(4, dtype=torch.long)
forward = Launch(pairs.forward, 2, (a, a, a, a, a, a, numbers, flags, 4, 1, 1, 8, 1e-4, 9), options)
backward = Launch(pairs.backward, 2, (a, a, a, a, a, *of_rows, 4, 1, 1, 8), options | {"WITH_SLOPE": True})
together._compile([forward, backward])
kept = {
    kernel.fn.__name__: [type(one).__name__ for one in kernel.device_caches[0][0].values()]
    for kernel in (pairs.forward, pairs.backward)
}
first = len(made)
together._compile([forward, backward])
with ThreadPoolExecutor(1) as pool, triton.AsyncCompileMode(pool):
    together._compile([forward, backward])
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

    monkeypatch.setattr(together, "_READY", set())
    monkeypatch.setattr(together, "_compile", looked.append)
    launches = [Launch(Kernel(), 3, (1, 2), {"W": 8}), Launch(Kernel(), 5, (), {})]
    start("a", launches)
    start("a", launches)
    start("b", launches[:1])
    assert told == [((3,), (1, 2), {"W": 8}), ((5,), (), {})] * 2 + [((3,), (1, 2), {"W": 8})]
    assert looked == [launches, launches[:1]]
