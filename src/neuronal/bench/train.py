"""The training loop: against a bare loop of the same steps, with boundaries watched, and what of it is preparing data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from neuronal.data.catalogue import load
from neuronal.data.dataset import Split, shuffled_batches
from neuronal.data.errors import MissingData
from neuronal.models.registry import create_model
from neuronal.probes.hinge_motion import HingeMotion
from neuronal.train.loop import fit
from neuronal.train.optim import Plan
from neuronal.train.timing import StepTime, side_by_side

LIMIT = 1.05
"""What ``fit`` may cost, as a multiple of the bare loop, and with the probe ``hinge_motion``, of itself without."""
PREPARATION_LIMIT = 0.1
"""What of a step may go into preparing its data."""
DATA, IMAGES = "fashion_mnist", 60_000
OFTEN, EPOCHS = 3, 4


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
    """Time of an epoch of ``fit``, and its ratio to that of what it is held against."""

    case: Case
    time: StepTime
    limit: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Preparation:
    """Time of preparing the batches of an epoch, and its share of a whole epoch of ``fit``."""

    case: Case
    source: str
    """Where the images come from."""
    time: StepTime
    """Of the preparation; its ratio is to the epoch's."""
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


def measure_watched(case: Case, *, rounds: int, warmup: int = 1) -> Overhead:
    """Epochs of ``fit`` with the probe ``hinge_motion``, against as many without in the same round; seconds are of one."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    split = Split(torch.rand(case.images, 1, case.side, case.side), torch.randint(10, (case.images,))).to(device)
    model = create_model("cnn", "standard", num_classes=10, in_chans=1, img_size=case.side).to(device)
    # Some epochs: what the probe costs when it is made is no part of a step.
    plan = Plan(epochs=EPOCHS, batch_size=case.batch, optim="sgd", lr=0.01)

    def watched() -> None:
        own = deepcopy(model)
        fit(own, split, plan, probes=[HingeMotion(own)])

    actions = {"fit": lambda: void(fit(deepcopy(model), split, plan)), "watched": watched}
    times = side_by_side(actions, "fit", rounds=rounds, warmup=warmup, cuda=device.type == "cuda")
    time = times["watched"]
    return Overhead(case, replace(time, seconds=time.seconds / EPOCHS), LIMIT)


def measure_preparation(*, rounds: int, batch: int = 128) -> Preparation:
    """Epochs of the ``cnn`` over all of fashion_mnist, as the zero-bias paper trains it (Adadelta, 0.01, batch 128)."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        split, source = load(DATA).train, DATA
    except MissingData:
        images = torch.randint(256, (IMAGES, 1, 28, 28), dtype=torch.uint8)
        split, source = Split(images, torch.randint(10, (IMAGES,))), f"made up, as {DATA} is not here"
    split = split.rows(slice(IMAGES)).to(device)
    model = create_model("cnn", "standard", num_classes=10, in_chans=1, img_size=split.stored.shape[-1]).to(device)
    plan = Plan(epochs=1, batch_size=batch, optim="adadelta", lr=0.01)
    actions = {"epoch": lambda: void(fit(deepcopy(model), split, plan)), "data": lambda: prepare(split, batch)}
    times = side_by_side(actions, "epoch", rounds=rounds, warmup=0, cuda=device.type == "cuda")
    case = Case(len(split), split.stored.shape[-1], batch)
    return Preparation(case, source, times["data"], PREPARATION_LIMIT)


def prepare(split: Split, batch: int) -> None:
    """What an epoch of ``fit`` does to its data: a new order, and of every batch the rows, as floats, and the labels."""
    for rows in shuffled_batches(len(split), batch, torch.Generator().manual_seed(0)):
        part = split.rows(rows.to(split.stored.device))
        void((part.x, part.y))


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


def measure_all_watched(*, rounds: int = 15) -> Iterator[Overhead]:
    """Short epochs differ by more than the probe costs from one to the next, so there are more of these."""
    yield from (measure_watched(case, rounds=rounds * (OFTEN if case.side < 16 else 1)) for case in CASES)
