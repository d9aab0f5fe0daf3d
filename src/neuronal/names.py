"""Names at the door: what a name stands for, or one line that says which names exist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from typing import TypeVar

__all__ = ["UnknownName", "find", "printable", "unknown"]

T = TypeVar("T")
# Control characters but tab and newline, those that turn the direction of writing, and halves of characters.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class UnknownName(ValueError):
    """A name that stands for nothing; its message names the closest one and all that exist."""


def find(table: Mapping[str, T], name: str, what: str) -> T:
    """The entry of ``table`` called ``name``; ``what`` says in the error what kind of thing was looked for."""
    if name not in table:
        raise UnknownName(unknown(what, name, table))
    return table[name]


def printable(text: str) -> str:
    """Text of a foreign file with a mark for each character that would steer a terminal or break a page."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def unknown(what: str, given: str, existing: Iterable[str]) -> str:
    """One line: what was given, the closest name, what exists."""
    names = sorted(existing)
    close = max(names, key=lambda name: _likeness(given, name), default="")
    hint = f" Did you mean {close!r}?" if _likeness(given, close)[0] >= 0.5 else ""
    return f"Unknown {what} {given!r}.{hint} There are: {', '.join(names) or 'none'}."


def _likeness(given: str, name: str) -> tuple[float, bool]:
    """Share of letters in common; of equals the one that starts alike, as people mistype the end more often."""
    # A value from JSON may be a number.
    given = str(given)
    return SequenceMatcher(None, given.lower(), name.lower()).ratio(), given[:1] == name[:1]
