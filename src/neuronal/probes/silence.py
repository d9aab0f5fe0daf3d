"""Layers that an image leaves without any active unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from neuronal.core.inference import outputs
from neuronal.data.dataset import Split
from neuronal.geometry.tracer import watching_relus


@dataclass(frozen=True)
class Silence:
    """How many of the images leave some layer silent; the same layer by layer, in forward order."""

    images: int
    silent: int
    layers: Mapping[str, int]
    dead_layers: int
    """How many are silent on every image."""


def silence(model: nn.Module, split: Split) -> Silence:
    """Counts the images for which some ReLU layer has no active unit, at one position or more of a map.

    Units are the channels of a map, or the features of a vector. This is not :func:`neuronal.probes.dead_units`: a layer
    in which every unit is alive on some image may still be silent on many.
    """
    seen: dict[str, list[Tensor]] = {}

    def look(name: str, output: Tensor) -> None:
        off = (output <= 0).all(1)
        seen.setdefault(name, []).append(off.flatten(1).any(1) if off.dim() > 1 else off)

    with watching_relus(model, look):
        outputs(model, split.x)
    layers = {name: torch.cat(parts) for name, parts in seen.items()}
    some = int(torch.stack(list(layers.values())).any(0).sum()) if layers else 0
    silent = {name: int(off.sum()) for name, off in layers.items()}
    return Silence(len(split), some, silent, sum(bool(off.all()) for off in layers.values()))
