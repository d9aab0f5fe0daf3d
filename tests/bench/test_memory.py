"""Memory seen from outside: what is taken for a moment is counted."""

import subprocess
import sys

import pytest

from neuronal.bench import memory
from neuronal.bench.memory import peak_bytes

PROGRAM = """
import torch
from neuronal.bench.memory import peak_bytes

def take():
    numbers = torch.ones(2**26, dtype=torch.uint8)
    for _ in range(20):
        numbers.add_(1)

print(peak_bytes(take))
"""


@pytest.mark.skipif(not memory.OWN.exists(), reason="the system does not say what a process holds")
def test_what_is_held_for_a_moment_is_counted():
    """In a process of its own: what other tests have freed would be taken again, unseen."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert 2**26 <= int(done.stdout) < 2**26 + 2**24


def test_elsewhere_it_says_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "OWN", tmp_path / "none")
    assert peak_bytes(lambda: None) is None
