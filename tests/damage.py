"""What happens to files, and to disks."""

from __future__ import annotations

from pathlib import Path


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-50])


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def no_space(*_: object, **__: object) -> None:
    """In the place of any function that writes."""
    raise OSError(28, "No space left on device")
