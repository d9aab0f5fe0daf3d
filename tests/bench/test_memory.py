"""Memory seen from outside: what is taken for a moment is counted."""

import pytest
import torch

from neuronal.bench import memory
from neuronal.bench.memory import peak_bytes


@pytest.mark.skipif(not memory.OWN.exists(), reason="the system does not say what a process holds")
def test_what_is_held_for_a_moment_is_counted():
    def take() -> None:
        numbers = torch.ones(2**26, dtype=torch.uint8)
        for _ in range(20):
            numbers.add_(1)

    found = peak_bytes(take)
    assert found is not None
    assert 2**26 <= found < 2**26 + 2**24


def test_elsewhere_it_says_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "OWN", tmp_path / "none")
    assert peak_bytes(lambda: None) is None
