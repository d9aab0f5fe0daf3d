"""Decoded arrays, kept in files so that images are decoded once.

An entry is a folder of four ``.npy`` files and ``seal.json``, which holds a checksum of them. Its name is made of the
source files' names, sizes and times: a changed source is another entry. It is written under another name first and
renamed when it is whole.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from neuronal.core.checksum import checksum
from neuronal.core.files import Damaged, json_checksum, read_json, replacing
from neuronal.core.folders import cache_root
from neuronal.core.words import one_line
from neuronal.data.arrays import Arrays

_PARTS = ("train_x", "train_y", "test_x", "test_y")
# To be raised when a reader changes what it makes of the same files.
_VERSION = 1


def kept(name: str, files: Sequence[Path], read: Callable[[], Arrays]) -> Arrays:
    """What ``read`` makes of ``files``: from the cache if it is there and whole, memory-mapped; else read and kept."""
    folder = cache_root() / entry_name(name, files)
    if folder.exists():
        try:
            return _load(folder)
        except (Damaged, OSError) as wrong:
            warnings.warn(f"{folder}: damaged ({wrong}); made anew from its source.", stacklevel=2)
            shutil.rmtree(folder, ignore_errors=True)
    arrays = read()
    try:
        _save(arrays, folder)
        return _load(folder)
    except (Damaged, OSError) as refused:
        reason = getattr(refused, "strerror", None) or refused
        warnings.warn(
            f"{folder.parent}: decoded {name} cannot be kept there ({reason}); NEURONAL_CACHE names another folder.",
            stacklevel=2,
        )
        return arrays


def entry_name(name: str, files: Sequence[Path]) -> str:
    """Folder of a set's entry below the cache."""
    return f"{name[:100]}-{json_checksum([_VERSION, stamps(files)])[:16]}"


def stamps(files: Sequence[Path]) -> tuple[tuple[str, int, int], ...]:
    """Path, size and time of each file: what changes when a file does."""
    return tuple((str(file.resolve()), (stat := file.stat()).st_size, stat.st_mtime_ns) for file in files)


def array_checksum(arrays: Arrays) -> str:
    """SHA-256 of shapes, types and values."""
    every = [getattr(arrays, part) for part in _PARTS]
    return checksum(*(part for values in every for part in (f"{values.shape}{values.dtype.str}", values)))


def contents(arrays: Arrays) -> str:
    """SHA-256 of the rows of both splits, inputs with their answers, whatever their order."""
    parts: list[str | bytes] = []
    for x, y in ((arrays.train_x, arrays.train_y), (arrays.test_x, arrays.test_y)):
        rows = sorted(checksum(one, answer.tobytes()) for one, answer in zip(x, y, strict=True))
        parts += [f"{x.shape}{x.dtype.str}{y.dtype.str}", bytes.fromhex("".join(rows))]
    return checksum(*parts)


def _sealed(arrays: Arrays) -> str:
    """Checksum of all that an entry holds."""
    return json_checksum([array_checksum(arrays), arrays.classes, arrays.note])


def _load(folder: Path) -> Arrays:
    try:
        seal = read_json(folder / "seal.json")
        # Copy on write: torch wants memory it may write to, and nobody's writing must reach the file.
        parts = {part: np.load(folder / f"{part}.npy", mmap_mode="c", allow_pickle=False) for part in _PARTS}
        arrays = Arrays(**parts, classes=tuple(seal["classes"]), note=seal["note"])
        expected = seal["sha256"]
    except (ValueError, KeyError, TypeError, EOFError) as wrong:
        raise Damaged(one_line(wrong)) from wrong
    if _sealed(arrays) != expected:
        raise Damaged("its checksum does not fit its contents")
    return arrays


def _save(arrays: Arrays, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with replacing(folder) as new:
            new.mkdir()
            for part in _PARTS:
                np.save(new / f"{part}.npy", getattr(arrays, part), allow_pickle=False)
            seal = {"sha256": _sealed(arrays), "classes": arrays.classes, "note": arrays.note}
            (new / "seal.json").write_text(json.dumps(seal), encoding="utf-8")
    except OSError:
        # Another process was faster: its entry is the same as ours.
        if not (folder / "seal.json").exists():
            raise
