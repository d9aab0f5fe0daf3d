"""A document as one self-contained HTML page: opens from disk, needs no network, reads well on a phone."""

from __future__ import annotations

import re
from functools import cache
from html import escape

from jinja2 import Environment, PackageLoader, Template
from markupsafe import Markup

from neuronal.names import printable
from neuronal.report.document import Document
from neuronal.report.figures import Figure


def render_html(document: Document) -> str:
    """The page. All text is escaped; figures are SVG of our own."""
    return printable(_template().render(document=document) + "\n")


@cache
def _template() -> Template:
    environment = Environment(loader=PackageLoader("neuronal.report"), autoescape=True)
    environment.filters |= {
        "inline": _inline,
        "kind": lambda block: type(block).__name__,
        "labelled": _labelled,
        "sentence": lambda text: text if text.endswith(".") else f"{text}.",
    }
    return environment.get_template("page.html")


def _inline(text: str) -> Markup:
    """Escaped text with the two marks of Markdown that a paragraph may have."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return Markup(re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", marked))


def _labelled(drawing: Figure) -> Markup:
    """The SVG, with its caption for those who cannot see it."""
    return Markup(drawing.svg.replace("<svg", f'<svg role="img" aria-label="{escape(drawing.caption)}"', 1))
