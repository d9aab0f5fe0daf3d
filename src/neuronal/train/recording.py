"""An action recorded as a CUDA graph: what it costs when nobody on the host has to start its kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import torch

T = TypeVar("T")


class NotCapturable(RuntimeError):
    """An action that no CUDA graph can be made of; the message is the reason, in one line."""


def captured(action: Callable[[], object], device: torch.device, *, warmup: int = 3) -> Callable[[], None]:
    """What replays ``action`` on the tensors it used when it was recorded; on a CPU the action itself.

    Raises:
        NotCapturable: The action waits for the device, or does something else that cannot be recorded.
    """
    if device.type != "cuda":
        return lambda: void(action())
    side = torch.cuda.Stream()
    with beside(side):
        for _ in range(warmup):
            action()
    return recorded(action, side)[0]


@contextmanager
def beside(stream: torch.cuda.Stream) -> Iterator[None]:
    """Inside: work goes to ``stream``, after all that was asked for before and before all that is asked for later.

    What is set up at a first call, gradients among it, belongs to the stream it is recorded on.
    """
    outside = torch.cuda.current_stream()
    stream.wait_stream(outside)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        outside.wait_stream(stream)


def recorded(action: Callable[[], T], stream: torch.cuda.Stream) -> tuple[Callable[[], None], T]:
    """What replays ``action``, which has been called on ``stream`` before; and the tensors every replay writes to.

    Recording computes nothing: what is in those tensors is not there before the first replay.

    Raises:
        NotCapturable: See :func:`captured`.
    """
    torch.cuda.synchronize()
    graph, first, results = torch.cuda.CUDAGraph(), [], []
    before, pool = torch.cuda.current_stream(), torch.cuda.graph_pool_handle()
    try:
        with torch.cuda.graph(graph, pool=pool, stream=stream):
            try:
                results.append(action())
            except Exception as refused:
                # Not the error itself: what it came through holds activations, and would hold it in turn.
                first.append(one_line(refused))
                raise
    except Exception as refused:
        _recover(before, pool)
        # Giving up on a recording raises an error of its own, which says nothing.
        raise NotCapturable(first[0] if first else one_line(refused)) from refused
    return graph.replay, results[0]


def _recover(stream: torch.cuda.Stream, pool: tuple[int, int]) -> None:
    """Takes back what torch leaves behind when a recording fails: its stream, its memory, its random numbers."""
    torch.cuda.set_stream(stream)
    with suppress(RuntimeError):
        torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)
    with suppress(RuntimeError):
        torch.cuda.synchronize()
        # Generators take themselves for recorded until a recording ends well.
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.zeros(1, device="cuda")


def one_line(error: BaseException) -> str:
    """The kind of an error and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def void(_: object) -> None:
    """Forgets a result."""
