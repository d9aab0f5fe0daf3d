"""Files that are whole or not there at all, with a checksum that shows when one was damaged. Nothing is ever unpickled."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuronal.core.checksum import checksum
from neuronal.core.limits import extras

# JSON files are read by commands that do not wait for torch.
if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Damaged", "json_checksum", "make_writable", "plain_json", "read_json", "replacing", "write_whole"]


class Damaged(ValueError):
    """A file that is not what was written; the message says in what way."""


class Unreadable(OSError):
    """A file that is there and may not be read."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a free place beside ``path`` for a new file or folder, and renames it to ``path`` in the end.

    Readers see the old one or the new one; after an error the old one is still there and the new one is gone.

    Raises:
        OSError: With ``path`` as its ``filename``, whichever file the system had no room for.
    """
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.stem[:50]}-", suffix=".partial", dir=path.parent))
    try:
        yield (new := temporary / "new")
        if new.is_file():
            sync(new)
        os.replace(new, path)
    except OSError as wrong:
        wrong.filename = str(path)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, text: str) -> None:
    """Writes ``text`` to ``path`` atomically."""
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8")


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
    sealed = {"sha256": json_checksum(values), "values": values}
    write_whole(path, json.dumps(sealed, indent=1, allow_nan=False) + "\n")


def parse_json(text: str | bytes) -> Any:
    """The values in JSON from a file; ``Damaged`` for any other text, and for lists in lists without end.

    Whole numbers have 64 bits at most: larger ones are no float, and end whatever computes with them.
    """
    try:
        return json.loads(text, parse_int=_of_64_bits)
    except (ValueError, RecursionError) as wrong:
        raise Damaged(f"not JSON ({wrong})") from wrong


def _of_64_bits(digits: str) -> int:
    if not -(2**63) <= (number := int(digits)) < 2**64:
        raise ValueError(f"a whole number of {len(digits)} digits")
    return number


def check_readable(path: Path) -> None:
    """``Damaged`` for a pipe, say, from which reading might never end; ``Unreadable`` for what may not be read."""
    if path.exists() and not path.is_file():
        raise Damaged("no regular file")
    try:
        path.open("rb").close()
    except FileNotFoundError:
        raise
    except OSError as wrong:
        raise Unreadable(wrong.errno, wrong.strerror, str(path)) from wrong


def read_json(path: Path) -> Any:
    """The values in a JSON file; ``Damaged`` if it is anything else, ``OSError`` if it cannot be read."""
    check_readable(path)
    return parse_json(path.read_bytes())


def read_sealed(path: Path) -> Any:
    """What :func:`write_sealed` wrote; ``Damaged`` if the file is anything else, ``OSError`` if it cannot be read."""
    sealed = read_json(path)
    if not isinstance(sealed, dict) or set(sealed) != {"sha256", "values"}:
        raise Damaged("not a file of neuronal's (no checksum)")
    if sealed["sha256"] != json_checksum(sealed["values"]):
        raise Damaged("its checksum does not fit its contents")
    return sealed["values"]


def json_checksum(values: Any) -> str:
    """SHA-256 of values as JSON, whatever the order of their names."""
    return checksum(json.dumps(values, sort_keys=True))


def write_tensors(path: Path, kind: str, header: str, tensors: Mapping[str, Tensor]) -> None:
    """Writes tensors to a safetensors file atomically, with a header and a checksum of both.

    Args:
        path: The file.
        kind: The name in the file's metadata that holds the header; another kind of file is not read by mistake.
        header: Any text, in JSON say.
        tensors: By name; no two may share memory.

    Raises:
        OSError: It could not be written; a file that was there before is as it was.
    """
    with extras():
        from safetensors import SafetensorError
        from safetensors.torch import save_file

    with replacing(path) as new:
        try:
            save_file(dict(tensors), new, metadata={kind: header, "sha256": tensor_checksum(header, tensors)})
        except SafetensorError as refused:
            raise OSError(errno.EIO, str(refused)) from refused
        _sort_metadata(new)


def _sort_metadata(path: Path) -> None:
    """Writes the header's metadata in the order of their names: safetensors' own order changes from run to run."""
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        # The same characters in another order: nothing else moves.
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        assert len(text) <= size
        file.seek(8)
        file.write(text.ljust(size))


def read_tensors(path: Path, kind: str, *, old: bool = False) -> tuple[str, dict[str, Tensor]]:
    """Header and tensors that :func:`write_tensors` wrote; ``Damaged`` if the file is anything else.

    Args:
        path: The file.
        kind: As it was written.
        old: Read files without a checksum too, which were written before there was one.
    """
    with extras():
        from safetensors import SafetensorError, safe_open

    try:
        check_readable(path)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except Unreadable:
        raise
    except (SafetensorError, OSError, RuntimeError, Damaged) as wrong:
        # It is opened twice; in between a file can go, which torch calls a RuntimeError.
        raise Damaged(f"{path} is not a whole safetensors file ({wrong}).") from wrong
    if (header := metadata.get(kind)) is None:
        raise Damaged(f"{path} has no {kind!r} in its header: neuronal did not write it for this use.")
    expected = tensor_checksum(header, tensors)
    if metadata.get("sha256", expected if old else None) != expected:
        raise Damaged(f"{path} is damaged (its checksum does not fit its contents).")
    return header, tensors


def tensor_checksum(header: str, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of the header, and of the names and bytes of all tensors, in the order of their names."""
    return checksum(header, *(part for name in sorted(tensors) for part in (name, tensors[name])))


def set_aside(path: Path, why: str = "damaged") -> Path:
    """Renames a file so that a new one can take its place and the old one is not lost; returns the new name."""
    free = next(new for n in range(1, 10**6) if not (new := path.with_suffix(f".{why}{n}")).exists())
    return path.rename(free)


def below(place: str) -> str:
    """``place`` if it names a folder below another one."""
    parts = Path(place).parts
    if not parts or Path(place).is_absolute() or ".." in parts or not place.isprintable():
        raise ValueError(f"name needs to be that of a folder below out, got {place!r}.")
    return place


def make_writable(folder: Path) -> None:
    """Makes ``folder`` if need be and makes sure that files can be written there; ``OSError`` if not."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix=".", dir=folder):
        pass
