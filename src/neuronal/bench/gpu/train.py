"""``fit`` on a GPU against a hand-tuned bare loop that does the same steps, epoch by epoch in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median, quantiles
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuronal.bench.gpu.ahead import Job
from neuronal.bench.gpu.ceilings import Setting
from neuronal.bench.gpu.networks import flops_per_image
from neuronal.bench.gpu.row import Row
from neuronal.data.augment import Augment
from neuronal.data.dataset import Split
from neuronal.data.scaling import Scaling
from neuronal.models.registry import create_model
from neuronal.train.loop import fit
from neuronal.train.optim import Plan

LIMIT = 0.95
"""The least part of the bare loop's images per second that ``fit`` has to reach."""
# As many as in CIFAR-10, but for the rest that would not fill a batch.
IMAGES, SIDE, BATCH, CLASSES = 49_152, 32, 512, 10
MODEL, OPTIONS = "resnet18", {"norm": "batch"}
WARMUP = 2
AUGMENT = Augment(crop=4, flip=True)
SCALING = Scaling((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


@dataclass
class Epochs:
    """Seconds of every epoch after the first ones, of ``fit`` and of the bare loop in turn; and their losses."""

    fit: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    losses: list[tuple[float, float]] = field(default_factory=list)


def plan_for(epochs: int, device: torch.device, batch: int) -> Plan:
    """Compiled, in bfloat16 and with channels last; without a GPU not compiled."""
    is_gpu = device.type == "cuda"
    return Plan(epochs, batch, "sgd", 0.01, precision="bf16", compile=is_gpu, channels_last=True)


def images(count: int, device: torch.device) -> Split:
    """Made-up bytes of the shape of CIFAR-10, on the device."""
    x = torch.randint(256, (count, 3, SIDE, SIDE), dtype=torch.uint8, device=device)
    return Split(x, torch.randint(CLASSES, (count,), device=device), SCALING)


def fresh(device: torch.device) -> nn.Module:
    return create_model(MODEL, "standard", num_classes=CLASSES, in_chans=3, img_size=SIDE, **OPTIONS).to(device)


def bare_loop(model: nn.Module, split: Split, plan: Plan) -> Callable[[], float]:
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
        void(right.item())
        return losses.item() / len(order)

    return epoch


def compared(split: Split, plan: Plan) -> Epochs:
    """Trains two networks, an epoch of ``fit`` and one of the bare loop in turn, so that both see the same device."""
    device = split.stored.device
    found, bare = Epochs(), bare_loop(fresh(device), split, plan)
    started = perf_counter()

    def on_epoch(epoch: Any) -> None:
        nonlocal started
        ended = perf_counter()
        loss = bare()
        if epoch.number > WARMUP:
            found.fit.append(ended - started)
            found.bare.append(perf_counter() - ended)
        found.losses.append((epoch.loss, loss))
        started = perf_counter()

    fit(fresh(device), split, plan, augment=AUGMENT.apply, on_epoch=on_epoch)
    return found


def ahead() -> list[Job]:
    """Both networks compiled."""
    return [Job(f"{MODEL} of {name}", compile_one, (name,)) for name in ("fit", "the bare loop")]


def compile_one(name: str, device: str = "cuda") -> None:
    """One step of one of the two."""
    split, plan = images(BATCH, torch.device(device)), plan_for(1, torch.device(device), BATCH)
    if name == "fit":
        fit(fresh(torch.device(device)), split, plan, augment=AUGMENT.apply)
    else:
        bare_loop(fresh(torch.device(device)), split, plan)()


def rows(setting: Setting) -> Iterator[Row]:
    """Both loops, the verdict on the first."""
    split = images(IMAGES, setting.device)
    flops = flops_per_image(fresh(setting.device), split.rows(slice(2)).x)
    found = compared(split, plan_for(WARMUP + setting.rounds, setting.device, BATCH))

    def shown(seconds: list[float]) -> dict[str, float | str]:
        speed = len(split) / median(seconds)
        return {
            "ms per step": 1e3 * median(seconds) * BATCH / len(split),
            "images/s": speed,
            "TFLOP/s": speed * flops / 1e12,
            "peak %": 100 * speed * flops / setting.ceilings.flops_per_second,
        }

    ratios = [bare / own for own, bare in zip(found.fit, found.bare, strict=True)]
    low, middle, high = quantiles(ratios, n=4, method="inclusive")
    unit = "of the bare loop's images/s"
    quartiles = {"quartiles": f"{low:.3f}–{high:.3f}"}
    data = {"fit_seconds": found.fit, "bare_seconds": found.bare, "losses": found.losses}
    yield Row("fit", middle, unit, LIMIT, at_least=True, shown={**quartiles, **shown(found.fit)}, data=data)
    yield Row("bare loop", 1.0, unit, shown=shown(found.bare))


def void(_: object) -> None:
    """Forgets a result."""
