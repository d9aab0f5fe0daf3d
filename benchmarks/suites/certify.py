"""What certificates and exact segments cost: beside plain inference, on a GPU beside the CPU, and in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import astuple, dataclass
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.cases import Case, Comparison, Prepared, Row
from benchmarks.timing import Interval, Setting, compare, peak_bytes
from neuronal.certify import Budget, certify_segment, certify_segments
from neuronal.data import Dataset, load
from neuronal.experiments import same_class_pairs
from neuronal.geometry import group_by_pattern, outputs, segment_pieces
from neuronal.models import create_model
from neuronal.train import Plan, fit

DATA = "fashion_mnist"


@dataclass(frozen=True)
class Segments:
    """Segments between two test images of a class, both classified right by a network trained for it.

    Args:
        limit: Milliseconds that a segment may cost.
        memory: Bytes for walking all breakpoints in float32; without it segments are certified.
    """

    label: str
    data: str
    model: str
    options: Mapping[str, Any]
    count: int
    limit: float
    memory: int = 0

    @property
    def name(self) -> str:
        return f"{self.label}, {self.count:,} of {self.data}"

    def rows(self, setting: Setting) -> Iterator[Row]:
        data = load(self.data)
        model, (x, y) = self.trained(data), (data.test.x, data.test.y)
        right = outputs(model, x).argmax(1) == y
        a, b = (x[places] for places in same_class_pairs(y, right, self.count, torch.Generator().manual_seed(0)))
        verdicts: list[str] = []

        def certify() -> None:
            verdicts[:] = [certificate.verdict for certificate in certify_segments(model, a, b)]

        def walk() -> None:
            for start, end in zip(a, b, strict=True):
                segment_pieces(model, start, end, memory=self.memory, dtype=torch.float32)

        action = walk if self.memory else certify
        peak = peak_bytes(action, torch.device("cpu")) / 2**20
        actions = {"inference": lambda: outputs(model, torch.cat((a, b))), "ours": action}
        timed = compare(actions, "inference", setting, warmup=0)["ours"]
        cost = Interval(*(1e3 / len(a) * seconds for seconds in astuple(timed.seconds)))
        notes = {"segments": len(a), "x inference of the ends": timed.ratio.median, **Counter(verdicts)}
        yield Row(self.name, cost, "ms per segment", self.limit, notes=notes)
        if self.memory:
            yield Row(f"{self.name}: memory", Interval(peak, peak, peak), "MiB", self.memory / 2**20)

    def trained(self, data: Dataset) -> nn.Module:
        """The network after a few epochs."""
        model = create_model(self.model, "standard", **data.network_shape, **self.options)
        epochs = 10 if self.data == "digits" else 2
        fit(model, data.train.rows(slice(20_000)), Plan(epochs=epochs, batch_size=64, optim="adam", lr=2e-3))
        return model.cpu()


def patterns(images: int, setting: Setting) -> Prepared:
    """Grouping by activation pattern, and plain inference, of a CNN on noise."""
    model = create_model("cnn", "standard", num_classes=10, in_chans=1, img_size=28, widths=(8, 16, 64))
    x = torch.rand(images, 1, 28, 28)
    return Prepared({"inference": lambda: outputs(model, x), "patterns": lambda: group_by_pattern(model, x)})


Walk = Callable[[nn.Module, Tensor, Tensor], float | str]
MEMORY = 8 * 2**30
"""Bytes that values inside the network may take on a GPU."""


def pieces(model: nn.Module, a: Tensor, b: Tensor) -> int:
    """The number of exact pieces of a segment, in float32."""
    return segment_pieces(model, a, b, memory=MEMORY, dtype=torch.float32).count


def certificate(model: nn.Module, a: Tensor, b: Tensor) -> str:
    """The verdict on a segment."""
    return certify_segment(model, a, b, budget=Budget(bounds=64, memory=MEMORY, seconds=12.0)).verdict


def noise(width: int, share: float, side: int = 32) -> tuple[nn.Module, Tensor, Tensor]:
    """An untrained ResNet-18 with the statistics of noise, and the first part of a segment between two noise images."""
    model = create_model("resnet18", "standard", norm="batch", img_size=side, width=width)
    with torch.no_grad():
        for _ in range(20):
            model(torch.rand(16, 3, side, side))
    a, b = torch.rand(2, 3, side, side)
    return model.eval(), a, torch.lerp(a, b, share)


def beside_cpu(walk: Walk, width: int, share: float, setting: Setting, *, side: int = 32) -> Prepared:
    """The same on the CPU and on the device; what each came to is noted."""
    model, *ends = noise(width, share, side)
    there = deepcopy(model).to(setting.device)
    actions: dict[str, Callable[[], float | str]] = {
        "CPU": partial(walk, model, *ends),
        "device": partial(walk, there, *(end.to(setting.device) for end in ends)),
    }
    return Prepared(actions, {name: action() for name, action in actions.items()})


@dataclass(frozen=True)
class Memory:
    """The memory taken on the device by a network that is too large for the CPU."""

    walk: Walk
    width: int
    share: float
    side: int = 32

    @property
    def name(self) -> str:
        return f"ResNet-18 of width {self.width}, {self.walk.__name__}: memory"

    def rows(self, setting: Setting) -> Iterator[Row]:
        model, *ends = noise(self.width, self.share, self.side)
        model.to(setting.device)
        answers: list[float | str] = []
        started = perf_counter()
        action = partial(self.walk, model, *(end.to(setting.device) for end in ends))
        peak = peak_bytes(lambda: answers.append(action()), setting.device) / 2**30
        notes = {"seconds": perf_counter() - started, "came to": answers[0]}
        yield Row(self.name, Interval(peak, peak, peak), "GiB", MEMORY / 2**30, notes=notes)


_MLP, _SMALL, _LARGE = {"widths": (128, 128)}, {"widths": (8, 16, 64)}, {"widths": (32, 64, 128)}
CASES: Mapping[str, Sequence[Case]] = {
    "cpu": (
        Segments("MLP 784-128-128-10", DATA, "fcn", _MLP, 1000, 0.5),
        Segments("CNN 8-16", DATA, "cnn", _SMALL, 200, 5.0),
        Segments("CNN 32-64", DATA, "cnn", _LARGE, 100, 20.0),
        Segments("ResNet-18 of width 8, exact", DATA, "resnet18", {"width": 8}, 1, 10_000, 2**30),
        Segments("MLP 64-128-128-10", "digits", "fcn", _MLP, 16_000, 1.25),
        Comparison("CNN 8-16 on 10,000 images", "inference", partial(patterns, 10_000), {"patterns": 1.5}),
    ),
    "cuda": (
        *(
            Comparison(f"ResNet-18 of width 8, {walk.__name__}", "CPU", partial(beside_cpu, walk, 8, share))
            for walk, share in ((pieces, 0.25), (certificate, 3e-4))
        ),
        *(Memory(walk, 64, share) for walk, share in ((pieces, 1.0), (certificate, 4e-5))),
    ),
}
