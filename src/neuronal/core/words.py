"""Numbers in sentences."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int | str, what: str) -> str:
    """``1 seed``, ``3 seeds``, ``3 or 4 seeds``."""
    return f"{count} {what}" + ("" if str(count) == "1" else "s")
