"""Class folders of images: ``train/<class>/*.png`` and ``test/<class>/*.png``, or one level, ``<class>/*.png``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from neuronal.data.arrays import Arrays, without_test
from neuronal.data.image import FORMATS, decode, header

TEST_FOLDERS = ("test", "val", "validation")
LARGEST_SIDE = 224
"""Images of different sizes are made squares of the shortest side among them, but no larger than this."""
ODD = 8
"""How many times shorter than usual a side may be: one odd image would have all others made as small."""


@dataclass(frozen=True)
class ClassFolders:
    """Files by class, for training and, where there is such a folder, for testing."""

    train: Mapping[str, Sequence[Path]]
    test: Mapping[str, Sequence[Path]]

    def files(self) -> list[Path]:
        return [file for split in (self.train, self.test) for files in split.values() for file in files]


def class_folders(folder: Path) -> ClassFolders | None:
    """What lies in ``folder``; None if it holds no class folders of images."""
    if train := _by_class(folder / "train"):
        tests = (_by_class(folder / name) for name in TEST_FOLDERS)
        return ClassFolders(train, next(filter(None, tests), {}))
    one_level = _by_class(folder)
    return ClassFolders(one_level, {}) if one_level else None


def read_folders(found: ClassFolders) -> Arrays:
    """Decodes every image; a set without test folders gets a test split of its own."""
    classes = tuple(found.train)
    if strange := [name for name in found.test if name not in classes]:
        file = found.test[strange[0]][0]
        raise ValueError(f"{file.parent}: a class that the training folder does not have.")
    headers = [header(file, str(file)) for file in found.files()]
    channels = max(channels for channels, _, _ in headers)
    sides = [min(height, width) for _, height, width in headers]
    shortest, usual = min(sides), min(LARGEST_SIDE, median(sides))
    if shortest < usual / ODD:
        file = found.files()[sides.index(shortest)]
        raise ValueError(f"{file}: a side of {shortest}, and all images are scaled to the shortest side. Remove it.")
    side = min(shortest, LARGEST_SIDE)
    same = all((height, width) == (side, side) for _, height, width in headers)
    note = "" if same else f"Images are scaled and cut to {side}x{side}."
    train_x, train_y = _read(found.train, classes, channels, side)
    if not found.test:
        return without_test(train_x, train_y, classes, note)
    return Arrays(train_x, train_y, *_read(found.test, classes, channels, side), classes, note)


def _read(
    split: Mapping[str, Sequence[Path]], classes: Sequence[str], channels: int, side: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    pairs = [(file, classes.index(name)) for name, files in split.items() for file in files]
    x = np.empty((len(pairs), channels, side, side), dtype=np.uint8)
    for row, (file, _) in enumerate(pairs):
        x[row] = decode(file, str(file), channels, side)
    return x, np.array([label for _, label in pairs], dtype=np.int64)


def _by_class(folder: Path) -> dict[str, list[Path]]:
    """Image files of each subfolder that has any, in the order of their names."""
    if not folder.is_dir():
        return {}
    found = {}
    for inner in sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")):
        files = [file for file in inner.iterdir() if file.suffix.lower() in FORMATS and not file.name.startswith(".")]
        if files:
            found[inner.name] = sorted(files)
    return found
