"""One line of ``neuronal bench gpu``: what was measured, and its limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """What was measured, and what was set as its limit.

    Args:
        name: Of its own within a section.
        measured: None where it could not be; the note says why.
        unit: Of what was measured, and of the limit.
        limit: The most it may be; or, with ``at_least``, the least.
        at_least: See ``limit``.
        note: What is known about why it is as it is.
        shown: Further columns of the table.
        data: Further numbers, for the file alone.
    """

    name: str
    measured: float | None
    unit: str
    limit: float | None = None
    at_least: bool = False
    note: str = ""
    shown: Mapping[str, float | str] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the limit is kept; None without a limit."""
        if self.limit is None:
            return None
        if self.measured is None:
            return False
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "measured": self.measured,
            "unit": self.unit,
            "limit": self.limit,
            "at_least": self.at_least,
            "met": self.met,
            "note": self.note,
            **self.shown,
            **self.data,
        }
