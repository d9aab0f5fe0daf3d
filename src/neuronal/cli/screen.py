"""Where tables are printed."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape as without_markup

from neuronal.names import printable

__all__ = ["escape", "screen"]

WIDE = 200


def escape(text: str) -> str:
    """Text of a foreign file for a console: neither markup nor codes of the terminal."""
    return without_markup(printable(text))


def screen() -> Console:
    """As wide as the terminal; what goes to a file or another program is wide enough for every column."""
    console = Console()
    return console if console.is_terminal else Console(width=max(WIDE, console.width))
