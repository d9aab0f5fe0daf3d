"""Tables as values: a title, columns that say how a row fills them, and the rows as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


def field_of(row: object, name: str) -> Any:
    """A field of a record, or a value of a mapping; ``None`` where it has no such."""
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)


@dataclass(frozen=True)
class Column:
    """One column.

    Args:
        head: What stands above it.
        cell: The field, or key, of a row whose value is shown, or a function of the row.
        format: How a value that is not text is written; a missing or ``None`` value is a dash.
        is_text: Text stands to the left, numbers to the right.
    """

    head: str
    cell: str | Callable[[Any], Any]
    format: str = ""
    is_text: bool = False

    def text(self, row: object) -> str:
        """The cell of a row, which is a record or a mapping."""
        value = field_of(row, self.cell) if isinstance(self.cell, str) else self.cell(row)
        return "–" if value is None else format(value, self.format)


@dataclass(frozen=True)
class Table:
    """Rows of text below a title; the first ``num_texts`` columns are text, the others numbers.

    ``marks`` say which cells stand out, by row and column: as the ``best`` or as ``failed``.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    num_texts: int
    caption: str = ""
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)


def table(title: str, columns: Sequence[Column], rows: Iterable[object], caption: str = "") -> Table:
    """The rows as the columns show them; columns of text come first."""
    columns = sorted(columns, key=lambda column: not column.is_text)
    cells = tuple(tuple(column.text(row) for column in columns) for row in rows)
    num_texts = sum(column.is_text for column in columns)
    return Table(title, tuple(column.head for column in columns), cells, num_texts, caption)
