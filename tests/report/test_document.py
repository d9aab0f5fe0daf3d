"""One document, three renderers: each shows every block, and none takes foreign text for markup."""

from html import unescape
from io import StringIO

import pytest
from rich.console import Console

from neuronal.report import (
    Bullets,
    Code,
    Document,
    Figure,
    Figures,
    Section,
    Table,
    Text,
    print_blocks,
    render_html,
    render_markdown,
)

NUMBERS = Table("Numbers", ("name", "value"), (("a", "1.5"), ("b", "2.5")), 1, "In metres", {(1, 1): "best"})
OTHER = Table("Others", ("name",), (("c",),), 1)
CURVE = Figure('<svg width="4"><path/></svg>', "Curve", "It rises.")
BLOCKS = [Text("Run by `neuronal`, **holds**."), Bullets(["one", "two"]), NUMBERS, OTHER, Code("{}"), Figures([CURVE])]
DOCUMENT = Document("Title", [Text("First.", is_soft=True)], [Section("Part", BLOCKS, "part")], "Data: here.")


def test_markdown_has_every_block_and_names_the_files_of_figures():
    text, files = render_markdown(DOCUMENT)
    assert text == (
        "# Title\n\nFirst.\n\n## Part\n\nRun by `neuronal`, **holds**.\n\n- one\n- two\n\n"
        "| name | value |\n|---|---:|\n| a | 1.5 |\n| b | 2.5 |\n\nIn metres.\n\n"
        "**Others**\n\n| name |\n|---|\n| c |\n\n```\n{}\n```\n\n"
        "![Curve](figures/part-1.svg)\n\nCurve: It rises.\n\nData: here.\n"
    )
    assert files == {"figures/part-1.svg": CURVE.svg}


def test_html_has_every_block():
    text = render_html(DOCUMENT)
    parts = ["<h1>Title</h1>", '<p class="soft">First.</p>', "<h2>Part</h2>"]
    parts += ["<p>Run by <code>neuronal</code>, <strong>holds</strong>.</p>", "<ul><li>one</li><li>two</li></ul>"]
    # The first table has the title of the section.
    parts += ['<th class="text">name</th><th>value</th>', '<td class="text">b</td><td class="best">2.5</td>']
    parts += ['<p class="soft">In metres.</p>', "<h3>Others</h3>", "<pre>{}</pre>"]
    parts += ['<h3>Curve</h3><svg role="img" aria-label="It rises." width="4">', "<figcaption>It rises.</figcaption>"]
    parts += ["<footer><p>Data: here.</p></footer>"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "<h3>Numbers</h3>" not in text


def test_a_terminal_shows_tables_and_text():
    console = Console(width=80, record=True, file=StringIO())
    print_blocks(console, BLOCKS)
    lines = console.export_text()
    for part in ("Numbers", "2.5", "In metres", "- one", "{}", "Others"):
        assert part in lines
    assert "svg" not in lines


EVIL = "<b onclick='x'>[red]</b> & `<i>` **<u>**"


@pytest.mark.parametrize("where", ["title", "text", "item", "cell", "head", "caption", "code", "footer", "figure"])
def test_foreign_text_is_no_markup(where):
    own = dict.fromkeys(("title", "text", "item", "cell", "head", "caption", "code", "footer", "figure"), "")
    own[where] = EVIL
    table = Table(own["title"], (own["head"],), ((own["cell"] or 60 * "-",),), 1, own["caption"])
    figure = Figure("<svg></svg>", own["figure"], own["figure"])
    blocks = [Text(own["text"]), Bullets([own["item"]]), table, Code(own["code"]), Figures([figure])]
    page = render_html(Document(own["title"], blocks, [Section(own["title"], blocks)], own["footer"]))
    for tag in ("<b ", "<i>", "<u>"):
        assert tag not in page
    assert "<b onclick='x'>[red]</b>" in unescape(page)
    console = Console(width=200, record=True, file=StringIO())
    print_blocks(console, blocks)
    shown = console.export_text()
    assert where in ("footer", "figure") or "[red]" in shown


def test_a_figure_says_for_those_who_cannot_see_it_what_is_in_it():
    page = render_html(Document("T", [Figures([Figure("<svg></svg>", "F", 'a "quoted" word')])]))
    assert 'aria-label="a &quot;quoted&quot; word"' in page
