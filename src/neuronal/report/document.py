"""What is shown to people, as a value: a document of sections, which terminal, Markdown and HTML renderers draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neuronal.report.figures import Figure
from neuronal.report.tables import Table


@dataclass(frozen=True)
class Text:
    """A paragraph. Of Markdown it may have ``code`` and **strong** words; ``is_soft`` is for what stands behind."""

    text: str
    is_soft: bool = False


@dataclass(frozen=True)
class Bullets:
    """Sentences, one below the other."""

    items: Sequence[str]


@dataclass(frozen=True)
class Code:
    """Lines that are shown as they are."""

    text: str


@dataclass(frozen=True)
class Figures:
    """Figures side by side where there is room."""

    figures: Sequence[Figure]


Block = Text | Bullets | Code | Table | Figures


@dataclass(frozen=True)
class Section:
    """A titled part of a document; files of its figures are called by its ``name``."""

    title: str
    blocks: Sequence[Block]
    name: str = ""


@dataclass(frozen=True)
class Document:
    """A title, what comes first, the sections, and a last line."""

    title: str
    blocks: Sequence[Block]
    sections: Sequence[Section] = ()
    footer: str = ""
