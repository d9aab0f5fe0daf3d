"""Every kernel compiles for a GPU, without one."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.ops.kernels.made_for_gpu import CASES

pytest.importorskip("triton.backends.nvidia", reason="needs triton")

# These do spill, so many bytes of a thread; much more than when they were timed would be a step back.
LONG = {
    "grid.forward": 1300,
    "grid.forward wider": 800,
    "gradient.backward": 600,
    "gradient.backward wider": 600,
}


def compiled(*names, folder):
    # A folder of its own: what is kept there from an earlier run has been compiled before.
    given = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(folder)}
    words = [sys.executable, "-m", "tests.ops.kernels.made_for_gpu", *names]
    ended = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=given)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_kernels_compile(tmp_path):
    names = [name for name in CASES if name not in LONG]
    found = compiled(*names, folder=tmp_path)
    assert [one["name"] for one in found] == names
    for one in found:
        assert one["reg"] > 0
        # What a thread works on fits its registers where nothing is solved.
        assert one["stack"] == 0 or one["name"].startswith("wide.")


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_kernels_on_nodes_compile(name, tmp_path):
    (found,) = compiled(name, folder=tmp_path)
    assert found["stack"] <= LONG[name]
