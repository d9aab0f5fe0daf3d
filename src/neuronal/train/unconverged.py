"""Solves that do not converge while a model is trained: one warning per epoch."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn


class Unconverged:
    """Asks all modules that have ``num_unconverged``, and keeps them from warning themselves until it is closed.

    Whoever asks waits for a GPU, so it is done once per epoch.
    """

    def __init__(self, model: nn.Module) -> None:
        # Of the class: the property itself would wait.
        self._modules: list[Any] = [one for one in model.modules() if hasattr(type(one), "num_unconverged")]
        self._before, self._warned = self._count(), [one.warns for one in self._modules]
        for one in self._modules:
            one.warns = False

    def _count(self) -> int:
        return sum(one.num_unconverged for one in self._modules)

    def warn(self, epoch: int) -> None:
        """Warns if solves did not converge since the last call."""
        count = self._count()
        missed, self._before = count - self._before, count
        if missed:
            warnings.warn(
                f"epoch {epoch}: {missed} solves did not reach their tolerance; num_unconverged of each layer says which.",
                RuntimeWarning,
                stacklevel=3,
            )

    def close(self) -> None:
        """Lets the modules warn again."""
        for one, warned in zip(self._modules, self._warned, strict=True):
            one.warns = warned
