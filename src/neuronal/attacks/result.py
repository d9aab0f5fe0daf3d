"""What an attack found, and the memory it is collected in."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from neuronal.core.inference import outputs


@dataclass(frozen=True, eq=False)
class Attacked:
    """What an attack found, input by input, on the CPU.

    Attributes:
        adversarial: An input that is classified wrong where there is one, else the one that came closest.
        success: Whether the network errs there; also where it erred before anything was changed.
        queries: How often a network was asked about the input, the one attacked or the one that stands in for it.
    """

    adversarial: Tensor
    success: Tensor
    queries: Tensor

    @property
    def robust_accuracy(self) -> float:
        """Share of inputs that are classified right, whatever the attack did."""
        return 1 - self.success.double().mean().item()


class Kept:
    """The worst seen so far, input by input: one that errs, or else the one of the largest loss."""

    def __init__(self, model: nn.Module, x: Tensor, y: Tensor, batch_size: int) -> None:
        self.points, self.y = x.clone(), y
        self.loss = torch.full((len(x),), -torch.inf)
        self.errs = outputs(model, x, batch_size=batch_size).argmax(1).cpu() != y
        self.queries = torch.ones(len(x), dtype=torch.long)

    def left(self) -> Tensor:
        """Row numbers of the inputs that are still classified right."""
        return (~self.errs).nonzero().flatten()

    def add(self, rows: Tensor, points: Tensor, loss: Tensor, errs: Tensor) -> None:
        """Looks at one point for each of ``rows``."""
        loss, errs = loss.detach().float().cpu(), errs.cpu()
        better = ~self.errs[rows] & (errs | (loss > self.loss[rows]))
        chosen = rows[better]
        self.points[chosen] = points.detach().cpu()[better]
        self.loss[chosen] = loss[better]
        self.errs[rows] |= errs

    def result(self) -> Attacked:
        return Attacked(self.points, self.errs, self.queries)


def check_inputs(x: Tensor, y: Tensor, box: tuple[float, float]) -> tuple[Tensor, Tensor]:
    """Inputs and labels on the CPU; ``ValueError`` for what cannot be attacked."""
    if len(x) != len(y):
        raise ValueError(f"an attack needs one label per input, got {len(x)} inputs and {len(y)} labels.")
    if len(x) and not bool(((x >= box[0]) & (x <= box[1])).all()):
        low, high = x.min().item(), x.max().item()
        raise ValueError(f"inputs need to be in [{box[0]:g}, {box[1]:g}], got {low:g} to {high:g}. Give another box.")
    return x.detach().cpu(), y.detach().cpu()
