"""Numbers, shapes and other people's errors in sentences."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["counted", "one_line", "times"]


def counted(count: int | str, what: str) -> str:
    """``1 seed``, ``3 seeds``, ``3 or 4 seeds``."""
    return f"{count} {what}" + ("" if str(count) == "1" else "s")


def times(shape: Iterable[int]) -> str:
    """``3x32x32``."""
    return "x".join(map(str, shape))


def one_line(wrong: BaseException) -> str:
    """The message of an error of somebody else's, on one line of readable length."""
    text = " ".join(str(wrong).split()) or type(wrong).__name__
    return (text if len(text) <= 200 else text[:200] + "…").rstrip(".")
