"""The files of datasets: where they are looked for, found but not read, and how they are downloaded."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from neuronal.core.limits import extras
from neuronal.core.words import one_line
from neuronal.data.arrays import Arrays
from neuronal.data.dataset import Dataset, Task
from neuronal.data.errors import MissingData
from neuronal.data.folder import class_folders, read_folders
from neuronal.data.parquet import parquet_files, read_parquet
from neuronal.data.table import read_table


@dataclass(frozen=True)
class Hub:
    """Where the Hugging Face hub has a set: the repository, and the folder of its parquet files there."""

    repository: str
    folder: str


@dataclass(frozen=True)
class Entry:
    """A named dataset; counts are those its authors state.

    Args:
        shape: Of one input.
        num_train: Training examples.
        num_test: Test examples.
        num_classes: 0 for regression.
        source: Where the data come from and under which licence.
        place: Where its files lie below the data folder; empty for a set that needs none.
        make: Makes a set that needs no files.
        classes: Their names; empty where the files carry them.
        test_splits: What the test split may be called in parquet files, best first.
        hub: Where ``neuronal data fetch`` gets it.
        sha256: Checksum of the decoded arrays of the copy this library is tested with.
        contents: The same whatever the order of the rows.
        fitted: Its images have all sizes: the shorter side is scaled to that of ``shape``, and the middle cut out.
    """

    shape: tuple[int, ...]
    num_train: int
    num_test: int
    num_classes: int
    source: str
    place: str = ""
    make: Callable[[], Dataset] | None = None
    classes: tuple[str, ...] = ()
    test_splits: tuple[str, ...] = ("test",)
    hub: Hub | None = None
    sha256: str = ""
    contents: str = ""
    fitted: bool = False

    @property
    def task(self) -> Task:
        return "classification" if self.num_classes else "regression"


@dataclass(frozen=True)
class Found:
    """Where a dataset was found, its files, and the function that reads them."""

    place: Path
    files: Sequence[Path]
    read: Callable[[], Arrays]
    is_images: bool
    """Images are worth keeping once decoded; a table is read as quickly as a copy of it."""

    def __post_init__(self) -> None:
        for file in self.files:
            if not file.is_file():
                raise ValueError(f"{file}: no regular file, but a pipe, a folder or a link to nothing. Remove it.")


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
            how = f"Get it with: neuronal data fetch {name}" if entry.hub else "Put its parquet files there"
            raise MissingData(
                f"dataset {name!r}: there is no {place / split}-*.parquet. {how}, or name another folder with NEURONAL_DATA."
            )
    return _images(entry, place, train, test)


def _images(entry: Entry, place: Path, train: Sequence[Path], test: Sequence[Path]) -> Found:
    known = partial(read_parquet, shape=entry.shape, num_classes=entry.num_classes, fitted=entry.fitted)
    return Found(place, [*train, *test], partial(known, train, test, classes=entry.classes), True)


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


def download(name: str, entry: Entry, root: Path, wrong_in: Callable[[Found], Sequence[str]]) -> list[Path]:
    """Downloads the parquet files of a named set to ``<root>/<name>``; returns them. Nothing else touches the network.

    Files of before are replaced once all new ones are there and ``wrong_in`` finds nothing wrong in them.

    Raises:
        ValueError: In one line, why not: no place to get it from, no network, another set.
        ModuleNotFoundError: ``huggingface_hub`` is not installed.
    """
    if entry.make:
        raise ValueError(f"dataset {name!r} needs no files: it is part of neuronal.")
    folder = root / entry.place
    if not entry.hub:
        what = "table at" if folder.suffix == ".csv" else "parquet files into"
        raise ValueError(f"dataset {name!r} cannot be fetched: put its {what} {folder} by hand.")
    by_hand = f"Or put its parquet files into {folder} by hand."
    with extras():
        from huggingface_hub import snapshot_download
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        raise ValueError(
            f"cannot write to {folder} ({refused.strerror}). Name another folder with NEURONAL_DATA."
        ) from refused
    wanted = [f"{entry.hub.folder}/{split}-*.parquet" for split in ("train", entry.test_splits[0])]
    # Beside the place they go to, so that moving a file there is a rename: it is never seen half copied.
    with _alone(folder), tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as temporary:
        try:
            snapshot_download(entry.hub.repository, repo_type="dataset", allow_patterns=wanted, local_dir=temporary)
        # Without a network the hub's client raises errors of several libraries with no common base.
        except Exception as refused:
            raise ValueError(
                f"cannot fetch {name!r} from huggingface.co/datasets/{entry.hub.repository}: is there a network? "
                f"({type(refused).__name__}: {one_line(refused)}). {by_hand}"
            ) from refused
        there = f"huggingface.co/datasets/{entry.hub.repository}"
        train, test = (sorted(Path(temporary).glob(pattern)) for pattern in wanted)
        if missing := [pattern for pattern, files in zip(wanted, (train, test), strict=True) if not files]:
            raise ValueError(f"{there} has no {' or '.join(missing)}. {by_hand}")
        try:
            wrong = wrong_in(_images(entry, Path(temporary), train, test))
        except ValueError as unfit:
            wrong = [str(unfit).removesuffix(".").replace(f"{temporary}/", "")]
        if wrong:
            raise ValueError(
                f"what {there} has is not {name}: {'; '.join(wrong)}. Files in {folder} are as before. {by_hand}"
            )
        return [file.replace(folder / file.name) for file in (*test, *train)]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Inside: no other process fetches into ``folder``; what killed ones left there is gone."""
    # Not on every system, and needed here only.
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as busy:
            raise ValueError(f"another process is fetching into {folder}. Wait for its end.") from busy
        for left in folder.glob(".fetch-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        os.close(descriptor)
