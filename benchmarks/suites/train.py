"""``fit`` against bare loops of the same steps, with boundaries watched, and what of it is preparing data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.row import Row, ratio_row
from benchmarks.timing import Action, Setting, against, compare
from neuronal.data import Augment, Split, load
from neuronal.data.dataset import shuffled_batches
from neuronal.data.errors import MissingData
from neuronal.data.scaling import Scaling
from neuronal.models import create_model
from neuronal.probes import HingeMotion
from neuronal.train import Epoch, Plan, fit

LIMIT = 1.05
"""What ``fit`` may cost, as a multiple of the bare loop, and with the probe ``hinge_motion``, of itself without."""
Train = Callable[[nn.Module, Split, Plan], object]


def _cnn(side: int) -> nn.Module:
    return create_model("cnn", "standard", num_classes=10, in_chans=1, img_size=side)


@dataclass(frozen=True)
class FitEpoch:
    """An epoch of ``fit`` on a small network against one of a bare loop, from the same weights over the same images."""

    images: int
    side: int
    batch: int
    limit: float = LIMIT

    @property
    def name(self) -> str:
        return f"fit, cnn, {self.images:,} of {self.side}x{self.side}, batch {self.batch}"

    def rows(self, setting: Setting) -> Iterator[Row]:
        model, split = _cnn(self.side).to(setting.device), self._split(setting.device)
        plan = Plan(epochs=1, batch_size=self.batch, optim="sgd", lr=0.01)

        def on_a_copy(train: Train) -> Action:
            def action() -> None:
                train(deepcopy(model), split, plan)

            return action

        timed = compare({"a bare loop": on_a_copy(bare_loop), "fit": on_a_copy(fit)}, "a bare loop", setting)["fit"]
        yield ratio_row(self.name, timed, "a bare loop", self.limit, repeats=self.num_steps)

    @property
    def num_steps(self) -> int:
        return -(-self.images // self.batch)

    def _split(self, device: torch.device) -> Split:
        x = torch.rand(self.images, 1, self.side, self.side)
        return Split(x, torch.randint(10, (self.images,))).to(device)


@dataclass(frozen=True)
class Watched(FitEpoch):
    """Epochs of ``fit`` with the probe ``hinge_motion``, against as many without.

    Several, because what the probe costs when it is made is no part of a step.
    """

    epochs: int = 4

    @property
    def name(self) -> str:
        return f"{super().name}, with hinge_motion"

    def rows(self, setting: Setting) -> Iterator[Row]:
        model, split = _cnn(self.side).to(setting.device), self._split(setting.device)
        plan = Plan(epochs=self.epochs, batch_size=self.batch, optim="sgd", lr=0.01)

        def plain() -> None:
            fit(deepcopy(model), split, plan)

        def watched() -> None:
            copy = deepcopy(model)
            fit(copy, split, plan, probes=[HingeMotion(copy)])

        timed = compare({"fit": plain, "watched": watched}, "fit", setting)["watched"]
        yield ratio_row(self.name, timed, "fit without", self.limit, repeats=self.num_steps * self.epochs)


@dataclass(frozen=True)
class Preparation:
    """Preparing the batches of an epoch, against the whole epoch, of the zero-bias paper's CNN on a dataset."""

    data: str
    images: int
    batch: int
    limit: float

    @property
    def name(self) -> str:
        return f"preparing data, cnn, {self.images:,} of {self.data}, batch {self.batch}"

    def rows(self, setting: Setting) -> Iterator[Row]:
        try:
            split, source = load(self.data).train, self.data
        except MissingData:
            x = torch.randint(256, (self.images, 1, 28, 28), dtype=torch.uint8)
            split, source = Split(x, torch.randint(10, (self.images,))), f"made up, as {self.data} is not here"
        split = split.rows(slice(self.images)).to(setting.device)
        model = _cnn(split.stored.shape[-1]).to(setting.device)
        plan = Plan(epochs=1, batch_size=self.batch, optim="adadelta", lr=0.01)

        def epoch() -> None:
            fit(deepcopy(model), split, plan)

        timed = compare({"epoch": epoch, "data": lambda: prepare(split, self.batch)}, "epoch", setting, warmup=0)
        yield ratio_row(self.name, timed["data"], "an epoch of fit", self.limit, images=source)


