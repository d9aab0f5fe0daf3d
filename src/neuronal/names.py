"""Names at the door: what a name stands for, or one line that says which names exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")


class UnknownName(ValueError):
    """A name that stands for nothing; its message names the closest one and all that exist."""


def find(table: Mapping[str, T], name: str, what: str) -> T:
    """The entry of ``table`` called ``name``; ``what`` says in the error what kind of thing was looked for."""
    if name not in table:
        raise UnknownName(unknown(what, name, table))
    return table[name]


def unknown(what: str, given: str, existing: Iterable[str]) -> str:
    """One line: what was given, the closest name, what exists."""
    names = sorted(existing)
    close = get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"Unknown {what} {given!r}.{hint} There are: {', '.join(names) or 'none'}."
