"""Records to what people look at: a table in the terminal, figures, one page."""

from neuronal.core.limits import extras

with extras():
    from neuronal.report.document import Block, Bullets, Code, Document, Figures, Section, Text
    from neuronal.report.figures import COLOURS, MARKERS, Figure, Sheet, blank, colour, plain_numbers
    from neuronal.report.render_html import render_html
    from neuronal.report.render_markdown import render_markdown
    from neuronal.report.render_terminal import print_blocks, rich_table
    from neuronal.report.tables import Column, Table, field_of, table

__all__ = [
    "COLOURS",
    "MARKERS",
    "Block",
    "Bullets",
    "Code",
    "Column",
    "Document",
    "Figure",
    "Figures",
    "Section",
    "Sheet",
    "Table",
    "Text",
    "blank",
    "colour",
    "field_of",
    "plain_numbers",
    "print_blocks",
    "render_html",
    "render_markdown",
    "rich_table",
    "table",
]
