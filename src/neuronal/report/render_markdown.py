"""A document in Markdown, with the files of its figures."""

from __future__ import annotations

from collections.abc import Sequence

from neuronal.report.document import Block, Bullets, Code, Document, Text
from neuronal.report.tables import Table


def render_markdown(document: Document) -> tuple[str, dict[str, str]]:
    """The text, and the SVG of its figures by the names it has for them, beside it."""
    files: dict[str, str] = {}
    parts = [f"# {document.title}", *_blocks(document.blocks, "figure", files)]
    for section in document.sections:
        parts += [f"## {section.title}", *_blocks(section.blocks, section.name, files)]
    return "\n\n".join(filter(None, [*parts, document.footer])) + "\n", files


def _blocks(blocks: Sequence[Block], name: str, files: dict[str, str]) -> list[str]:
    parts, num_tables, num_figures = list[str](), 0, 0
    for block in blocks:
        match block:
            case Text(text=text):
                parts.append(text)
            case Bullets(items=items):
                parts.append("\n".join(f"- {item}" for item in items))
            case Code(text=text):
                parts.append(f"```\n{text}\n```")
            case Table():
                # The first has the title of the section.
                parts += [f"**{block.title}**" if num_tables and block.title else "", table(block)]
                parts.append(block.caption and f"{block.caption}.")
                num_tables += 1
            case _:
                for drawing in block.figures:
                    num_figures += 1
                    file = f"figures/{name}-{num_figures}.svg"
                    files[file] = drawing.svg
                    parts += [f"![{drawing.title}]({file})", drawing.caption and f"{drawing.title}: {drawing.caption}"]
    return parts


def table(table: Table) -> str:
    """A table; numbers stand to the right, but the first column names the row, whatever it holds."""
    rules = ["---" if number < max(1, table.num_texts) else "---:" for number in range(len(table.head))]
    head, *rows = ["| " + " | ".join(row) + " |" for row in (table.head, *table.rows)]
    return "\n".join([head, f"|{'|'.join(rules)}|", *rows])
