"""A training step of whole networks: each neuron against the standard one, with the same norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.cases import Case, Comparison, Prepared
from benchmarks.timing import Action, Setting
from neuronal.models import create_model

BASELINE = "standard"


@dataclass(frozen=True)
class Steps:
    """Training steps of a network, and the neurons to compare.

    Args:
        limits: What compiled networks may cost.
        count: Steps between two looks at the clock: a device is waited for once, as in training.
        is_compiled: By ``torch.compile`` with ``mode="reduce-overhead"``.
        is_bf16: In bfloat16 autocast.
    """

    model: str
    side: int
    batch: int
    classes: int
    norm: str
    neurons: Sequence[str]
    limits: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    count: int = 10
    is_compiled: bool = True
    is_bf16: bool = True

    def case(self) -> Comparison:
        """To be timed."""
        kind = f"{'bfloat16' if self.is_bf16 else 'float32'}, {'compiled' if self.is_compiled else 'eager'}"
        width = f" of width {self.options['width']}" if "width" in self.options else ""
        name = f"{self.model}{width} {self.side}x{self.side}, batch {self.batch}, norm {self.norm}, {kind}"
        limits = self.limits if self.is_compiled else {}
        return Comparison(name, BASELINE, self.prepare, limits, self.count, self.batch)

    def prepare(self, setting: Setting) -> Prepared:
        """So many steps of every neuron, with channels last."""
        x = torch.randn(self.batch, 3, self.side, self.side, device=setting.device)
        x = x.contiguous(memory_format=torch.channels_last)
        y = torch.randint(self.classes, (self.batch,), device=setting.device)
        shape = {"num_classes": self.classes, "in_chans": 3, "img_size": self.side}
        actions = {}
        for neuron in (BASELINE, *self.neurons):
            model = create_model(self.model, neuron, norm=self.norm, **shape, **self.options).to(setting.device)
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            called = torch.compile(model, mode="reduce-overhead") if self.is_compiled else model
            actions[neuron] = self.steps(called, model, x, y)
        return Prepared(actions)

    def steps(self, called: Callable[[Tensor], Tensor], model: nn.Module, x: Tensor, y: Tensor) -> Action:
        """So many steps of SGD with momentum, as one would write them by hand."""
        optimiser = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)

        def action() -> None:
            for _ in range(self.count):
                with torch.autocast(x.device.type, torch.bfloat16, enabled=self.is_bf16):
                    loss = F.cross_entropy(called(x), y)
                loss.backward()
                optimiser.step()
                # Also behind the last step: memory that gradients are in is the next network's.
                optimiser.zero_grad()

        return action


def _both(model: str, side: int, batch: int, classes: int) -> tuple[Steps, Steps]:
    """With batch norm, and the neurons that do without."""
    return (
        Steps(model, side, batch, classes, "batch", ("geometric",), {"geometric": 1.05}),
        Steps(model, side, batch, classes, "none", ("zero_bias", "farkas"), {"zero_bias": 1.00, "farkas": 1.05}),
    )


# As in Table 1 of the Farkas paper, whose ResNet is a FarkasNet with standard units.
_LAYOUT = {"depths": (2, 2, 2, 2), "width": 16}
_FARKAS = [
    Steps("farkasnet18", 32, 128, 10, norm, ("farkas",), options=_LAYOUT, is_bf16=False) for norm in ("none", "batch")
]
_SMALL = [*_both("resnet18", 32, 512, 10), *_FARKAS]
_EAGER = [replace(steps, is_compiled=False) for steps in _SMALL]
# What a CPU trains in a fraction of a second.
_ON_CPU = [replace(steps, batch=32, options=steps.options or {"width": 16}, count=1, is_bf16=False) for steps in _EAGER]
CASES: Mapping[str, Sequence[Case]] = {
    "cpu": tuple(steps.case() for steps in _ON_CPU),
    "cuda": tuple(steps.case() for steps in (*_SMALL, *_EAGER, *_both("resnet50", 224, 128, 1000))),
}
