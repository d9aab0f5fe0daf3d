"""Datasets by name, or by path."""

from __future__ import annotations

import os
from pathlib import Path

from neuronal.data.cache import kept
from neuronal.data.dataset import Dataset
from neuronal.data.entry import DATASETS
from neuronal.data.found import Found, found_at, found_by_name
from neuronal.data.place import data_root
from neuronal.names import find

__all__ = ["DATASETS", "load"]


def load(name: str, root: str | Path | None = None) -> Dataset:
    """The dataset called ``name``, or the one at the path ``name``.

    Args:
        name: One of ``DATASETS``; or a folder (``train/<class>/*.png`` and ``test/<class>/*.png``, or one level of
            class folders, or ``train-*.parquet`` and ``test-*.parquet``); or a csv table with the answer in its last
            column.
        root: The folder of the named sets; if left out, ``NEURONAL_DATA``, or the user's cache folder.

    Raises:
        ValueError: One line: an unknown name with those that exist, where a missing set was looked for and how to get
            it, or which file is damaged and why.
    """
    if name in DATASETS and (make := DATASETS[name].make):
        return make()
    found = locate(name, root)
    label = label_of(name)
    arrays = kept(label, found.files, found.read) if found.is_images else found.read()
    source = DATASETS[name].source if name in DATASETS else f"Own data, {label}."
    return arrays.dataset(label, source)


def locate(name: str, root: str | Path | None = None) -> Found:
    """The files of a set that has files; errors as :func:`load`."""
    if name not in DATASETS and is_path(name):
        return found_at(Path(name).expanduser())
    return found_by_name(name, find(DATASETS, name, "dataset"), data_root(root))


def is_path(name: str) -> bool:
    """Whether ``name``, which is no dataset's, means a file or folder."""
    looks_so = os.sep in name or "/" in name or name.endswith(".csv") or name in (".", "..")
    return name not in DATASETS and (looks_so or (name != "" and Path(name).exists()))


def label_of(name: str) -> str:
    """What a dataset is called in titles and names of folders: its name, or the last part of its path."""
    return name if name in DATASETS else Path(name).expanduser().resolve().name.removesuffix(".csv") or "data"
