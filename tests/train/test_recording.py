"""What is left behind when a recording fails, or a step beside the others: with a GPU that does nothing."""

from __future__ import annotations

import gc
import weakref
from contextlib import nullcontext
from unittest.mock import Mock

import pytest
import torch

from neuronal.train import recording
from neuronal.train.recording import NotCapturable, beside, recorded


@pytest.fixture
def idle(monkeypatch) -> Mock:
    """The current stream of a GPU that does nothing."""
    for name in ("current_stream", "synchronize", "graph_pool_handle", "CUDAGraph"):
        monkeypatch.setattr(torch.cuda, name, Mock())
    for name in ("graph", "stream"):
        monkeypatch.setattr(torch.cuda, name, lambda *_, **__: nullcontext())
    monkeypatch.setattr(recording, "_recover", lambda *_: None)
    return torch.cuda.current_stream()


def test_a_failed_recording_keeps_no_activations(idle):
    """It may have failed for want of memory, and the step that follows needs some."""
    seen = []

    def action() -> None:
        activations = torch.ones(3)
        seen.append(weakref.ref(activations))
        raise RuntimeError(f"no memory\nfor {len(activations)} numbers")

    gc.disable()
    try:
        with pytest.raises(NotCapturable, match=r"^RuntimeError: no memory$") as refused:
            recorded(action, Mock())
        del refused
        assert seen[0]() is None
    finally:
        gc.enable()


def test_what_is_asked_for_after_a_failed_step_waits_for_it(idle):
    side = Mock()
    with pytest.raises(RuntimeError, match="half-way"), beside(side):
        raise RuntimeError("half-way")
    side.wait_stream.assert_called_once_with(idle)
    idle.wait_stream.assert_called_once_with(side)
