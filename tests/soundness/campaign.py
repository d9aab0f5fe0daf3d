"""A seeded attack on certificates: random networks, every question, and samples against every answer.

The oracle shares no code with the library: plain forward passes of the model, in float64 for the promise about real numbers
and in the model's own precision for the one about float32. A sample counts against a certificate only if it shows another
class beyond rounding. An earlier run of the same commit is resumed:

    python -m tests.soundness.campaign --minutes 60 --processes 2 --out results/certify/campaign.json
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from time import monotonic

import torch
from torch import Tensor, nn

from neuronal.certify import (
    Budget,
    Certificate,
    certify_activity,
    certify_ball,
    certify_cone,
    certify_hull,
    certify_lipschitz_ball,
    certify_scaling,
    certify_segments,
    check,
)
from neuronal.core.files import plain_json, write_whole
from neuronal.experiments import environment
from neuronal.nn.farkas import FarkasConv2d, FarkasLinear
from neuronal.nn.geometric import GeometricLinear

IN_PLACE: dict[str, Callable[[], nn.Module]] = {
    "relu": lambda: nn.ReLU(inplace=True),
    "hardtanh": lambda: nn.Hardtanh(inplace=True),
    "leaky": lambda: nn.LeakyReLU(0.2, inplace=True),
    "relu6": lambda: nn.ReLU6(inplace=True),
    "none": nn.Identity,
}
BENDS: tuple[Callable[[], nn.Module], ...] = (
    nn.ReLU,
    lambda: nn.ReLU(inplace=True),
    lambda: nn.LeakyReLU(random.uniform(-0.3, 1.5)),
    nn.Hardtanh,
    lambda: nn.PReLU(init=random.uniform(-0.3, 0.9)),
)
SAMPLES = 2000
BUDGET = Budget(bounds=512, seconds=1.0)
CLASSES = 3


class Residual(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.branch = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.branch(x))


class Noisy(nn.Module):
    """Draws random numbers: nothing may be certified of it, however small they are."""

    def __init__(self, inner: nn.Module, size: float):
        super().__init__()
        self.inner, self.size = inner, size

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x + self.size * torch.randn_like(x))


class OneRow(nn.Module):
    """Another network for a single row than for several."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x)
        return -y if len(x) == 1 else y


@dataclass
class Counts:
    """What a campaign has seen: answers by question and verdict, samples, and what was false."""

    answers: Counter[str] = field(default_factory=Counter)
    samples: int = 0
    false: list[str] = field(default_factory=list)
    unconfirmed: Counter[str] = field(default_factory=Counter)

    def add(self, other: Counts) -> None:
        self.answers += other.answers
        self.samples += other.samples
        self.false += other.false
        self.unconfirmed += other.unconfirmed

    def confirm(self, name: str, certificate: Certificate, model: nn.Module) -> None:
        """Counts an answer that ``check`` does not confirm, with its reason."""
        if certificate.verdict != "unknown" and not (said := check(certificate, model)):
            self.unconfirmed[f"{name}, {certificate.verdict}: {said.reason}"] += 1


def scaled(model: nn.Module) -> nn.Module:
    """Weights of very different sizes."""
    way = random.choice(("plain", "plain", "large", "tiny", "mixed", "whole", "sparse", "offsets"))
    with torch.no_grad():
        for parameter in model.parameters():
            if way == "large":
                parameter.mul_(10 ** random.uniform(0, 6))
            elif way == "tiny":
                parameter.mul_(10 ** random.uniform(-8, 0))
            elif way == "mixed":
                parameter.mul_(torch.exp(2 * torch.randn_like(parameter)))
            elif way == "whole":
                parameter.mul_(4).round_()
            elif way == "sparse":
                parameter.mul_((torch.rand_like(parameter) < 0.3).to(parameter.dtype))
            elif way == "offsets" and parameter.dim() == 1:
                parameter.add_(1e5)
    return model


