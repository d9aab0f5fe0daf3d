"""The files of a dataset, found but not read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from neuronal.data.arrays import Arrays
from neuronal.data.entry import Entry
from neuronal.data.errors import MissingData
from neuronal.data.folder import class_folders, read_folders
from neuronal.data.parquet import parquet_files, read_parquet
from neuronal.data.table import read_table


@dataclass(frozen=True)
class Found:
    """Where a dataset was found, its files, and the function that reads them."""

    place: Path
    files: Sequence[Path]
    read: Callable[[], Arrays]
    is_images: bool
    """Images are worth keeping once decoded; a table is read as quickly as a copy of it."""


def found_by_name(name: str, entry: Entry, root: Path) -> Found:
    """The files of a named set below ``root``; an error says how to get those that are not there."""
    place = root / entry.place
    if place.suffix == ".csv":
        if not place.is_file():
            raise MissingData(
                f"dataset {name!r}: there is no {place}. Put the table there, its answers in the last column, or name "
                "another folder with NEURONAL_DATA."
            )
        return Found(place, [place], partial(read_table, place, entry.task), False)
    train = parquet_files(place, "train")
    test = next((files for split in entry.test_splits if (files := parquet_files(place, split))), [])
    for split, files in (("train", train), (entry.test_splits[0], test)):
        if not files:
            raise MissingData(
                f"dataset {name!r}: there is no {place / split}-*.parquet. Get it with: neuronal data fetch {name}, "
                "or name another folder with NEURONAL_DATA."
            )
    known: dict[str, Any] = {
        "shape": entry.shape,
        "classes": entry.classes,
        "num_classes": entry.num_classes,
        "fitted": entry.fitted,
    }
    read = partial(read_parquet, train, test, **known)
    return Found(place, [*train, *test], read, True)


def found_at(path: Path) -> Found:
    """The files of somebody's own data: a table, a folder of parquet files, or class folders of images."""
    if path.is_file():
        if path.suffix.lower() != ".csv":
            raise ValueError(f"{path}: needs to be a .csv table or a folder of images.")
        return Found(path, [path], partial(read_table, path), False)
    if not path.exists():
        raise MissingData(f"{path}: no such file or folder.")
    train, test = (parquet_files(path, split) for split in ("train", "test"))
    if train and test:
        return Found(path, [*train, *test], partial(read_parquet, train, test), True)
    folders = class_folders(path)
    if folders is None:
        raise ValueError(
            f"{path}: nothing to read there. It needs train/<class>/ and test/<class>/ (or just <class>/) with images, "
            "or train-*.parquet and test-*.parquet."
        )
    return Found(path, folders.files(), partial(read_folders, folders), True)
