"""Units that never switch on."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from neuronal.core.inference import check_module, outputs
from neuronal.data.dataset import Split
from neuronal.geometry.tracer import watching_relus


@dataclass(frozen=True)
class Layer:
    """Units after one ReLU; ``name`` is the path of the module it is in."""

    name: str
    units: int
    dead: int


@dataclass(frozen=True)
class DeadUnits:
    """Units in all, and layer by layer in forward order."""

    units: int
    dead: int
    layers: tuple[Layer, ...]


def dead_units(model: nn.Module, split: Split) -> DeadUnits:
    """Counts, after each ReLU, module or function, the units whose output is positive for no image of ``split``.

    A unit is a feature of a vector, or a channel of a map, which is dead when it is off at every position. Of rows of
    vectors (tokens) the features are the last dimension, unless the network has convolutions over them.
    """
    check_module(model)
    ever_on: dict[str, Tensor] = {}
    over_rows = any(len(getattr(module, "kernel_size", ())) == 1 for module in _with_kernels(model))

    def look(name: str, output: Tensor) -> None:
        units = 2 if output.dim() == 3 and not over_rows else 1
        everywhere = [dim for dim in range(output.dim()) if dim != units]
        on = (output > 0).any(dim=everywhere) if everywhere else output > 0
        ever_on[name] = ever_on[name] | on if name in ever_on else on

    with watching_relus(model, look):
        outputs(model, split.x)
    layers = tuple(Layer(name, on.numel(), int((~on).sum())) for name, on in ever_on.items())
    return DeadUnits(sum(layer.units for layer in layers), sum(layer.dead for layer in layers), layers)


def _with_kernels(model: nn.Module) -> list[nn.Module]:
    """Convolutions and pools that keep the sizes of their windows as a tuple."""
    return [module for module in model.modules() if isinstance(getattr(module, "kernel_size", None), tuple)]
