"""Training steps whose kernels a GPU starts by itself: recorded once for every shape of batch, then replayed."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

from neuronal.train.recording import NotCapturable, beside, recorded

T = TypeVar("T")
Work = Callable[[Tensor, Tensor, float, float], tuple[Tensor, Tensor]]
"""Forward and backward over a batch of inputs and answers, given two numbers: the loss, and how many answers are right."""
WARMUP = 3
"""Steps made kernel by kernel first: what they set up (libraries, compiled kernels) cannot be recorded."""


class Cuda:
    """How steps are recorded on the current GPU."""

    def __init__(self) -> None:
        self._stream = torch.cuda.Stream()

    def beside(self) -> AbstractContextManager[None]:
        return beside(self._stream)

    def recorded(self, action: Callable[[], T]) -> tuple[Callable[[], None], T]:
        return recorded(action, self._stream)


@dataclass(frozen=True)
class _Tape:
    """A recorded step, and the memory it reads and writes whenever it is replayed."""

    x: Tensor
    y: Tensor
    loss: Tensor
    right: Tensor
    gradients: list[Tensor | None]
    replay: Callable[[], None]


class Replay:
    """Does ``work`` as a CUDA graph, with the gradients in the parameters afterwards.

    The kernels are the same ones in the same order; the host starts one thing in place of hundreds. Every shape of
    batch has its own recording, with memory for its own activations. A step that cannot be recorded is made kernel by
    kernel as ever, after a warning that says why.

    Args:
        work: What to record. It is to find no gradients in the parameters, as they are not added to.
        model: Whose parameters it makes gradients of.
        recorder: What makes the recordings.
    """

    def __init__(self, work: Work, model: nn.Module, recorder: Cuda | None = None) -> None:
        self._work, self._model, self._recorder = work, model, recorder or Cuda()
        self._parameters = list(model.parameters())
        self._seen: Counter[object] = Counter()
        self._tapes: dict[object, _Tape] = {}
        self._state: list[tuple[bool, int]] = []
        self._is_possible = True

    def __call__(self, x: Tensor, y: Tensor, *numbers: float) -> tuple[Tensor, Tensor]:
        self._forget_others()
        batch = (x.shape, x.stride(), x.dtype, numbers)
        self._seen[batch] += 1
        if self._is_possible and batch not in self._tapes and self._seen[batch] > WARMUP:
            self._record(batch, x, y, *numbers)
        if batch not in self._tapes:
            with self._recorder.beside():
                return self._work(x, y, *numbers)
        return self._replay(self._tapes[batch], x, y)

    def _forget_others(self) -> None:
        """A recording is of parameters where they lay, and of gradients that were wanted; a probe may change both."""
        state = [(parameter.requires_grad, parameter.data_ptr()) for parameter in self._parameters]
        if state != self._state:
            self._state = state
            self._seen.clear()
            self._tapes.clear()

    def _replay(self, tape: _Tape, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        tape.x.copy_(x)
        tape.y.copy_(y)
        tape.replay()
        for parameter, gradient in zip(self._parameters, tape.gradients, strict=True):
            parameter.grad = gradient
        # The next replay writes to the same places, and the loss is looked at later.
        return tape.loss.clone(), tape.right.clone()

    def _record(self, batch: object, x: Tensor, y: Tensor, *numbers: float) -> None:
        own_x, own_y = x.clone(), y.clone()
        buffers = [(module, dict(module._buffers)) for module in self._model.modules()]
        # Without gradients to add to, the backward pass writes fresh ones, whenever it is replayed.
        self._drop_gradients()
        try:
            replay, results = self._recorder.recorded(lambda: self._work(own_x, own_y, *numbers))
            self._check_buffers(buffers)
        except NotCapturable as refused:
            self._is_possible = False
            # Those there are belong to the recording, and were never computed.
            self._drop_gradients()
            warnings.warn(
                f"the training step cannot be recorded ({refused}): its kernels are started one by one.",
                RuntimeWarning,
                stacklevel=4,
            )
            return
        gradients = [parameter.grad for parameter in self._parameters]
        self._tapes[batch] = _Tape(own_x, own_y, *results, gradients, replay)

    @staticmethod
    def _check_buffers(before: Sequence[tuple[nn.Module, Mapping[str, Tensor | None]]]) -> None:
        """Puts back what the recording replaced: a replay reads and writes the tensors of the recording, ever the same."""
        replaced = []
        for module, buffers in before:
            for name, buffer in buffers.items():
                if module._buffers.get(name) is not buffer:
                    module._buffers[name] = buffer
                    replaced.append(f"{type(module).__name__}.{name}")
        if replaced:
            raise NotCapturable(
                f"{replaced[0]} becomes a new tensor in every step, where it has to be changed in place"
            )

    def _drop_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None
