"""Kernels have one name on disk, whichever is started first."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from neuronal.ops import kernels

pytest.importorskip("triton", reason="needs triton")

PROGRAM = """
import json, pkgutil, sys
from importlib import import_module
from triton.runtime import JITFunction
from neuronal.ops import kernels
names = sorted(one.name for one in pkgutil.iter_modules(kernels.__path__))
for name in names[:: int(sys.argv[1])]:
    import_module(f"neuronal.ops.kernels.{name}")
found = {}
for name in names:
    for function in vars(sys.modules[f"neuronal.ops.kernels.{name}"]).values():
        if isinstance(function, JITFunction):
            found[f"{function.__module__}.{function.__name__}"] = function.hash
# As a process would that starts the last one first.
for function in [f for m in reversed(names) for f in vars(sys.modules[f"neuronal.ops.kernels.{m}"]).values()]:
    if isinstance(function, JITFunction):
        assert function.cache_key == found[f"{function.__module__}.{function.__name__}"], function
print(json.dumps(found))
"""


def names(order):
    given = os.environ | {"TRITON_INTERPRET": "0"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(order)], env=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_names_are_there_once_a_module_is_and_the_same_in_any_order():
    forwards, backwards = names(1), names(-1)
    assert len(forwards) > 90
    assert None not in forwards.values()
    assert forwards == backwards


@pytest.mark.parametrize("module", sorted(Path(kernels.__path__[0]).glob("*.py")), ids=lambda path: path.stem)
def test_every_module_with_kernels_settles_them_at_its_end(module):
    text = module.read_text(encoding="utf-8")
    assert ("@triton.jit" in text) == text.endswith("\nsettle(globals())\n")
