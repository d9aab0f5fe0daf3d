"""Blocks of a document on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from io import StringIO
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape as without_markup
from rich.table import Table as RichTable
from rich.text import Text as RichText

from neuronal.names import printable
from neuronal.report.document import Block, Bullets, Code, Figures, Text
from neuronal.report.tables import Table

STYLES = {"best": "bold", "failed": "red"}
"""What marks of cells look like."""


def print_blocks(console: Console, blocks: Iterable[Block]) -> None:
    """Prints what a terminal can show; figures are left out."""
    for block in blocks:
        match block:
            case Table():
                console.print(rich_table(block))
            case Bullets(items=items):
                for item in items:
                    console.print(f"- {without_markup(printable(item))}", highlight=False)
            case Text(text=text) | Code(text=text):
                console.print(without_markup(printable(text)), highlight=False)
            case Figures():
                pass


def render_text(blocks: Iterable[Block]) -> str:
    """What :func:`print_blocks` prints, without colours, as wide as the terminal."""
    console = Console(file=(text := StringIO()), color_system=None, force_jupyter=False)
    print_blocks(console, blocks)
    return text.getvalue().rstrip("\n")


def rich_table(table: Table) -> RichTable:
    """The table for a terminal."""
    # As text, in which brackets are brackets.
    title, caption = (RichText(printable(words)) if words else None for words in (table.title, table.caption))
    rich = RichTable(title=title, caption=caption, box=SIMPLE_HEAD, pad_edge=False)
    rich.title_justify = rich.caption_justify = "left"
    rich.title_style = "bold"
    has_numbers = table.num_texts < len(table.head)
    for number, head in enumerate(table.head):
        # What is too long goes on below, but for the name of a row of numbers.
        justify: Literal["left", "right"] = "left" if number < table.num_texts else "right"
        rich.add_column(
            RichText(printable(head)), no_wrap=number == 0 and has_numbers, justify=justify, overflow="fold"
        )
    for number, row in enumerate(table.rows):
        rich.add_row(
            *(
                RichText(printable(cell), STYLES.get(table.marks.get((number, place), ""), ""))
                for place, cell in enumerate(row)
            )
        )
    return rich
