"""What certificates and exact segments cost: beside plain inference, on a GPU beside the CPU, and in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.row import Row, ratio_row
from benchmarks.timing import Interval, Setting, Timed, compare, peak_bytes
from neuronal.certify import Budget, certify_segment, certify_segments
from neuronal.data import Dataset, load
from neuronal.geometry import group_by_pattern, outputs, segment_pieces
from neuronal.models import create_model
from neuronal.train import Plan, fit


@dataclass(frozen=True)
class Trained:
    """A network trained on a dataset, and segments between two test images of a class, both classified right."""

    label: str
    data: str
    model: str
    segments: int
    limit: float
    unit: str = "ms per segment"
    """Or ``"s for all"``."""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.label}, {self.segments:,} segments"

    def rows(self, setting: Setting) -> Iterator[Row]:
        data = load(self.data)
        model = self._trained(data)
        yield from self._timed(model, *self._same_class(model, data), setting)

    def _timed(self, model: nn.Module, a: Tensor, b: Tensor, setting: Setting) -> Iterator[Row]:
        ends = torch.cat((a, b))
        verdicts: list[str] = []

        def certify() -> None:
            verdicts[:] = [certificate.verdict for certificate in certify_segments(model, a, b)]

        timed = _beside_inference(model, ends, certify, setting, warmup=1)
        cost = timed.seconds.times(1.0 if self.unit == "s for all" else 1e3 / self.segments)
        yield Row(self.name, cost, self.unit, self.limit, notes={**_inference(timed), **Counter(verdicts)})

    def _trained(self, data: Dataset) -> nn.Module:
        shape = {"num_classes": len(data.classes), "in_chans": data.in_chans, "img_size": data.img_size}
        torch.manual_seed(0)
        model = create_model(self.model, "standard", **shape, **self.options)
        epochs = 10 if self.data == "digits" else 2
        fit(model, data.train.rows(slice(20_000)), Plan(epochs=epochs, batch_size=64, optim="adam", lr=2e-3))
        return model.cpu()

    def _same_class(self, model: nn.Module, data: Dataset) -> tuple[Tensor, Tensor]:
        x, y = data.test.x, data.test.y
        right = outputs(model, x).argmax(1).cpu() == y
        generator = torch.Generator().manual_seed(0)
        groups = [group for label in y.unique() if len(group := (right & (y == label)).nonzero().flatten()) > 1]
        if not groups:
            raise ValueError(f"{self.name}: no two images of a class are classified right.")
        pairs: list[Tensor] = []
        while len(pairs) < self.segments:
            group = groups[int(torch.randint(len(groups), (), generator=generator))]
            pairs.append(group[torch.randperm(len(group), generator=generator)[:2]])
        both = torch.stack(pairs)
        return x[both[:, 0]], x[both[:, 1]]


@dataclass(frozen=True)
class Exact(Trained):
    """All breakpoints of such segments in float32, within a memory."""

    unit: str = "s per segment"
    memory: int = 2**30

    def _timed(self, model: nn.Module, a: Tensor, b: Tensor, setting: Setting) -> Iterator[Row]:
        def walk() -> None:
            for start, end in zip(a, b, strict=True):
                segment_pieces(model, start, end, memory=self.memory, dtype=torch.float32)

        # First, as memory that was freed is used again unseen.
        peak = peak_bytes(walk, torch.device("cpu")) / 2**20
        timed = _beside_inference(model, torch.cat((a, b)), walk, setting, warmup=0)
        cost = timed.seconds.times(1 / self.segments)
        yield Row(self.name, cost, self.unit, self.limit, notes=_inference(timed))
        yield Row(f"{self.name}, memory", Interval(peak, peak, peak), "MiB", self.memory / 2**20)


def _beside_inference(model: nn.Module, ends: Tensor, action: Any, setting: Setting, *, warmup: int) -> Timed:
    actions = {"inference": lambda: _forget(outputs(model, ends)), "certify": action}
    return compare(actions, "inference", setting, warmup=warmup)["certify"]


def _inference(timed: Timed) -> dict[str, float | str]:
    return {"x inference of the ends": timed.ratio.median}


def _forget(_: object) -> None:
    """An action returns nothing."""


@dataclass(frozen=True)
class PatternGroups:
    """Grouping by activation pattern against plain inference, a CNN on noise of 28 x 28."""

    images: int
    limit: float

    @property
    def name(self) -> str:
        return f"activation patterns of a CNN, {self.images:,} images"

    def rows(self, setting: Setting) -> Iterator[Row]:
        model = create_model("cnn", "standard", num_classes=10, in_chans=1, img_size=28, widths=(8, 16, 64))
        x = torch.rand(self.images, 1, 28, 28)
        actions = {
            "inference": lambda: _forget(outputs(model, x)),
            "patterns": lambda: _forget(group_by_pattern(model, x)),
        }
        timed = compare(actions, "inference", setting, warmup=1)["patterns"]
        yield ratio_row(self.name, timed, "plain inference", self.limit)


@dataclass(frozen=True)
class OnGpu:
    """Exact pieces and the certificate of the first part of a segment between two noise images, of a ResNet-18.

    Args:
        exact: Share of the way whose pieces are counted.
        proved: Share of the way that is certified.
        memory: Bytes that values inside the network may take.
        is_beside: Whether the CPU does the same in every round; otherwise it would take too long, and the row is the
            memory that was taken.
    """

    width: int
    exact: float
    proved: float
    is_beside: bool
    side: int = 32
    memory: int = 8 * 2**30

    @property
    def name(self) -> str:
        return f"ResNet-18 of width {self.width}"

    def rows(self, setting: Setting) -> Iterator[Row]:
        here = noise_network(self.width, self.side)
        there = deepcopy(here).to(setting.device)
        a, b = torch.rand(2, 3, self.side, self.side, generator=torch.Generator().manual_seed(1))
        for kind, walk in (("exact pieces", self._pieces), ("certificate", self._certificate)):
            name = f"{self.name}, {kind}"
            answers: dict[str, dict[str, float | str]] = {}

            def on(model: nn.Module, device: str, walk: Any = walk, answers: Any = answers) -> None:
                answers[device] = walk(model, a, b)

            actions = {"CPU": lambda on=on: on(here, "CPU"), "GPU": lambda on=on: on(there, "GPU")}
            if self.is_beside:
                timed = compare(actions, "CPU", setting, warmup=1)["GPU"]
                differs = {} if answers["CPU"] == answers["GPU"] else {"CPU": str(answers["CPU"])}
                yield ratio_row(name, timed, "CPU", **answers["GPU"], **differs)
            else:
                started = perf_counter()
                peak = peak_bytes(actions["GPU"], setting.device) / 2**30
                notes = {"seconds": perf_counter() - started, **answers["GPU"]}
                yield Row(name, Interval(peak, peak, peak), "GiB", self.memory / 2**30, notes=notes)

    def _pieces(self, model: nn.Module, a: Tensor, b: Tensor) -> dict[str, float | str]:
        end = torch.lerp(a, b, self.exact)
        return {"pieces": segment_pieces(model, a, end, memory=self.memory, dtype=torch.float32).count}

    def _certificate(self, model: nn.Module, a: Tensor, b: Tensor) -> dict[str, float | str]:
        device = next(model.parameters()).device
        end = torch.lerp(a, b, self.proved)
        budget = Budget(bounds=64, memory=self.memory, seconds=12.0)
        return {"verdict": certify_segment(model, a.to(device), end.to(device), budget=budget).verdict}


def noise_network(width: int, side: int) -> nn.Module:
    """An untrained ResNet-18 whose batch norm has the statistics of noise, in evaluation mode."""
    with torch.no_grad():
        torch.manual_seed(0)
        model = create_model("resnet18", "standard", norm="batch", img_size=side, width=width)
        for _ in range(20):
            model(torch.rand(16, 3, side, side))
    return model.eval()


CASES = {
    "cpu": (
        Trained("MLP 784-128-128-10", "fashion_mnist", "fcn", 1000, 0.5, options={"widths": (128, 128)}),
        Trained("CNN 8-16", "fashion_mnist", "cnn", 200, 5.0, options={"widths": (8, 16, 64)}),
        Trained("CNN 32-64", "fashion_mnist", "cnn", 100, 20.0, options={"widths": (32, 64, 128)}),
        Exact("ResNet-18 of width 8, exact", "fashion_mnist", "resnet18", 1, 10.0, options={"width": 8}),
        Trained("MLP 64-128-128-10", "digits", "fcn", 16_000, 20.0, "s for all", options={"widths": (128, 128)}),
        PatternGroups(10_000, 1.5),
    ),
    "cuda": (OnGpu(8, 0.25, 3e-4, is_beside=True), OnGpu(64, 1.0, 4e-5, is_beside=False)),
}