def mlp(biases: bool = True) -> tuple[nn.Module, tuple[int, ...]]:
    inputs, width, depth = random.randint(1, 6), random.randint(2, 16), random.randint(1, 3)
    parts: list[nn.Module] = [random.choice(list(IN_PLACE.values()))()]
    before = inputs
    for _ in range(depth):
        kind = random.choice(("linear",) * 4 + ("farkas", "geometric", "residual")) if biases else "linear"
        if kind == "residual" and before > 1:
            parts.append(Residual(before))
            continue
        if kind == "farkas" and width > 1:
            parts.append(FarkasLinear(before, width))
        elif kind == "geometric":
            parts.append(GeometricLinear(before, width))
        else:
            parts.append(nn.Linear(before, width, bias=biases))
        if biases and random.random() < 0.25:
            parts.append(normed(nn.BatchNorm1d(width)))
        parts.append(random.choice(BENDS)() if biases else random.choice((nn.ReLU(), nn.LeakyReLU(0.3))))
        before = width
    return nn.Sequential(*parts, nn.Linear(before, CLASSES, bias=biases)), (inputs,)


def cnn() -> tuple[nn.Module, tuple[int, ...]]:
    channels, side = random.randint(1, 2), random.randint(4, 7)
    mode = random.choice(("zeros", "reflect", "replicate", "circular"))
    conv = nn.Conv2d(channels, 4, 3, padding=random.randint(0, 1), padding_mode=mode)
    first: nn.Module = random.choice((conv, FarkasConv2d(channels, 4, 3)))
    parts = [random.choice(list(IN_PLACE.values()))(), first, *([normed(nn.BatchNorm2d(4))] * (random.random() < 0.3))]
    pool = random.choice((nn.MaxPool2d(2), nn.AvgPool2d(2), nn.MaxPool2d(2, ceil_mode=True), nn.AdaptiveMaxPool2d(2)))
    body = nn.Sequential(*parts, random.choice(BENDS)(), pool, nn.Flatten())
    with torch.no_grad():
        size = body.eval()(torch.zeros(1, channels, side, side)).shape[1]
    return nn.Sequential(body, nn.Linear(size, CLASSES)), (channels, side, side)


def normed(norm: nn.Module) -> nn.Module:
    with torch.no_grad():
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.2, 3)
        norm.weight.normal_()
        norm.bias.normal_()
    return norm


def network(number: int) -> tuple[nn.Module, tuple[int, ...], str]:
    """A network, the shape of an input, and what it is."""
    torch.manual_seed(number)
    random.seed(number)
    make = random.choice((mlp, mlp, cnn))
    model, shape = make()
    model = scaled(model).eval()
    kind = make.__name__
    odd = random.random()
    if odd < 0.05:
        model, kind = Noisy(model, 10 ** random.uniform(-8, 0)), "noisy"
    elif odd < 0.1:
        model, kind = OneRow(model), "one row"
    elif odd < 0.2:
        model, kind = model.bfloat16(), "bfloat16"
    elif odd < 0.5:
        model, kind = model.double(), f"{kind} float64"
    return model, shape, kind


def own(model: nn.Module) -> torch.dtype:
    return next(model.parameters()).dtype


def leads(model: nn.Module, x: Tensor, label: int, promise: str) -> Tensor:
    """Whether each row has another class than the label, beyond rounding for the promise about real numbers."""
    with torch.no_grad():
        if promise == "float32":
            return model(x.to(own(model)).clone()).argmax(-1) != label
        scores = deepcopy(model).double()(x.double().clone())
        others = scores.clone()
        others[:, label] = -math.inf
        size = scores.abs().amax(1) + deepcopy(model).double()(torch.zeros_like(x[:1]).double()).abs().max()
        return others.amax(1) - scores[:, label] > 1e-6 * size + 1e-300


def before_a_change(model: nn.Module, a: Tensor, b: Tensor) -> Tensor:
    """An end for the segment from ``a``, a hair before its class changes on the way to ``b``; ``b`` where it does not."""
    low, high = 0.0, 1.0
    with torch.no_grad():
        label = model(a.unsqueeze(0).clone()).argmax()
        t = torch.linspace(0, 1, 65, dtype=a.dtype).view(-1, *[1] * a.dim())
        seen = model((a + t * (b - a)).clone()).argmax(1) != label
        if not seen.any():
            return b
        low, high = (int(seen.nonzero()[0]) - 1) / 64, int(seen.nonzero()[0]) / 64
        for _ in range(50):
            middle = (low + high) / 2
            other = model((a + middle * (b - a)).unsqueeze(0).clone()).argmax() != label
            low, high = (low, middle) if other else (middle, high)
    return a + max(low - 10 ** random.uniform(-15, -0.5), 0.0) * (b - a)


