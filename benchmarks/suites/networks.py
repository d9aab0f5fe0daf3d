"""A training step of whole networks: each neuron against the standard one, with the same norm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.row import Row, ratio_row
from benchmarks.timing import Action, Setting, compare
from neuronal.models import create_model
from neuronal.train.recording import one_line

BASELINE = "standard"


@dataclass(frozen=True)
class Steps:
    """A network, its images, and the neurons to compare, each with what it may cost if it has a limit.

    Args:
        count: Steps between two looks at the clock: a device is waited for once, as in training.
        is_compiled: By ``torch.compile`` with ``mode="reduce-overhead"``.
        is_bf16: In bfloat16 autocast.
    """

    model: str
    side: int
    batch: int
    classes: int
    norm: str
    neurons: Mapping[str, float | None]
    options: Mapping[str, Any] = field(default_factory=dict)
    count: int = 10
    is_compiled: bool = True
    is_bf16: bool = True

    @property
    def name(self) -> str:
        kind = f"{'bfloat16' if self.is_bf16 else 'float32'}, {'compiled' if self.is_compiled else 'eager'}"
        width = f" of width {self.options['width']}" if "width" in self.options else ""
        return f"{self.model}{width} {self.side}x{self.side}, batch {self.batch}, norm {self.norm}, {kind}"

    def network(self, neuron: str, device: torch.device) -> nn.Module:
        """A fresh network with channels last."""
        shape = {"num_classes": self.classes, "in_chans": 3, "img_size": self.side}
        model = create_model(self.model, neuron, norm=self.norm, **shape, **self.options).to(device)
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return model

    def rows(self, setting: Setting) -> Iterator[Row]:
        x = torch.randn(self.batch, 3, self.side, self.side, device=setting.device)
        x = x.contiguous(memory_format=torch.channels_last)
        y = torch.randint(self.classes, (self.batch,), device=setting.device)
        actions: dict[str, Action] = {}
        for neuron in (BASELINE, *self.neurons):
            model = self.network(neuron, setting.device)
            called = torch.compile(model, mode="reduce-overhead") if self.is_compiled else model
            action = training_steps(called, model, x, y, self.count, is_bf16=self.is_bf16)
            try:
                action()
            except Exception as error:
                if neuron == BASELINE:
                    raise
                # A network that cannot be trained is a line of the table, and not the end of it.
                limit = self.neurons[neuron]
                yield Row(f"{self.name}: {neuron}", None, f"x {BASELINE}", limit, error=one_line(error))
            else:
                actions[neuron] = action
        for neuron, timed in compare(actions, BASELINE, setting).items():
            row = ratio_row(f"{self.name}: {neuron}", timed, BASELINE, self.neurons.get(neuron), repeats=self.count)
            speed = self.batch * self.count / timed.seconds.median
            yield replace(row, notes={"images/s": speed})


def training_steps(
    called: Callable[[Tensor], Tensor], model: nn.Module, x: Tensor, y: Tensor, count: int, *, is_bf16: bool
) -> Action:
    """So many steps of SGD with momentum, as one would write them by hand."""
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)

    def action() -> None:
        for _ in range(count):
            with torch.autocast(x.device.type, torch.bfloat16, enabled=is_bf16):
                loss = F.cross_entropy(called(x), y)
            loss.backward()
            optimiser.step()
            # Also behind the last step: memory that gradients are in is the next network's.
            optimiser.zero_grad()

    return action


# Layers without a bias have less to do.
_WITH_NORM: Mapping[str, float | None] = {"geometric": 1.05}
_PLAIN: Mapping[str, float | None] = {"zero_bias": 1.00, "farkas": 1.05}
_RESNET18 = tuple(Steps("resnet18", 32, 512, 10, n, of) for n, of in (("batch", _WITH_NORM), ("none", _PLAIN)))
_RESNET50 = tuple(Steps("resnet50", 224, 128, 1000, n, of) for n, of in (("batch", _WITH_NORM), ("none", _PLAIN)))
# As in Table 1 of the Farkas paper, whose ResNet is a FarkasNet with standard units.
_LAYOUT = {"depths": (2, 2, 2, 2), "width": 16}
_FARKASNET18 = tuple(
    Steps("farkasnet18", 32, 128, 10, norm, {"farkas": None}, _LAYOUT, is_bf16=False) for norm in ("none", "batch")
)


def _eager(cases: tuple[Steps, ...]) -> tuple[Steps, ...]:
    """The same without the compiler, and without limits."""
    return tuple(replace(case, is_compiled=False, neurons=dict.fromkeys(case.neurons)) for case in cases)


def _small(case: Steps) -> Steps:
    """What a CPU trains in a fraction of a second."""
    return replace(case, batch=32, options={"width": 16, **case.options}, count=1, is_bf16=False)


CASES = {
    "cpu": tuple(_small(case) for case in _eager((*_RESNET18, *_FARKASNET18))),
    "cuda": (*_RESNET18, *_FARKASNET18, *_eager((*_RESNET18, *_FARKASNET18)), *_RESNET50),
}
