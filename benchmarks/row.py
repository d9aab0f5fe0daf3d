"""One line of a benchmark: what was measured, and what was set as its limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from benchmarks.timing import Interval, Setting, Timed


@dataclass(frozen=True)
class Row:
    """What was measured.

    Args:
        name: Of its own within a suite.
        measured: None where it could not be measured; ``error`` says why.
        unit: Of what was measured, and of the limit.
        limit: The most it may be.
        ms: Median milliseconds, where ``measured`` is a ratio.
        notes: Further numbers.
        error: Why it could not be measured, or why the number means nothing.
    """

    name: str
    measured: Interval | None
    unit: str
    limit: float | None = None
    ms: float | None = None
    notes: Mapping[str, float | str] = field(default_factory=dict)
    error: str = ""

    @property
    def is_kept(self) -> bool | None:
        """Whether the median keeps the limit; None without a limit."""
        if self.limit is None:
            return None
        return self.measured is not None and not self.error and self.measured.median <= self.limit

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "kept": self.is_kept}


class Case(Protocol):
    """Something to measure; a suite is a list of them."""

    @property
    def name(self) -> str: ...

    def rows(self, setting: Setting) -> Iterator[Row]:
        """Measures."""
        ...


def ratio_row(
    name: str,
    timed: Timed,
    baseline: str,
    limit: float | None = None,
    *,
    repeats: int = 1,
    error: str = "",
    **notes: float | str,
) -> Row:
    """The ratio to a baseline, with the milliseconds of one of ``repeats`` steps."""
    ms = 1e3 * timed.seconds.median / repeats
    return Row(name, timed.ratio, f"x {baseline}", limit, ms, notes, error)
