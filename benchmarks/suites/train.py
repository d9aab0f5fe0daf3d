"""``fit`` against bare loops of the same steps, with boundaries watched, and what of it is preparing data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.cases import Case, Comparison, Prepared, Row, ratio_row
from benchmarks.timing import Setting, against
from neuronal.core.words import counted
from neuronal.data import Augment, Split, load
from neuronal.data.dataset import shuffled_batches
from neuronal.data.errors import MissingData
from neuronal.data.scaling import Scaling
from neuronal.models import create_model
from neuronal.probes import HingeMotion
from neuronal.train import Epoch, Plan, fit

LIMIT = 1.05
"""What ``fit`` may cost, as a multiple of a bare loop, and with the probe ``hinge_motion``, of itself without."""
DATA = "fashion_mnist"


def _cnn(split: Split) -> nn.Module:
    model = create_model("cnn", "standard", num_classes=10, in_chans=1, img_size=split.stored.shape[-1])
    return model.to(split.stored.device)


def epochs(images: int, side: int, batch: int, count: int, setting: Setting) -> Prepared:
    """Epochs of ``fit`` from the same weights over the same noise: one beside a bare loop, or several with the probe.

    Several, because what the probe costs when it is made is no part of a step.
    """
    split = Split(torch.rand(images, 1, side, side), torch.randint(10, (images,))).to(setting.device)
    model, plan = _cnn(split), Plan(epochs=count, batch_size=batch, optim="sgd", lr=0.01)

    def watched() -> None:
        copy = deepcopy(model)
        fit(copy, split, plan, probes=[HingeMotion(copy)])

    plain = {"fit": lambda: fit(deepcopy(model), split, plan)}
    if count > 1:
        return Prepared({**plain, "fit with hinge_motion": watched})
    return Prepared({"a bare loop": lambda: bare_loop(deepcopy(model), split, plan)(), **plain})


def preparation(data: str, images: int, batch: int, setting: Setting) -> Prepared:
    """Preparing the batches of an epoch, and the whole epoch, of the zero-bias paper's CNN."""
    try:
        split, source = load(data).train, data
    except MissingData:
        x = torch.randint(256, (images, 1, 28, 28), dtype=torch.uint8)
        split, source = Split(x, torch.randint(10, (images,))), f"made up, as {data} is not here"
    split = split.rows(slice(images)).to(setting.device)
    model, plan = _cnn(split), Plan(epochs=1, batch_size=batch, optim="adadelta", lr=0.01)
    actions = {"fit": lambda: fit(deepcopy(model), split, plan), "data": lambda: prepare(split, batch)}
    return Prepared(actions, {"images": source})


def prepare(split: Split, batch: int) -> None:
    """What an epoch of ``fit`` does to its data: a new order, and of every batch the rows, as floats, and the labels."""
    for rows in shuffled_batches(len(split), batch, torch.Generator().manual_seed(0)):
        part = split.rows(rows.to(split.stored.device))
        _ = part.x, part.y


def bare_loop(
    model: nn.Module, split: Split, plan: Plan, augment: Augment | None = None
) -> Callable[[], tuple[float, float]]:
    """What one would write by hand, and no more: a function that trains for an epoch, with its loss and accuracy."""
    device = split.stored.device
    if plan.channels_last:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network: Callable[..., Tensor] = torch.compile(model, dynamic=False) if plan.compile else model
    optimiser = torch.optim.SGD(model.parameters(), plan.lr, momentum=plan.momentum, fused=device.type == "cuda")
    order, random = torch.Generator().manual_seed(0), torch.Generator(device).manual_seed(0)
    mean, std = (torch.tensor(numbers, device=device).view(1, 3, 1, 1) for numbers in (SCALING.mean, SCALING.std))

    def epoch() -> tuple[float, float]:
        model.train()
        losses, right = torch.zeros((), device=device), torch.zeros((), dtype=torch.long, device=device)
        for rows in (batches := torch.randperm(len(split), generator=order).to(device).split(plan.batch_size)):
            x, y = split.stored[rows], split.answers[rows]
            if augment:
                x = augment.apply(x.float().div_(255).sub_(mean).div_(std), random)
            if plan.channels_last:
                x = x.contiguous(memory_format=torch.channels_last)
            with torch.autocast(device.type, torch.bfloat16, enabled=plan.precision == "bf16"):
                logits = network(x)
            loss = F.cross_entropy(logits.float(), y)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            losses += loss.detach()
            right += (logits.detach().argmax(1) == y).sum()
        return losses.item() / len(batches), right.item() / len(split)

    return epoch


AUGMENT = Augment(crop=4, flip=True)
SCALING = Scaling((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


@dataclass(frozen=True)
class CompiledFit:
    """Epochs of ``fit`` and of a hand-tuned loop in turn: bfloat16, channels last, crops and flips on the device.

    Both are compiled on a GPU.
    """

    model: str
    images: int
    side: int
    batch: int
    options: Mapping[str, Any] = field(default_factory=dict)
    warmup: int = 2

    @property
    def name(self) -> str:
        return f"{self.model}, {self.images:,} images of {self.side}x{self.side}, batch {self.batch}, bfloat16"

    def rows(self, setting: Setting) -> Iterator[Row]:
        shape, device = (self.images, 3, self.side, self.side), setting.device
        x = torch.randint(256, shape, dtype=torch.uint8, device=device)
        split = Split(x, torch.randint(10, (self.images,), device=device), SCALING)
        count, how = self.warmup + setting.rounds, {"precision": "bf16", "channels_last": True}
        plan = Plan(count, self.batch, "sgd", 0.01, compile=setting.is_cuda, **how)  # type: ignore[arg-type]
        sizes = {"num_classes": 10, "in_chans": 3, "img_size": self.side, **self.options}
        ours, theirs = (create_model(self.model, "standard", norm="batch", **sizes).to(device) for _ in range(2))
        bare, seconds = bare_loop(theirs, split, plan, AUGMENT), {"fit": list[float](), "bare": list[float]()}
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
        timed, steps = against(seconds["fit"], seconds["bare"]), -(-self.images // self.batch)
        notes = {"images/s": self.images / timed.seconds.median}
        yield ratio_row(f"{self.name}: fit", timed, "x a bare loop", steps, limit=LIMIT, notes=notes)


def cnn_case(side: int, count: int, images: int = 3200, batch: int = 64) -> Comparison:
    """Epochs over noise."""
    plain, ours = ("a bare loop", "fit") if count == 1 else ("fit", "fit with hinge_motion")
    name = f"cnn, {images:,} images of {side}x{side}, batch {batch}, {counted(count, 'epoch')}"
    steps = count * -(-images // batch)
    return Comparison(name, plain, partial(epochs, images, side, batch, count), {ours: LIMIT}, steps)


CASES: Mapping[str, Sequence[Case]] = {
    "cpu": (
        *(cnn_case(side, count) for count in (1, 4) for side in (8, 28)),
        Comparison("cnn, 12,800 images of 28x28", "fit", partial(preparation, DATA, 12_800, 128), {"data": 0.1}, 100),
    ),
    # As many as in CIFAR-10, but for the rest that would not fill a batch.
    "cuda": (CompiledFit("resnet18", 49_152, 32, 512),),
}
