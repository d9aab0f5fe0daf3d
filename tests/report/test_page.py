import os
import re
import subprocess
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest

from neuronal.core.doctor import browser
from neuronal.data.catalogue import load
from neuronal.experiments.cost import Costs
from neuronal.experiments.record import Failure
from neuronal.experiments.sweep import Study
from neuronal.probes.dead_units import DeadUnits, Layer
from neuronal.report.comparison import Comparison
from neuronal.report.page import page
from neuronal.report.render_html import render_html
from neuronal.train.timing import StepTime

TIMES = {"standard": StepTime(0.001, 1, 1, 1), "zero_bias": StepTime(0.001, 0.97, 0.9, 1.1)}


def draw(study, records):
    steps = {one.fingerprint(): TIMES[one.family] for one in study.variants() if one.family in TIMES}
    return render_html(page(Comparison.from_records(records, study=study, step_times=Costs(steps, {}))))


class Reader(HTMLParser):
    """Collects what a browser would fetch or run, and checks that what is opened is closed."""

    VOID = ("meta", "br", "link", "img", "input")

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.ids = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)
        values = dict(attributes)
        self.fetched += [v for k, v in attributes if k in ("src", "href", "xlink:href") and not v.startswith("#")]
        self.fetched += [tag] if tag in ("script", "iframe", "link") else []
        self.ids += [values["id"]] if "id" in values else []

    def handle_endtag(self, tag):
        assert tag in self.VOID or self.open.pop() == tag


def test_the_page_is_whole_self_contained_and_small(quick_study, quick_records):
    text = draw(quick_study, quick_records)
    reader = Reader()
    reader.feed(text)
    assert not reader.open
    assert not reader.fetched
    assert len(reader.ids) == len(set(reader.ids)) > 0
    assert "@import" not in text
    assert len(text.encode()) < 1_500_000
    assert 'name="viewport"' in text


def test_the_page_shows_what_was_measured(quick_study, quick_records):
    text = draw(quick_study, quick_records)
    for title in ("Contrast", "Zero image", "Training loss", "Held-out accuracy"):
        assert f"<h3>{title}</h3>" in text
    for record in quick_records:
        assert f"{100 * record.metrics['accuracy']:.2f}%" in text
        assert record.environment["commit"] in text
    assert '"lr": 0.01' in unescape(text)
    assert "0.97×" in text
    assert draw(quick_study, quick_records) == text


def test_the_best_is_marked_and_dead_units_are_means(quick_study, quick_records):
    layers = [(Layer("relu", 10, dead),) for dead in (1, 5, 2, 5)]
    records = [
        replace(r, probes={**r.probes, "dead_units": DeadUnits(10, own[0].dead, own)})
        for r, own in zip(quick_records, layers, strict=True)
    ]
    text = draw(quick_study, records)
    assert '<td class="best">15.0 ± 5.0</td>' in text
    assert "<td>1.5</td><td>15.0</td><td>1, 2</td>" in text
    assert "<td>5.0</td><td>50.0</td><td>5, 5</td>" in text


def test_text_from_outside_is_escaped(quick_study, quick_records, monkeypatch):
    evil = "<script>alert('$x$')</script>&"
    data = load("digits")
    data = replace(data, name=evil, classes=(evil, *data.classes[1:]), source=evil)
    monkeypatch.setattr("neuronal.report.comparison.load", lambda name: data)
    recipe = replace(quick_study.recipe, name=evil, model=evil)
    records = [
        replace(r, recipe=replace(r.recipe, family=evil + r.recipe.family), environment={evil: evil})
        for r in quick_records
    ]
    failed = replace(records[0], seed=7, failure=Failure(1, 0.1, evil), metrics={}, probes={})
    text = draw(Study(recipe, (evil + "standard", evil + "zero_bias")), [*records, failed])
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    Reader().feed(text)


def test_failed_cells_are_shown(quick_study, quick_records):
    failed = replace(quick_records[0], metrics={}, probes={}, failure=Failure(7, 0.1, "the loss became nan at step 7"))
    text = draw(quick_study, [failed, *quick_records[1:]])
    assert text.count("the loss became nan at step 7") == 2
    assert "1 epoch," not in text
    assert "failed: 1" in text
    draw(quick_study, [failed])


@pytest.mark.parametrize("probes", [(), ("contrast",), ("dead_units",)])
def test_a_page_without_some_probes(quick_study, quick_records, probes):
    bare = [replace(r, probes={name: r.probes[name] for name in probes}) for r in quick_records]
    text = draw(quick_study, bare)
    assert ("<h3>Contrast</h3>" in text) == ("contrast" in probes)
    assert ("Not measured." in text) == ("dead_units" not in probes)


CHROMIUM = browser()


@pytest.mark.skipif(not CHROMIUM, reason="needs chromium on the PATH")
@pytest.mark.parametrize("width", [390, 1200])
def test_a_browser_shows_it_without_sideways_scrolling(quick_study, quick_records, tmp_path, width):
    """A wide table scrolls in its own box; the page itself must fit a phone."""
    text = draw(quick_study, quick_records)
    # A frame gives the page the width of a phone: headless windows have a least width of their own.
    report = "document.title = [d.scrollWidth, d.clientWidth, f.contentDocument.querySelectorAll('figure svg').length]"
    (tmp_path / "report.html").write_text(text)
    (tmp_path / "frame.html").write_text(
        f'<iframe id="f" src="report.html" style="width:{width}px;height:900px;border:0"></iframe><script>'
        f"const f = document.getElementById('f');"
        f"f.onload = () => {{ const d = f.contentDocument.documentElement; {report}; }};</script>"
    )
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--allow-file-access-from-files", "--virtual-time-budget=5000"]
    command = [CHROMIUM, *flags, "--dump-dom", (tmp_path / "frame.html").as_uri()]
    home = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=home)
    found = re.search(r"<title>(\d+),(\d+),(\d+)</title>", done.stdout)
    assert found, done.stdout[:500] + done.stderr[-500:]
    scroll, client, figures = map(int, found.groups())
    assert client == width
    assert scroll <= client
    assert figures == 4
