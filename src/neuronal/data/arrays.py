"""What a reader of files hands over: plain arrays, before they are tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from neuronal.data.dataset import Dataset, Split, Task
from neuronal.names import printable

TEST_SHARE = 0.2
"""Of a set that comes without a test split."""

SPLIT_SEED = 0


@dataclass(frozen=True, eq=False)
class Arrays:
    """Two splits as arrays, and the names of the classes (none: regression)."""

    train_x: np.ndarray[Any, Any]
    train_y: np.ndarray[Any, Any]
    test_x: np.ndarray[Any, Any]
    test_y: np.ndarray[Any, Any]
    classes: tuple[str, ...]
    note: str = ""
    """Anything a reader had to decide, to be told with the source."""

    def dataset(self, name: str, source: str) -> Dataset:
        task: Task = "classification" if self.classes else "regression"
        train, test = (
            Split(torch.from_numpy(x), torch.from_numpy(y))
            for x, y in ((self.train_x, self.train_y), (self.test_x, self.test_y))
        )
        classes = tuple(map(printable, self.classes))
        return Dataset(name, train, test, classes, " ".join(filter(None, (source, self.note))), task)


def without_test(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], classes: tuple[str, ...], note: str = "") -> Arrays:
    """Splits a fifth of the rows off for testing: of each class, and always the same ones."""
    train, test = Split(torch.from_numpy(x), torch.from_numpy(y)).held_out(TEST_SHARE, SPLIT_SEED)
    said = f"It comes without a test split: {TEST_SHARE:.0%} of it, drawn with seed {SPLIT_SEED}, are kept for testing."
    train_x, train_y, test_x, test_y = (part.numpy() for part in (train.stored, train.y, test.stored, test.y))
    return Arrays(train_x, train_y, test_x, test_y, classes, " ".join(filter(None, (note, said))))
