"""What can be told of datasets, as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neuronal.data.catalogue import is_path, load, locate
from neuronal.data.entry import DATASETS, Entry
from neuronal.data.errors import MissingData
from neuronal.names import find


def summary(root: str | Path | None = None) -> list[dict[str, Any]]:
    """One row per named set; reads no data."""
    return [
        {
            "data": name,
            "shape": _times(entry.shape),
            "train": entry.num_train,
            "test": entry.num_test,
            "classes": entry.num_classes,
            "where": _where(name, entry, root),
        }
        for name, entry in DATASETS.items()
    ]


def about(name: str, root: str | Path | None = None) -> dict[str, Any]:
    """Everything known of one set; of one whose files are not there, what its authors state and how to get it."""
    entry = None if is_path(name) else find(DATASETS, name, "dataset")
    try:
        where = "built in" if entry and entry.make else str(locate(name, root).place)
    except MissingData as gone:
        if entry is None:
            raise
        told: dict[str, Any] = {"data": name, "task": entry.task, "shape": _times(entry.shape)}
        counts = {"train": entry.num_train, "test": entry.num_test, "classes": list(entry.classes) or entry.num_classes}
        return told | counts | {"source": entry.source, "where": str(gone)}
    data = load(name, root)
    told = {"data": data.name, "task": data.task, "shape": _times(data.shape)}
    counts = {"train": len(data.train), "test": len(data.test), "classes": list(data.classes) or 0}
    return told | counts | {"source": data.source, "where": where}


def _where(name: str, entry: Entry, root: str | Path | None) -> str:
    if entry.make:
        return "built in"
    try:
        return str(locate(name, root).place)
    except MissingData:
        return "not here, can be fetched" if entry.hub else "not here"


def _times(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
