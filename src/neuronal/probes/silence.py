"""Layers that an image leaves without any active unit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from neuronal.data.dataset import Split
from neuronal.geometry.trace import outputs, watching_relus


def silence(model: nn.Module, split: Split) -> dict[str, Any]:
    """Counts the images for which some ReLU layer has no active unit, at one position or more of a map.

    Units are the channels of a map, or the features of a vector. This is not :func:`neuronal.probes.dead_units`: a layer
    in which every unit is alive on some image may still be silent on many.

    Returns:
        ``images``; ``silent``, how many leave a layer silent; ``layers``, a list of ``name`` and ``silent`` in forward
        order; ``dead_layers``, how many are silent on every image.
    """
    seen: dict[str, list[Tensor]] = {}

    def look(name: str, output: Tensor) -> None:
        off = (output <= 0).all(1)
        seen.setdefault(name, []).append(off.flatten(1).any(1) if off.dim() > 1 else off)

    with watching_relus(model, look):
        outputs(model, split.x)
    layers = {name: torch.cat(parts) for name, parts in seen.items()}
    count = len(split)
    if not layers:
        return {"images": count, "silent": 0, "layers": [], "dead_layers": 0}
    return {
        "images": count,
        "silent": int(torch.stack(list(layers.values())).any(0).sum()),
        "layers": [{"name": name, "silent": int(off.sum())} for name, off in layers.items()],
        "dead_layers": sum(bool(off.all()) for off in layers.values()),
    }
