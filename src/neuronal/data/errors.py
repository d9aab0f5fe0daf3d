"""What is said about files that are missing or cannot be read: the file and the reason, in one line."""

from __future__ import annotations

from neuronal.core.words import one_line


class MissingData(ValueError):
    """A dataset whose files are not where they are looked for."""


def unreadable(where: str, kind: str, wrong: Exception) -> ValueError:
    """``where`` is not the ``kind`` of file it should be; ``wrong`` is what the library that reads such files said."""
    return ValueError(f"{where}: cannot be read as {kind} ({one_line(wrong)}).")