def prepare(split: Split, batch: int) -> None:
    """What an epoch of ``fit`` does to its data: a new order, and of every batch the rows, as floats, and the labels."""
    for rows in shuffled_batches(len(split), batch, torch.Generator().manual_seed(0)):
        part = split.rows(rows.to(split.stored.device))
        _ = part.x, part.y


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


AUGMENT = Augment(crop=4, flip=True)
SCALING = Scaling((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


@dataclass(frozen=True)
class FitOnGpu:
    """Epochs of ``fit`` and of a hand-tuned loop in turn, both compiled where there is a GPU: bfloat16, channels last,
    crops and flips on the device."""

    model: str
    images: int
    side: int
    batch: int
    options: dict[str, Any] = field(default_factory=dict)
    warmup: int = 2
    limit: float = LIMIT

    @property
    def name(self) -> str:
        return f"fit, {self.model}, {self.images:,} of {self.side}x{self.side}, batch {self.batch}, bfloat16"

    def rows(self, setting: Setting) -> Iterator[Row]:
        shape = (self.images, 3, self.side, self.side)
        x = torch.randint(256, shape, dtype=torch.uint8, device=setting.device)
        split = Split(x, torch.randint(10, (self.images,), device=setting.device), SCALING)
        plan = Plan(
            self.warmup + setting.rounds, self.batch, "sgd", 0.01, precision="bf16", compile=setting.is_cuda,
            channels_last=True,
        )  # fmt: skip
        ours, theirs = (self._network(setting.device) for _ in range(2))
        bare, seconds = compiled_loop(theirs, split, plan), dict[str, list[float]](fit=[], bare=[])
        started = perf_counter()

        def on_epoch(epoch: Epoch) -> None:
            nonlocal started
            ended = perf_counter()
            bare()
            if epoch.number > self.warmup:
                seconds["fit"].append(ended - started)
                seconds["bare"].append(perf_counter() - ended)
            started = perf_counter()

        fit(ours, split, plan, augment=AUGMENT.apply, on_epoch=on_epoch)
        timed = against(seconds["fit"], seconds["bare"])
        speed = self.images / timed.seconds.median
        num_steps = -(-self.images // self.batch)
        notes = {"images/s": speed}
        yield ratio_row(self.name, timed, "a bare loop", self.limit, repeats=num_steps, **notes)

    def _network(self, device: torch.device) -> nn.Module:
        shape = {"num_classes": 10, "in_chans": 3, "img_size": self.side}
        return create_model(self.model, "standard", norm="batch", **shape, **self.options).to(device)


def compiled_loop(model: nn.Module, split: Split, plan: Plan) -> Callable[[], float]:
    """What one would write by hand for this one network: a function that trains for an epoch, with its mean loss."""
    device = split.stored.device
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network: Callable[..., Tensor] = torch.compile(model, dynamic=False) if plan.compile else model
    optimiser = torch.optim.SGD(model.parameters(), plan.lr, momentum=plan.momentum, fused=True)
    mean, std = (torch.tensor(numbers, device=device).view(1, 3, 1, 1) for numbers in (SCALING.mean, SCALING.std))
    random = torch.Generator(device).manual_seed(0)

    def epoch() -> float:
        model.train()
        losses, right = torch.zeros((), device=device), torch.zeros((), dtype=torch.long, device=device)
        order = torch.randperm(len(split), device=device).split(plan.batch_size)
        for rows in order:
            x = split.stored[rows].float().div_(255).sub_(mean).div_(std)
            x = AUGMENT.apply(x, random).contiguous(memory_format=torch.channels_last)
            y = split.answers[rows]
            with torch.autocast(device.type, torch.bfloat16):
                logits = network(x)
            loss = F.cross_entropy(logits.float(), y)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            losses += loss.detach()
            right += (logits.detach().argmax(1) == y).sum()
        _ = right.item()  # A training says how accurate it is, so its loop counts.
        return losses.item() / len(order)

    return epoch


CASES = {
    "cpu": (
        *(FitEpoch(3200, side, 64) for side in (8, 28)),
        *(Watched(3200, side, 64) for side in (8, 28)),
        Preparation("fashion_mnist", 60_000, 128, limit=0.1),
    ),
    # As many as in CIFAR-10, but for the rest that would not fill a batch.
    "cuda": (FitOnGpu("resnet18", 49_152, 32, 512),),
}
