"""Image sets in parquet files, laid out as the hub stores them.

A folder holds ``train-*.parquet`` and ``test-*.parquet``; a row is an encoded image (column ``image`` or ``img``, with
its ``bytes``) and a class number (``label`` or ``fine_label``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from neuronal.core.files import Damaged, parse_json
from neuronal.core.limits import extras
from neuronal.core.words import one_line, times
from neuronal.data.arrays import Arrays
from neuronal.data.errors import unreadable
from neuronal.data.image import decode, header

IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "fine_label")
_ROWS = 1024


def parquet_files(folder: Path, split: str) -> list[Path]:
    return sorted(folder.glob(f"{split}-*.parquet"))


def count_rows(files: Sequence[Path]) -> int:
    """As the files say, without reading a row."""
    return sum(_open(file).metadata.num_rows for file in files)


def read_parquet(
    train: Sequence[Path],
    test: Sequence[Path],
    *,
    shape: tuple[int, ...] | None = None,
    classes: Sequence[str] = (),
    num_classes: int = 0,
    fitted: bool = False,
) -> Arrays:
    """Decodes every image.

    Args:
        train: Files of the training split, in order.
        test: Files of the test split.
        shape: (channels, height, width) that every image must have; that of the first image if left out.
        classes: Names of the classes; if left out, those the file carries, or else their numbers.
        num_classes: How many there are, where nothing names them; if left out, as many as there are labels.
        fitted: Scale the shorter side of every image to that of ``shape`` and cut the middle out.
    """
    shape = shape or _first_shape(train[0])
    (train_x, train_y), (test_x, test_y) = (_read_split(files, shape, fitted) for files in (train, test))
    highest = int(max(train_y.max(), test_y.max()))
    names = tuple(classes) or _class_names(train[0])
    # Without names a label says how many classes there are: one alone must not make more of them than there are rows.
    names = names or tuple(map(str, range(num_classes or min(highest + 1, len(train_y) + len(test_y)))))
    if highest >= len(names):
        raise ValueError(f"{train[0].parent}: has label {highest}, but there are only {len(names)} classes.")
    return Arrays(train_x, train_y, test_x, test_y, names)


def _read_split(files: Sequence[Path], shape: tuple[int, ...], fitted: bool) -> tuple[np.ndarray[Any, Any], ...]:
    tables = [_open(file) for file in files]
    count = sum(table.metadata.num_rows for table in tables)
    if not count:
        raise ValueError(f"{files[0]}: has no rows.")
    x, y = np.empty((count, *shape), dtype=np.uint8), np.empty(count, dtype=np.int64)
    row = 0
    for file, table in zip(files, tables, strict=True):
        start = row
        for encoded, label in _rows(file, table):
            where = f"{file}, row {row - start}"
            pixels = decode(encoded, where, shape[0], shape[-1] if fitted else None)
            if pixels.shape != shape:
                raise ValueError(f"{where}: needs an image of {times(shape)}, got {times(pixels.shape)}.")
            x[row], y[row] = pixels, label
            row += 1
        table.close()
    return x, y


def _rows(file: Path, table: Any) -> Any:
    """Every row as (encoded image, label); a damaged page, an empty cell or a negative label is an error."""
    image, label = _columns(file, table)
    number = 0
    try:
        for batch in table.iter_batches(_ROWS, columns=[image, label]):
            values = batch.to_pydict()
            for cell, given in zip(values[image], values[label], strict=True):
                encoded = cell.get("bytes") if isinstance(cell, dict) else None
                # Text would be taken for a path of this machine.
                if not encoded or not isinstance(encoded, bytes):
                    raise ValueError(f"{file}, row {number}: has no image bytes.")
                if not isinstance(given, int) or not 0 <= given < 2**31:
                    raise ValueError(f"{file}, row {number}: needs a class number from 0 as label, got {given}.")
                yield encoded, given
                number += 1
    except (_arrow().lib.ArrowException, OSError) as wrong:
        raise ValueError(f"{file}: damaged after row {number} ({one_line(wrong)}).") from wrong


def _open(file: Path) -> Any:
    arrow = _arrow()
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(file)
    except (arrow.lib.ArrowException, OSError) as wrong:
        raise unreadable(str(file), "parquet", wrong) from wrong


def _columns(file: Path, table: Any) -> tuple[str, str]:
    names = table.schema_arrow.names
    found = []
    for wanted in (IMAGE_COLUMNS, LABEL_COLUMNS):
        here = [name for name in wanted if name in names]
        if not here:
            raise ValueError(
                f"{file}: needs a column called {' or '.join(wanted)}, got {', '.join(names) or 'no columns'}."
            )
        found.append(here[0])
    return found[0], found[1]


def _first_shape(file: Path) -> tuple[int, int, int]:
    table = _open(file)
    for encoded, _ in _rows(file, table):
        channels, height, width = header(encoded, f"{file}, row 0")
        if height != width:
            raise ValueError(f"{file}, row 0: needs a square image, got {height}x{width}.")
        return channels, height, width
    raise ValueError(f"{file}: has no rows.")


def _class_names(file: Path) -> tuple[str, ...]:
    """The names that the hub's writer leaves in the file; none if it was written by another."""
    table = _open(file)
    try:
        features = parse_json((table.schema_arrow.metadata or {})[b"huggingface"])["info"]["features"]
        names = features[_columns(file, table)[1]]["names"]
        return tuple(map(str, names.values() if isinstance(names, dict) else names))
    except Damaged as wrong:
        raise unreadable(f"{file}, its class names", "JSON", wrong) from wrong
    except (AttributeError, KeyError, TypeError):
        return ()


def _arrow() -> ModuleType:
    with extras():
        import pyarrow
    return pyarrow  # type: ignore[no-any-return]