def attack(number: int) -> Counts:
    """Every question about the network of this number, and samples against every answer."""
    counts = Counts()
    model, shape, kind = network(number)
    dtype = own(model)
    generator = torch.Generator().manual_seed(number)

    def draw(*rows: int) -> Tensor:
        size = 10 ** random.uniform(-2, 2)
        return (size * torch.randn(*rows, *shape, generator=generator, dtype=torch.float64)).to(dtype)

    def inside(points: Tensor) -> Tensor:
        weights = torch.rand(SAMPLES, len(points), generator=generator, dtype=torch.float64) ** random.choice((1, 4))
        weights /= weights.sum(1, keepdim=True)
        return (weights @ points.double().flatten(1)).view(SAMPLES, *shape)

    def against(certificate: Certificate, samples: Callable[[], Tensor], label: int) -> None:
        name = f"{certificate.kind}, {certificate.promise}"
        counts.answers[f"{name}: {certificate.verdict}"] += 1
        if certificate.verdict == "unknown":
            return
        if certificate.verdict == "certified":
            if kind in ("noisy", "one row"):
                counts.false.append(f"{number}: {name} of a network that is {kind}")
                return
            x = samples()
            counts.samples += len(x)
            if leads(model, x, label, certificate.promise).any():
                counts.false.append(f"{number}: {name}")
        counts.confirm(name, certificate, model)

    promises = ("real", "float32") if dtype in (torch.float32, torch.float64) else ("real",)
    for promise in promises:
        a, b = draw(6), draw(6)
        if kind not in ("noisy", "one row") and random.random() < 0.7:
            b = torch.stack([before_a_change(model, one, other) for one, other in zip(a, b, strict=True)])
        kept = a.clone(), b.clone()
        for i, certificate in enumerate(certify_segments(model, a, b, promise=promise, budget=BUDGET)):
            ends = torch.stack([a[i], b[i]])
            label = certificate.evidence.label if certificate.evidence is not None else -1
            against(certificate, lambda ends=ends: inside(ends), label)
        corners = draw(1) + 10 ** random.uniform(-3, 0) * draw(3)
        hull = certify_hull(model, corners, promise=promise, budget=BUDGET)
        against(hull, lambda corners=corners: inside(corners), hull.evidence.label if hull.evidence else -1)
        x = draw(1)[0]
        for norm in (2, "inf"):
            ball = certify_ball(model, x, norm=norm, promise=promise)
            if ball.verdict == "certified":
                found = ball.evidence
                against(
                    ball, lambda found=found, norm=norm: around(found.x, found.radius, norm, generator), found.label
                )
            else:
                counts.answers[f"ball, {promise}: {ball.verdict}"] += 1
        if not (torch.equal(a, kept[0]) and torch.equal(b, kept[1])):
            counts.false.append(f"{number}: the caller's tensors were changed")
    rest(model, shape, kind, number, counts, generator, draw)
    return counts


