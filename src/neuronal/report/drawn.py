"""What tables of results look like: a title, columns of text, columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table


def title_of(answer: Mapping[str, Any]) -> str:
    return f"{answer['title']} ({answer['where']}; scale {answer['scale']})"


def columns(title: str, texts: Sequence[str], numbers: Sequence[str], caption: str = "") -> Table:
    """An empty table; numbers stand to the right, ``caption`` below."""
    drawn = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left", caption_justify="left")
    drawn.caption = caption or None
    for head in texts:
        drawn.add_column(head, no_wrap=True)
    for head in numbers:
        drawn.add_column(head, justify="right")
    return drawn


END_OF_LIST = "; ↑ ↓ the largest, or smallest, of the rates tried: beyond it there may be a better one"
"""What a caption adds where a rate has such a mark."""


def end_of_list(rate: float, tried: Sequence[float]) -> str:
    """A mark for a tuned rate that had others on one side only."""
    if len(tried) < 2 or min(tried) < rate < max(tried):
        return ""
    return " ↑" if rate >= max(tried) else " ↓"


def cells(drawn: Table) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table of the terminal, for pages."""
    columns = [list(map(str, column.cells)) for column in drawn.columns]
    return [str(column.header) for column in drawn.columns], [list(row) for row in zip(*columns, strict=True)]
