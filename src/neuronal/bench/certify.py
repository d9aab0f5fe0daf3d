"""What certificates cost: milliseconds per segment, and patterns beside plain inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from neuronal.bench.memory import peak_bytes
from neuronal.certify.segment import certify_segments
from neuronal.data.catalogue import load
from neuronal.data.dataset import Dataset, Split
from neuronal.geometry.pattern import group_by_pattern
from neuronal.geometry.segment import segment_pieces
from neuronal.geometry.trace import outputs
from neuronal.models.registry import create_model
from neuronal.train.loop import fit
from neuronal.train.optim import Plan
from neuronal.train.timing import side_by_side

MEMORY = 2**30
"""Bytes exact breakpoints may use."""


@dataclass(frozen=True)
class Work:
    """One line of the table: what is done, how often, what one of it may cost and in which unit."""

    name: str
    data: str
    model: str
    options: dict[str, Any]
    segments: int
    limit: float
    unit: str


WORKS = (
    Work("MLP 784-128-128-10, segments", "fashion_mnist", "fcn", {"widths": (128, 128)}, 1000, 0.5, "ms per segment"),
    Work("CNN 8-16, segments", "fashion_mnist", "cnn", {"widths": (8, 16, 64)}, 200, 5.0, "ms per segment"),
    Work("CNN 32-64, segments", "fashion_mnist", "cnn", {"widths": (32, 64, 128)}, 100, 20.0, "ms per segment"),
    Work("ResNet-18, width 8, exact", "fashion_mnist", "resnet18", {"width": 8}, 3, 10.0, "s per segment"),
    Work("MLP 64-128-128-10, pairs of digits", "digits", "fcn", {"widths": (128, 128)}, 16_000, 20.0, "s for all"),
)
PATTERN_LIMIT = 1.5


@dataclass(frozen=True)
class Timed:
    """What a line of the table came to; ``certified``, ``refuted`` and ``unknown`` count verdicts, where there are any."""

    name: str
    count: int
    cost: float
    limit: float
    unit: str
    certified: int = 0
    refuted: int = 0
    unknown: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure() -> Iterator[Timed]:
    """Every line whose data are there, each on a network trained for it; then the patterns.

    Raises:
        ValueError: A dataset is missing, in one line.
    """
    for work in WORKS:
        data = load(work.data)
        model = _trained(work, data)
        a, b = _same_class(model, data.test, work.segments)
        if work.unit.startswith("s per"):
            yield from _exact(work, model, a, b)
        else:
            yield _certified(work, model, a, b)
    yield patterns()


def _trained(work: Work, data: Dataset) -> nn.Module:
    shape = {"num_classes": len(data.classes), "in_chans": data.in_chans, "img_size": data.img_size}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = create_model(work.model, "standard", **shape, **work.options)
    images = data.train.rows(slice(0, 20_000))
    epochs = 10 if work.data == "digits" else 2
    fit(model, images, Plan(epochs=epochs, batch_size=64, optim="adam", lr=2e-3))
    return model.cpu()


def _same_class(model: nn.Module, test: Split, count: int) -> tuple[Tensor, Tensor]:
    """Ends of random segments between images of one class, both classified right."""
    x = test.x
    right = outputs(model, x).argmax(1).cpu() == test.y
    generator = torch.Generator().manual_seed(0)
    groups = [(right & (test.y == label)).nonzero().flatten() for label in test.y.unique()]
    pairs: list[Tensor] = []
    while len(pairs) < count:
        group = groups[int(torch.randint(len(groups), (), generator=generator))]
        if len(group) > 1:
            pairs.append(group[torch.randperm(len(group), generator=generator)[:2]])
    both = torch.stack(pairs)
    return x[both[:, 0]], x[both[:, 1]]


def _certified(work: Work, model: nn.Module, a: Tensor, b: Tensor) -> Timed:
    certify_segments(model, a[:4], b[:4])
    started = perf_counter()
    verdicts = [c.verdict for c in certify_segments(model, a, b)]
    seconds = perf_counter() - started
    cost = seconds if work.unit == "s for all" else 1000 * seconds / len(verdicts)
    counts = {verdict: verdicts.count(verdict) for verdict in ("certified", "refuted", "unknown")}
    return Timed(work.name, len(verdicts), cost, work.limit, work.unit, **counts)


def _exact(work: Work, model: nn.Module, a: Tensor, b: Tensor) -> Iterator[Timed]:
    """Time, and memory beside what was allowed."""

    def walk() -> None:
        for start, end in zip(a, b, strict=True):
            segment_pieces(model, start, end, memory=MEMORY, dtype=torch.float32)

    started = perf_counter()
    peak = peak_bytes(walk)
    yield Timed(work.name, len(a), (perf_counter() - started) / len(a), work.limit, work.unit)
    if peak is not None:
        yield Timed(f"{work.name}, memory", len(a), peak / 2**20, MEMORY / 2**20, "MiB at most")


def patterns(*, images: int = 10_000, rounds: int = 5) -> Timed:
    """Grouping by activation pattern against plain inference, a CNN on made-up images of 28 x 28."""
    torch.manual_seed(0)
    model = create_model("cnn", "standard", num_classes=10, in_chans=1, img_size=28, widths=(8, 16, 64))
    x = torch.rand(images, 1, 28, 28)
    actions: dict[str, Callable[[], None]] = {
        "inference": lambda: void(outputs(model, x)),
        "patterns": lambda: void(group_by_pattern(model, x)),
    }
    time = side_by_side(actions, "inference", rounds=rounds, warmup=1)["patterns"]
    return Timed("activation patterns of a CNN", images, time.ratio, PATTERN_LIMIT, "x plain inference")


def void(_: object) -> None:
    """Forgets a result."""
