"""Units that never switch on."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from neuronal.data.dataset import Split
from neuronal.geometry.trace import outputs, watching


def dead_units(model: nn.Module, split: Split) -> dict[str, Any]:
    """Counts, after each ``nn.ReLU`` module, the units whose output is positive for no image of ``split``.

    A unit is an index of dimension 1: a feature of a vector, or a channel of a map, which is dead when it is off at
    every position.
    ReLUs called as functions are not modules and are not seen.

    Returns:
        ``units`` and ``dead`` in all, and ``layers``: a list of ``name``, ``units``, ``dead`` in forward order.
    """
    ever_on: dict[str, Tensor] = {}

    def look(name: str, output: Tensor) -> None:
        everywhere = [dim for dim in range(output.dim()) if dim != 1]
        on = (output > 0).any(dim=everywhere) if everywhere else output > 0
        ever_on[name] = ever_on[name] | on if name in ever_on else on

    with watching(model, (nn.ReLU,), look):
        outputs(model, split.x)
    layers = [{"name": name, "units": on.numel(), "dead": int((~on).sum())} for name, on in ever_on.items()]
    return {
        "units": sum(layer["units"] for layer in layers),
        "dead": sum(layer["dead"] for layer in layers),
        "layers": layers,
    }
