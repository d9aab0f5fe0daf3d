"""What each of two processes does in test_distributed.py: python -m tests.train.two WHAT OUT."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed, nn

from neuronal.nn import InputMeanNorm, MeanOnlyBatchNorm
from neuronal.train.checkpoint import Checkpoints
from neuronal.train.loop import fit
from neuronal.train.optim import Plan
from tests.train.small import augment, data

PLAN = Plan(epochs=2, batch_size=10, optim="sgd", lr=0.1, clip=0.5)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        InputMeanNorm(6), nn.Linear(6, 8), MeanOnlyBatchNorm(8, momentum=0.5), nn.ReLU(), nn.Linear(8, 3)
    )


def whole_training(out: Path):
    """The same plan in one process and in two has to give the same; accumulation and clipping included."""
    found = {}
    for parts in (1, 2):
        model = network()
        told: list[int] = []
        plan = replace(PLAN, accumulate=parts)
        fitted = fit(model, data(), plan, seed=1, validation=data(), on_epoch=lambda e: told.append(e.number))
        found[parts] = (model.state_dict(), [asdict(epoch) for epoch in fitted.epochs], told)
    return found


def resumed(out: Path):
    """Two processes save together, and go on together; every process draws random numbers of its own."""
    plan, results = replace(PLAN, mixup=0.7), []
    for every in (3, timedelta(milliseconds=1)):
        folder = out.parent / f"kept-{every}"
        for epochs_seen in (1, 2):
            model = nn.Sequential(network(), nn.Dropout(0.3))
            torch.manual_seed(distributed.get_rank() if distributed.is_initialized() else 0)

            def stop(epoch, last=epochs_seen):
                if epoch.number > last:
                    raise AssertionError

            probes = [lambda _, step: {"one": 1.0}]
            if epochs_seen == 1:
                # Stopped by every process at once, in the second epoch.
                calls = iter(range(999))
                model.register_forward_pre_hook(lambda *_, calls=calls: _stop_at(next(calls)))
                try:
                    fit(
                        model,
                        data(),
                        plan,
                        seed=1,
                        augment=augment,
                        probes=probes,
                        checkpoints=Checkpoints(folder, every),
                    )
                except Stopped:
                    continue
            fitted = fit(
                model, data(), plan, seed=1, augment=augment, probes=probes, checkpoints=Checkpoints(folder, every)
            )
            results.append((model.state_dict(), [asdict(epoch) for epoch in fitted.epochs]))
    model = nn.Sequential(network(), nn.Dropout(0.3))
    torch.manual_seed(distributed.get_rank() if distributed.is_initialized() else 0)
    fitted = fit(model, data(), plan, seed=1, augment=augment, probes=probes)
    return [(model.state_dict(), [asdict(epoch) for epoch in fitted.epochs]), *results]


class Stopped(Exception):
    pass


def _stop_at(call: int) -> None:
    if call == 8:
        raise Stopped


def mean_norm(out: Path):
    """Output, input gradient and running mean of this process's rows; uneven shares."""
    rank = distributed.get_rank()
    torch.manual_seed(0)
    x = torch.randn(7, 3, 4, dtype=torch.float64)
    weights = torch.randn(7, 3, 4, dtype=torch.float64)
    rows = slice(0, 5) if rank == 0 else slice(5, 7)
    norm = InputMeanNorm(3).double()
    own = x[rows].clone().requires_grad_()
    y = norm(own)
    (y * weights[rows]).pow(2).sum().backward()
    norm(torch.empty(0, 3, 4, dtype=torch.float64))
    return x, weights, rows, y.detach(), own.grad, norm.running_mean


def batch_norm(out: Path):
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    import warnings

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        fit(model, data(), PLAN)
    return [str(one.message) for one in said], [type(layer).__name__ for layer in model]


if __name__ == "__main__":
    from accelerate import Accelerator

    Accelerator()
    place = Path(sys.argv[2])
    answer = globals()[sys.argv[1]](place)
    number = distributed.get_rank() if distributed.is_initialized() else 0
    torch.save(answer, place.with_suffix(f".{number}"))
    if distributed.is_initialized():
        distributed.destroy_process_group()
