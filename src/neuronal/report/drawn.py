"""What tables of results look like: a title, columns of text, columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table


def title_of(answer: Mapping[str, Any]) -> str:
    return f"{answer['title']} ({answer['where']}; scale {answer['scale']})"


def columns(title: str, texts: Sequence[str], numbers: Sequence[str]) -> Table:
    """An empty table; numbers stand to the right."""
    drawn = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for head in texts:
        drawn.add_column(head, no_wrap=True)
    for head in numbers:
        drawn.add_column(head, justify="right")
    return drawn
