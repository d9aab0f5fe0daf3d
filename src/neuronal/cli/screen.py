"""Where tables are printed."""

from __future__ import annotations

from rich.console import Console

__all__ = ["screen"]

WIDE = 200


def screen() -> Console:
    """As wide as the terminal; what goes to a file or another program is wide enough for every column."""
    console = Console()
    return console if console.is_terminal else Console(width=max(WIDE, console.width))
