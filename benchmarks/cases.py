"""What a benchmark measures, and the line that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from benchmarks.timing import Action, Interval, Setting, Timed, compare
from neuronal.core.words import one_line

Notes = Mapping[str, float | str]


@dataclass(frozen=True)
class Row:
    """What was measured.

    Args:
        name: Of its own within a suite.
        measured: None where it could not be measured; ``error`` says why.
        unit: Of what was measured, and of the limit.
        limit: The most it may be.
        ms: Median milliseconds of a step, where ``measured`` is a ratio.
        baseline_ms: Those of what it is compared with.
        notes: Further numbers.
        error: Why it could not be measured, or why its number means nothing.
    """

    name: str
    measured: Interval | None
    unit: str
    limit: float | None = None
    ms: float | None = None
    baseline_ms: float | None = None
    notes: Notes = field(default_factory=dict)
    error: str = ""

    @property
    def verdict(self) -> str:
        """The limit is ``"kept"`` or ``"exceeded"`` if the whole interval says so, ``"open"`` if it contains the limit."""
        if self.limit is None:
            return ""
        if self.error or self.measured is None:
            return "not measured"
        if self.measured.high <= self.limit:
            return "kept"
        return "exceeded" if self.measured.low > self.limit else "open"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}


def ratio_row(name: str, timed: Timed, unit: str, steps: int = 1, **others: Any) -> Row:
    """The ratio of an action of so many steps to its baseline; ``others`` are of :class:`Row`."""
    ms, baseline_ms = (1e3 * time.median / steps for time in (timed.seconds, timed.baseline))
    return Row(name, timed.ratio, unit, ms=ms, baseline_ms=baseline_ms, **others)


class Case(Protocol):
    """Something to measure; a suite is a list of them."""

    @property
    def name(self) -> str: ...

    def rows(self, setting: Setting) -> Iterator[Row]:
        """Measures."""
        ...


@dataclass(frozen=True)
class Prepared:
    """Actions that are ready to be timed; ``notes`` and ``error`` are of every row."""

    actions: Mapping[str, Action]
    notes: Notes = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Comparison:
    """Actions beside a baseline, a row for each.

    Args:
        name: Of its own within a suite.
        baseline: The name of the plain action.
        prepare: Makes the actions.
        limits: What actions may cost, as a multiple of the baseline.
        steps: Steps that every action takes.
        images: Images of a step, for images per second.
    """

    name: str
    baseline: str
    prepare: Callable[[Setting], Prepared]
    limits: Mapping[str, float] = field(default_factory=dict)
    steps: int = 1
    images: int = 0

    def rows(self, setting: Setting) -> Iterator[Row]:
        prepared, ready = self.prepare(setting), dict[str, Action]()
        names, unit = {name: f"{self.name}: {name}" for name in prepared.actions}, f"x {self.baseline}"
        for name, action in prepared.actions.items():
            try:
                action()
                ready[name] = action
            except Exception as error:
                if name == self.baseline:
                    raise
                # What fails is a line of the table, and not the end of it.
                reason = f"{type(error).__name__}: {one_line(error)}"
                yield Row(names[name], None, unit, self.limits.get(name), error=reason)
        for name, timed in compare(ready, self.baseline, setting).items():
            speed = {"images/s": self.images * self.steps / timed.seconds.median} if self.images else {}
            others = {"limit": self.limits.get(name), "notes": {**prepared.notes, **speed}, "error": prepared.error}
            yield ratio_row(names[name], timed, unit, self.steps, **others)
