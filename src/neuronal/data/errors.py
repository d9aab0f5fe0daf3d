"""What is said about files that are missing or cannot be read: the file and the reason, in one line."""

from __future__ import annotations


class MissingData(ValueError):
    """A dataset whose files are not where they are looked for."""


def unreadable(where: str, kind: str, wrong: Exception) -> ValueError:
    """``where`` is not the ``kind`` of file it should be; ``wrong`` is what the library that reads such files said."""
    return ValueError(f"{where}: cannot be read as {kind} ({one_line(wrong)}).")


def one_line(wrong: BaseException) -> str:
    """The message of an error of somebody else's, on one line of readable length."""
    text = " ".join(str(wrong).split()) or type(wrong).__name__
    return (text if len(text) <= 120 else text[:120] + "…").rstrip(".")