def around(x: Tensor, radius: float, norm: object, generator: torch.Generator) -> Tensor:
    """Points of the ball, half of them on its border (its corners, in the largest-entry norm)."""
    step = torch.randn(SAMPLES, x.numel(), generator=generator, dtype=torch.float64)
    step = step.sign() if norm == "inf" else step / step.norm(dim=1, keepdim=True)
    step[: SAMPLES // 2] *= torch.rand(SAMPLES // 2, 1, generator=generator, dtype=torch.float64)
    return x.double() + 0.999999 * radius * step.view(SAMPLES, *x.shape)


def rest(
    model: nn.Module,
    shape: tuple[int, ...],
    kind: str,
    number: int,
    counts: Counts,
    generator: torch.Generator,
    draw: Callable[..., Tensor],
) -> None:
    """Scaling, cones, Lipschitz balls and activity."""
    is_odd = kind in ("noisy", "one row")
    scaling = certify_scaling(model, draw(1))
    counts.answers[f"scaling: {scaling.verdict}"] += 1
    if scaling.verdict == "certified":
        x = draw(SAMPLES // 4).double()
        precise = deepcopy(model).double()
        with torch.no_grad():
            once = precise(x.clone())
            for s in (0.3, 7.0):
                counts.samples += len(x)
                off = (precise(s * x) - s ** float(scaling.evidence.degree) * once).abs().max()
                if is_odd or off > 1e-6 * s * once.abs().max() + 1e-300:
                    counts.false.append(f"{number}: scaling")
    counts.confirm("scaling", scaling, model)
    bare, size = mlp(biases=False)
    bare = bare.double()
    corners = torch.randn(2, *size, generator=generator, dtype=torch.float64)
    cone = certify_cone(bare, corners, budget=BUDGET)
    counts.answers[f"cone: {cone.verdict}"] += 1
    if cone.verdict == "certified":
        weights = torch.rand(SAMPLES, 2, generator=generator, dtype=torch.float64)
        weights *= 10 ** (6 * torch.rand(SAMPLES, 1, generator=generator, dtype=torch.float64) - 3)
        counts.samples += SAMPLES
        if leads(bare, weights @ corners, cone.evidence.hull.evidence.label, "real").any():
            counts.false.append(f"{number}: cone")
    counts.confirm("cone", cone, bare)
    if is_odd or kind == "bfloat16":
        return
    try:
        ball = certify_lipschitz_ball(model, draw(1)[0])
    except ValueError:
        counts.answers["Lipschitz ball: refused"] += 1
    else:
        counts.answers[f"Lipschitz ball: {ball.verdict}"] += 1
        if ball.verdict == "certified" and ball.evidence.radius < math.inf:
            counts.samples += SAMPLES
            x = around(ball.evidence.x, ball.evidence.radius, 2, generator)
            if leads(model, x, ball.evidence.label, "real").any():
                counts.false.append(f"{number}: Lipschitz ball")
        counts.confirm("Lipschitz ball", ball, model)
    activity(model, shape, number, counts, generator)


def activity(model: nn.Module, shape: tuple[int, ...], number: int, counts: Counts, generator: torch.Generator) -> None:
    """Activity of a network on a box, against the outputs of its ReLUs."""
    relus = [module for module in model.modules() if isinstance(module, nn.ReLU)]
    if not relus:
        return
    low = 3 * torch.randn(shape, generator=generator, dtype=torch.float64).to(own(model))
    high = low + 10 ** random.uniform(-2, 1) * torch.rand(shape, generator=generator).to(own(model))
    try:
        certificate = certify_activity(model, (low, high))
    except ValueError:
        counts.answers["activity: refused"] += 1
        return
    counts.answers[f"activity: {certificate.verdict}"] += 1
    if certificate.verdict == "certified":
        share = torch.rand(SAMPLES, *shape, generator=generator, dtype=torch.float64)
        x = low.double() + share * (high.double() - low.double())
        quiet = []
        precise = deepcopy(model).double()
        for module in precise.modules():
            if isinstance(module, nn.ReLU):
                module.register_forward_hook(lambda _, given, y: quiet.append(bool((y.amax(1) <= 0).any())))
        with torch.no_grad():
            precise(x)
        counts.samples += SAMPLES
        if any(quiet):
            counts.false.append(f"{number}: activity")
    counts.confirm("activity", certificate, model)


def campaign(minutes: float, first: int = 0, say: Callable[[str], None] = lambda _: None) -> tuple[Counts, int]:
    """Networks from number ``first`` on until the time is over; what was seen, and the next number."""
    counts, number, end = Counts(), first, monotonic() + 60 * minutes
    while monotonic() < end:
        counts.add(attack(number))
        number += 1
        if number % 100 == 0:
            say(f"{number} networks, {counts.samples:,} samples, {len(counts.false)} false")
    return counts, number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    machine = environment()
    seen, first = Counts(), 0
    if given.out.is_file():
        kept = json.loads(given.out.read_text())
        if kept["environment"]["commit"] == machine["commit"]:
            seen = Counts(Counter(kept["answers"]), kept["samples"], kept["false"], Counter(kept["unconfirmed"]))
            first = kept["networks"]
    end = monotonic() + 60 * given.minutes
    with ProcessPoolExecutor(given.processes, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        while monotonic() < end:
            # In short parts: what is interrupted loses the last of them.
            part = range(first, first + 4 * given.processes)
            for counts in pool.map(attack, part):
                seen.add(counts)
            first = part.stop
            result = {
                "networks": first,
                "answers": dict(sorted(seen.answers.items())),
                "samples": seen.samples,
                "false": seen.false,
                "unconfirmed": dict(sorted(seen.unconfirmed.items())),
                "environment": machine,
            }
            write_whole(given.out, plain_json(result) + "\n")
    print(f"{first} networks, {seen.samples:,} samples, {len(seen.false)} false: {given.out}")


if __name__ == "__main__":
    main()
