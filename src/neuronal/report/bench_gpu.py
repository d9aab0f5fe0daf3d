"""What ``neuronal bench gpu`` measured, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from neuronal.bench.gpu.row import Row
from neuronal.bench.gpu.sections import Outcome

MET = {True: "yes", False: "no", None: ""}


def section_table(outcome: Outcome) -> Group:
    """The table of a section; below it, why limits are not kept, and the error it ended with."""
    return Group(*_section(outcome))


def verdict(outcomes: Sequence[Outcome]) -> str:
    """One line: limits kept, sections that failed, seconds in all."""
    judged = [row.met for outcome in outcomes for row in outcome.rows if row.met is not None]
    failed = [outcome.name for outcome in outcomes if outcome.error]
    kept = f"{sum(judged)} of {len(judged)} limits kept"
    broken = f"; failed: {', '.join(failed)}" if failed else ""
    return f"{kept}{broken}; {sum(outcome.seconds for outcome in outcomes):.0f} seconds in all"


def _section(outcome: Outcome) -> Iterator[RenderableType]:
    if outcome.rows:
        yield _table(outcome)
    else:
        yield Text(f"{outcome.name} ({outcome.seconds:.0f} s): nothing measured")
    for row in outcome.rows:
        if row.note and row.met is not True:
            yield Text(f"  {row.name}: {row.note}")
    if outcome.error:
        yield Text(f"  {outcome.name} ended early. {outcome.error}", style="red")
    yield Text()


def _table(outcome: Outcome) -> Table:
    title = f"{outcome.name} ({outcome.seconds:.0f} s): {outcome.about}"
    drawn = Table(title=escape(title), box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    drawn.add_column("")
    columns = list(dict.fromkeys(column for row in outcome.rows for column in row.shown))
    for head in ("measured", "limit", "met"):
        drawn.add_column(head, justify="right", no_wrap=True)
    drawn.add_column("")
    for head in columns:
        drawn.add_column(head, justify="right", overflow="fold")
    for row in outcome.rows:
        further = (number(row.shown[column]) if column in row.shown else "" for column in columns)
        drawn.add_row(escape(row.name), _measured(row), _limit(row), MET[row.met], row.unit, *further)
    return drawn


def _measured(row: Row) -> str:
    text = "none" if row.measured is None else number(row.measured)
    return f"[red]{text}[/]" if row.met is False else f"[green]{text}[/]" if row.met else text


def _limit(row: Row) -> str:
    return "" if row.limit is None else f"{'≥' if row.at_least else '≤'} {row.limit:g}"


def number(value: float | str) -> str:
    """Whole numbers in full, others with the digits that matter."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if value == 0 or abs(value) >= 0.1:
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"
    return f"{value:.2g}"
