"""Records to what people look at: a table in the terminal, figures, one page."""

from neuronal.core.limits import extras

with extras():
    from neuronal.report.figures import COLOURS, MARKERS, Drawing, Sheet, blank, colour, plain_numbers
    from neuronal.report.tables import Column, Table, rich_table, table

__all__ = [
    "COLOURS",
    "MARKERS",
    "Column",
    "Drawing",
    "Sheet",
    "Table",
    "blank",
    "colour",
    "plain_numbers",
    "rich_table",
    "table",
]
