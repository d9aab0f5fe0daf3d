"""A document as one self-contained HTML page: opens from disk, needs no network, reads well on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from html import escape

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from neuronal.names import printable
from neuronal.report.document import Block, Document
from neuronal.report.figures import Figure


def render_html(document: Document) -> str:
    """The page. All text is escaped; figures are SVG of our own."""
    return printable(_templates().get_template("page.html").render(document=document) + "\n")


def render_part(blocks: Iterable[Block]) -> str:
    """Blocks without a page around them, as a notebook shows them; the first table has its title too."""
    return printable(str(_templates().get_template("blocks.html").module.blocks(list(blocks), 1)))  # type: ignore[attr-defined]


@cache
def _templates() -> Environment:
    environment = Environment(loader=PackageLoader("neuronal.report"), autoescape=True)
    environment.filters |= {
        "inline": _inline,
        "kind": lambda block: type(block).__name__,
        "labelled": _labelled,
        "sentence": lambda text: text if text.endswith(".") else f"{text}.",
    }
    return environment


def _inline(text: str) -> Markup:
    """Escaped text with the two marks of Markdown that a paragraph may have."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return Markup(re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", marked))


def _labelled(drawing: Figure) -> Markup:
    """The SVG, with its caption for those who cannot see it."""
    return Markup(drawing.svg.replace("<svg", f'<svg role="img" aria-label="{escape(drawing.caption)}"', 1))
