"""A training so small that it can be stopped everywhere, and a program that does it, for tests that kill."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, replace

import torch
from torch import nn
from torch.nn import functional as F

from neuronal.data.dataset import Split
from neuronal.nn import ImplicitBiasLinear, MeanOnlyBatchNorm
from neuronal.train.checkpoint import Checkpoints
from neuronal.train.loop import fit
from neuronal.train.optim import Plan

PLAN = Plan(
    epochs=3,
    batch_size=16,
    optim="adam",
    lr=0.02,
    schedule="cosine",
    weight_decay=0.01,
    decay_weights_only=True,
    scalar_lr=0.1,
    warmup=0.2,
    standard_epochs=1,
    cut_after=1,
    stop_after=9,
    mixup=0.7,
    clip=0.5,
    accumulate=3,
)
"""Everything at once: 4 steps an epoch, in 3 parts each, but for the last one, which has only 2 images."""


def data() -> Split:
    random = torch.Generator().manual_seed(3)
    x = torch.randn(50, 6, generator=random)
    return Split(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long())


def network() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(
        nn.Linear(6, 8),
        MeanOnlyBatchNorm(8),
        nn.ReLU(),
        nn.Dropout(0.2),
        ImplicitBiasLinear(8, 8, coupling=-0.5, steps=1),
        nn.ReLU(),
        nn.Linear(8, 3),
    )


def augment(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return x + 0.1 * torch.randn(x.shape, generator=generator)


def train(model: nn.Module, checkpoints=None, *, split: Split | None = None, plan: Plan = PLAN, **more):
    """Weights and epochs, all of it random from fixed seeds."""
    torch.manual_seed(5)
    given = {"seed": 7, "validation": data().rows(slice(20)), "augment": augment, **more}
    fitted = fit(model, data() if split is None else split, plan, checkpoints=checkpoints, **given)
    return {name: value.clone() for name, value in model.state_dict().items()}, [asdict(e) for e in fitted.epochs]


def assert_same(one, other):
    assert one[1] == other[1]
    assert all(torch.equal(value, other[0][name]) for name, value in one[0].items())


def plain(inputs: int = 6, outputs: int = 3) -> nn.Module:
    """A network without anything random, for :func:`plain_loop`."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 8), nn.ReLU(), nn.Linear(8, outputs))


def plain_loop(model, x, y, optimiser, *, epochs, seed, loss=F.cross_entropy, before_step=lambda step: None):
    """What ``fit`` has to do, in as many words as that takes: mean loss and share of right classes of the last epoch."""
    order, step = torch.Generator().manual_seed(seed), 0
    for _ in range(epochs):
        losses, right = [], 0
        for rows in torch.randperm(len(x), generator=order).split(16):
            outputs = model(x[rows])
            optimiser.zero_grad()
            losses.append(loss(outputs, y[rows]))
            losses[-1].backward()
            before_step(step)
            optimiser.step()
            right += (outputs.argmax(1) == y[rows]).sum().item()
            step += 1
    return sum(loss.item() for loss in losses) / len(losses), right / len(x)


if __name__ == "__main__":
    # python -m tests.train.small FOLDER EPOCHS: slow enough to be killed in the middle.
    slow = network()
    slow.register_forward_hook(lambda *_: time.sleep(0.004))
    train(slow, Checkpoints(sys.argv[1], every=1), plan=replace(PLAN, epochs=int(sys.argv[2])))
