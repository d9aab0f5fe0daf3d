"""The numbers of a training in TensorBoard, for those who have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neuronal.train.progress import Epoch


class Board:
    """A hook for ``fit(on_epoch=...)`` that writes what TensorBoard draws.

    Raises:
        ValueError: TensorBoard is not installed.
    """

    def __init__(self, folder: Path | str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as missing:
            raise ValueError("TensorBoard is not installed: pip install 'neuronal[track]'.") from missing
        self._writer: Any = SummaryWriter(str(folder))

    def __call__(self, epoch: Epoch) -> None:
        for name, value in {"loss": epoch.loss, "accuracy": epoch.accuracy, "lr": epoch.lr, **epoch.measured}.items():
            if value is not None:
                self._writer.add_scalar(name, value, epoch.steps)
        self._writer.flush()
