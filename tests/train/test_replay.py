"""Recorded steps against steps made as ever, with a recorder that does on a CPU what a CUDA graph does on a GPU."""

from __future__ import annotations

from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import nn

from neuronal.train import loop
from neuronal.train.optim import Plan
from neuronal.train.recording import NotCapturable
from neuronal.train.replay import WARMUP, Replay
from tests.train.small import assert_same, data, train
from tests.train.test_best import network

PLAN = Plan(epochs=6, batch_size=16, optim="sgd", lr=0.05, schedule="cosine", standard_epochs=2, clip=0.5, replay=True)
"""50 images: three batches of 16 an epoch, and one of 2."""


class Tape:
    """Recording computes nothing; a replay writes to the memory of the recording, and nowhere else."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.replays, self.recordings = model, 0, 0

    def beside(self):
        return nullcontext()

    def recorded(self, action):
        before = deepcopy(self.model.state_dict())
        results = action()
        self.model.load_state_dict(before)
        self.recordings += 1
        places = [*results, *self._gradients()]
        state = self._state()

        def replay() -> None:
            self.replays += 1
            now = self._state()
            self._put(state)
            for parameter in self.model.parameters():
                parameter.grad = None
            fresh = [*action(), *self._gradients()]
            self._put(now)
            for place, value in zip(places, fresh, strict=True):
                place.copy_(value)

        # On a GPU these numbers are not there before the first replay.
        for place in places:
            place.fill_(float("nan") if place.is_floating_point() else -1)
        return replay, results

    def _gradients(self):
        return [p.grad for p in self.model.parameters() if p.grad is not None]

    def _state(self):
        """What kernels know of parameters: where they lie, and whether a gradient is to be made."""
        return [(p.data, p.requires_grad) for p in self.model.parameters()]

    def _put(self, state):
        for p, (memory, wanted) in zip(self.model.parameters(), state, strict=True):
            p.data, p.requires_grad = memory, wanted


def replayed(monkeypatch, model: nn.Module, tape: Tape, plan: Plan = PLAN, **more):
    plain = loop._work
    monkeypatch.setattr(loop, "_work", lambda engine: Replay(plain(engine), engine.model, tape))
    return train(model, plan=plan, **more)


def test_replayed_steps_are_the_steps(monkeypatch):
    """Weights, statistics, losses and accuracies, bit by bit, over an end of the standard epochs and short batches."""
    plain = train(network(), plan=replace(PLAN, replay=False))
    model = network()
    tape = Tape(model)
    assert_same(plain, replayed(monkeypatch, model, tape))
    assert tape.recordings == 2
    assert tape.replays == (6 * 3 - WARMUP) + (6 - WARMUP)


def leaves_gradients(model, step):
    model.zero_grad()
    model(data().x).sum().backward()
    return {}


def freezes_and_thaws(model, step):
    model[0].requires_grad_(step != 8)
    model[3].requires_grad_(step != 16)
    return {}


def moves_parameters(model, step):
    if step == 12:
        model.double().float()
    return {}


@pytest.mark.parametrize(
    ("probe", "recordings"), [(leaves_gradients, 2), (freezes_and_thaws, 1), (moves_parameters, 2)]
)
def test_what_a_probe_does_to_the_model_does_no_harm(probe, recordings, monkeypatch):
    plain = train(network(), plan=replace(PLAN, replay=False), probes=[probe])
    model = network()
    tape = Tape(model)
    assert_same(plain, replayed(monkeypatch, model, tape, probes=[probe]))
    assert (tape.replays > 0, tape.recordings) == (True, recordings)


@pytest.mark.parametrize("at_the_end", [False, True])
def test_what_cannot_be_recorded_is_trained_as_ever_and_said_once(at_the_end, monkeypatch):
    """Gradients of a recording that fails half-way are not added to."""

    class Refusing(Tape):
        def recorded(self, action):
            if at_the_end:
                super().recorded(action)
            raise NotCapturable("RuntimeError: it waits for the device")

    plain = train(network(), plan=replace(PLAN, replay=False))
    model = network()
    with pytest.warns(RuntimeWarning, match=r"cannot be recorded \(RuntimeError: it waits for the device\)") as said:
        trained = replayed(monkeypatch, model, Refusing(model))
    assert_same(plain, trained)
    assert len(said) == 1


def test_a_cpu_trains_as_ever():
    assert_same(train(network(), plan=replace(PLAN, replay=False)), train(network(), plan=PLAN))


class Counting(nn.Module):
    """Keeps a running number, but not in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x):
        self.total = self.total + 1
        return x


def test_buffers_that_are_replaced_cannot_be_replayed(monkeypatch):
    def counted():
        return nn.Sequential(*network(), Counting())

    plain = train(counted(), plan=replace(PLAN, replay=False))
    model = counted()
    with pytest.warns(RuntimeWarning, match=r"cannot be recorded \(Counting.total becomes a new tensor in every step"):
        trained = replayed(monkeypatch, model, Tape(model))
    assert_same(plain, trained)
