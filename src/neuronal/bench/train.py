"""The training loop against a bare loop written by hand that does the same steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from neuronal.data.dataset import Split
from neuronal.models.registry import create_model
from neuronal.train.loop import fit
from neuronal.train.optim import Plan
from neuronal.train.timing import StepTime, side_by_side

LIMIT = 1.05
"""What ``fit`` may cost, as a multiple of the bare loop."""


@dataclass(frozen=True)
class Case:
    """Number, side and batch of the images of one epoch."""

    images: int
    side: int
    batch: int

    @property
    def num_steps(self) -> int:
        return ceil(self.images / self.batch)

    def __str__(self) -> str:
        return f"{self.images:,} of {self.side}x{self.side}, {self.batch}"


CASES = (Case(3200, 8, 64), Case(3200, 28, 64))


@dataclass(frozen=True)
class Overhead:
    """Time of an epoch of ``fit``, and its ratio to the bare loop's."""

    case: Case
    time: StepTime
    limit: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure_case(case: Case, *, rounds: int, warmup: int = 1) -> Overhead:
    """One epoch from the same weights over the same images in the same order, by both, in every round."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    split = Split(torch.rand(case.images, 1, case.side, case.side), torch.randint(10, (case.images,))).to(device)
    model = create_model("cnn", "standard", num_classes=10, in_chans=1, img_size=case.side).to(device)
    plan = Plan(epochs=1, batch_size=case.batch, optim="sgd", lr=0.01)

    def on_a_copy(train: Callable[[nn.Module, Split, Plan], object]) -> Callable[[], None]:
        return lambda: void(train(deepcopy(model), split, plan))

    actions = {"bare": on_a_copy(bare_loop), "fit": on_a_copy(fit)}
    times = side_by_side(actions, "bare", rounds=rounds, warmup=warmup, cuda=device.type == "cuda")
    return Overhead(case, times["fit"], LIMIT)


def void(_: object) -> None:
    """Forgets a result."""


def bare_loop(model: nn.Module, split: Split, plan: Plan, seed: int = 0) -> tuple[float, float]:
    """What one would write by hand: an epoch of SGD with its mean loss and accuracy, and no more."""
    optimiser = torch.optim.SGD(model.parameters(), plan.lr, momentum=plan.momentum)
    model.train()
    order = torch.randperm(len(split), generator=torch.Generator().manual_seed(seed))
    losses, right = [], torch.zeros((), dtype=torch.long, device=split.x.device)
    for rows in order.to(split.x.device).split(plan.batch_size):
        x, y = split.x[rows], split.y[rows]
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
        right += (logits.detach().argmax(1) == y).sum()
    return torch.stack(losses).mean().item(), right.item() / len(split)


def measure(*, rounds: int = 15) -> Iterator[Overhead]:
    yield from (measure_case(case, rounds=rounds) for case in CASES)
