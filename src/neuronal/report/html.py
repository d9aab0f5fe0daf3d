"""The pieces every page is made of: self-contained HTML that opens from disk and reads well on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from neuronal.names import printable
from neuronal.report.figures import Drawing

__all__ = ["bullets", "document", "figures", "table"]

STYLE = """
:root { color-scheme: light; --ink: #1d2530; --soft: #5b6673; --line: #d9dee5; --mark: #eaf4ee; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 1.2rem 1rem 4rem; color: var(--ink); background: #fff;
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .4rem 0; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-top: 1px solid var(--line); padding-top: 1.2rem; }
p, li { max-width: 46rem; }
.soft, figcaption, footer { color: var(--soft); font-size: .9rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid var(--ink); font-weight: 600; }
td, th { white-space: nowrap; }
thead th { white-space: normal; }
.summary td:nth-child(2) { white-space: normal; text-align: left; }
.summary th:nth-child(2) { text-align: left; }
td.best { background: var(--mark); font-weight: 600; }
td.failed { color: #a4262c; }
.left th, .left td, td.failed { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem 2rem; }
figure { margin: 0; max-width: 40rem; }
figure h3 { font-size: 1rem; margin: .6rem 0 0; }
figure svg { width: 100%; height: auto; }
pre { overflow-x: auto; background: #f6f7f9; padding: .8rem; border-radius: .4rem; font-size: .85rem; }
"""


class Markup(str):
    """Text that is HTML already."""


def document(title: str, parts: Sequence[str]) -> str:
    """A whole page."""
    return printable(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def bullets(sentences: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """Text is escaped; a cell that is a whole ``<td>`` already comes as ``Markup``."""
    cells = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join("<tr>" + "".join(_cell(text) for text in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table class="{kind}"><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    return text if isinstance(text, Markup) else f"<td>{escape(text)}</td>"


def figure(drawing: Drawing) -> str:
    svg = drawing.svg.replace("<svg", f'<svg role="img" aria-label="{escape(drawing.caption)}"', 1)
    caption = f"<figcaption>{escape(drawing.caption)}</figcaption>"
    return f"<figure><h3>{escape(drawing.title)}</h3>{svg}{caption}</figure>"


def figures(drawings: Sequence[Drawing]) -> str:
    """Side by side where there is room."""
    return '<div class="figures">' + "".join(map(figure, drawings)) + "</div>"
