"""Files that are whole or not there at all, and JSON that knows when it was damaged."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Damaged(ValueError):
    """A file that is not what was written; the message says in what way."""


def write_whole(path: Path, text: str) -> None:
    """Puts ``text`` into a temporary file beside ``path`` and renames it: readers see the old file or the new one."""
    descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files for the owner alone; a result is for everybody the folder is for.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException as wrong:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(wrong, OSError):
            # A full disk does not say which file it has no room for, a rename names the temporary one.
            wrong.filename = str(path)
        raise


def plain_json(values: Any, indent: str = "") -> str:
    """JSON to be read by people too: a line per value, but lists of numbers on one; no NaN."""
    inner = indent + " "
    if isinstance(values, Mapping) and values:
        rows = [f"{inner}{json.dumps(name)}: {plain_json(value, inner)}" for name, value in values.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(values, list | tuple) and any(isinstance(value, Mapping) for value in values):
        return "[\n" + ",\n".join(inner + plain_json(value, inner) for value in values) + f"\n{indent}]"
    return json.dumps(values, allow_nan=False)


def write_sealed(path: Path, values: Any) -> None:
    """JSON with a checksum of its own, by which :func:`read_sealed` knows that nothing was lost or changed."""
    sealed = {"sha256": _checksum(values), "values": values}
    write_whole(path, json.dumps(sealed, indent=1, allow_nan=False) + "\n")


def read_sealed(path: Path) -> Any:
    """What :func:`write_sealed` wrote; ``Damaged`` if the file is anything else, ``OSError`` if it cannot be read."""
    try:
        sealed = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as wrong:
        raise Damaged(f"not JSON ({wrong})") from wrong
    if not isinstance(sealed, dict) or set(sealed) != {"sha256", "values"}:
        raise Damaged("not a file of neuronal's (no checksum)")
    if sealed["sha256"] != _checksum(sealed["values"]):
        raise Damaged("its checksum does not fit its contents")
    return sealed["values"]


def set_aside(path: Path, why: str = "damaged") -> Path:
    """Renames a file so that a new one can take its place and the old one is not lost; returns the new name."""
    free = next(new for n in range(1, 10**6) if not (new := path.with_suffix(f".{why}{n}")).exists())
    return path.rename(free)


def make_writable(folder: Path) -> None:
    """Makes ``folder`` if need be and makes sure that files can be written there; ``OSError`` if not."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix=".", dir=folder):
        pass


def _checksum(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
