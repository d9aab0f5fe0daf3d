"""What each of two processes does in test_distributed.py: python -m tests.train.two OUT."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import distributed, nn

from neuronal.nn import InputMeanNorm, MeanOnlyBatchNorm
from neuronal.train import snapshot
from neuronal.train.checkpoint import Checkpoints
from neuronal.train.loop import fit
from neuronal.train.optim import Plan
from tests.train.small import augment, data
from tests.train.test_best import wrong

PLAN = Plan(epochs=2, batch_size=10, optim="sgd", lr=0.1, clip=0.5)


class Stopped(Exception):
    pass


def network(norms: bool = True) -> nn.Module:
    torch.manual_seed(0)
    layers = [InputMeanNorm(6), nn.Linear(6, 8), MeanOnlyBatchNorm(8, momentum=0.5), nn.ReLU(), nn.Linear(8, 3)]
    return nn.Sequential(*[layer for layer in layers if norms or not isinstance(layer, InputMeanNorm)])


def whole_training(parts: int):
    """With several parts nothing may depend on the batch, as other images meet in a part of two processes."""
    model, told = network(norms=parts == 1), []
    plan = replace(PLAN, accumulate=parts, keep_best=True)
    fitted = fit(model, data(), plan, seed=1, validation=wrong(), on_epoch=lambda epoch: told.append(epoch.number))
    return model.state_dict(), [asdict(epoch) for epoch in fitted.epochs], told


def resumed(folder: Path, every: int | timedelta | None):
    """A training stopped in all processes at once, and gone on with; each draws random numbers of its own."""
    chosen = Checkpoints(folder, every) if every else None
    for stop_at in (8, None) if every else (None,):
        model = stopping(nn.Sequential(network(), nn.Dropout(0.3)), stop_at)
        torch.manual_seed(distributed.get_rank())
        with suppress(Stopped):
            fitted = fit(model, data(), replace(PLAN, mixup=0.7), seed=1, augment=augment, checkpoints=chosen)
    return model.state_dict(), [asdict(epoch) for epoch in fitted.epochs]


def stopping(model: nn.Module, stop_at: int | None) -> nn.Module:
    calls = count()

    def stop(*_):
        if next(calls) == stop_at:
            raise Stopped

    model.register_forward_pre_hook(stop)
    return model


def mean_norm():
    """Output and input gradient of this process's rows; the shares are uneven."""
    torch.manual_seed(0)
    x, weights = torch.randn(2, 7, 3, 4, dtype=torch.float64)
    rows = slice(0, 5) if distributed.get_rank() == 0 else slice(5, 7)
    norm = InputMeanNorm(3).double()
    own = x[rows].clone().requires_grad_()
    y = norm(own)
    (y * weights[rows]).pow(2).sum().backward()
    norm(torch.empty(0, 3, 4, dtype=torch.float64))
    return x, weights, rows, y.detach(), own.grad


def batch_norm():
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fit(model, data(), PLAN)
    return [str(one.message) for one in said], [type(layer).__name__ for layer in model]


def sharded(folder: Path):
    """The same training with FSDP: each process holds half of every parameter; with checkpoints, and stopped once."""
    os.environ["ACCELERATE_USE_FSDP"] = "true"
    found = []
    for stop_at, chosen in ((None, None), (8, Checkpoints(folder, 3)), (None, Checkpoints(folder, 3))):
        model = stopping(network(), stop_at)
        if distributed.get_rank():
            # The first process's weights count.
            nn.init.zeros_(model[1].weight)
        with suppress(Stopped):
            plan = replace(PLAN, keep_best=True)
            fitted = fit(model, data(), plan, seed=1, validation=wrong(), checkpoints=chosen)
            state = model.state_dict()
            shares = {name: p.to_local().numel() / p.numel() for name, p in state.items() if hasattr(p, "to_local")}
            weights = {name: getattr(value, "full_tensor", value.clone)() for name, value in state.items()}
            found.append((weights, [asdict(epoch) for epoch in fitted.epochs], shares))
    return found


if __name__ == "__main__":
    place = Path(sys.argv[1])
    # Processes agree on the time at every second step here: ten steps are all there are.
    snapshot.LOOK_EVERY = 2
    Accelerator()
    answer = {
        "training": {parts: whole_training(parts) for parts in (1, 2)},
        "undisturbed": resumed(place, None),
        "by step": resumed(place / "step", 3),
        "by time": resumed(place / "time", timedelta(microseconds=1)),
        "mean norm": mean_norm(),
        "batch norm": batch_norm(),
        "sharded": sharded(place / "sharded"),
    }
    torch.save(answer, place / f"{distributed.get_rank()}.pt")
    distributed.destroy_process_group()
    # Threads of the group that end late have been seen to abort a process whose work is done.
    os._exit(0)
