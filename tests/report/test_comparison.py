"""A comparison: its rows are what was measured, and it shows itself in text, in a notebook and on a page."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from neuronal.experiments.record import Failure
from neuronal.report.comparison import Comparison


def failing(record, reason="the loss became nan"):
    return replace(record, seed=7, metrics={}, probes={}, failure=Failure(7, 0.1, reason))


def test_rows_are_flat_and_have_the_same_columns(quick_records):
    rows = Comparison.from_records([*quick_records, failing(quick_records[0])]).rows()
    assert len({tuple(row) for row in rows}) == 1
    plain = {"neuron": str, "seed": int, "finished": str}
    assert all(
        isinstance(row[name], plain.get(name, float | int)) for row in rows[:-1] for name in rows[0] if row[name]
    )
    for row, record in zip(rows, quick_records, strict=False):
        assert (row["neuron"], row["seed"]) == (record.recipe.family, record.seed)
        assert row["accuracy"] == record.metrics["accuracy"]
        assert row["lowest"] == min(record.probes["contrast"].accuracy)
        dead = record.probes["dead_units"]
        assert row["dead"] * dead.units == pytest.approx(dead.dead)
        assert row["failure"] is None
    assert (rows[-1]["failure"], rows[-1]["accuracy"], rows[-1]["seed"]) == ("the loss became nan", None, 7)


def test_the_best_neuron_of_a_metric(quick_records):
    accuracies = [0.8, 0.9, 0.8, 0.9]
    records = [
        replace(record, metrics={**record.metrics, "accuracy": accuracy, "parameters": 1 - accuracy})
        for record, accuracy in zip(quick_records, accuracies, strict=True)
    ]
    assert Comparison.from_records(records).best("accuracy").family == "zero_bias"
    assert Comparison.from_records([failing(records[0])]).best("accuracy") is None
    lower = [replace(r, metrics={"rmse": r.metrics["accuracy"], "parameters": 1}, probes={}) for r in records]
    assert Comparison.from_records(lower).best("rmse").family == "standard"


def test_text_has_the_table_and_the_findings(quick_records, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    comparison = Comparison.from_records(quick_records)
    lines = str(comparison).splitlines()
    assert lines[0].strip() == comparison.title == "fcn on digits, 2 seeds"
    assert lines[-len(comparison.findings) :] == [f"- {sentence}" for sentence in comparison.findings]
    assert [line.split()[0] for line in lines if line.split() and line.split()[0] in ("standard", "zero_bias")]
    assert "\x1b" not in str(comparison)
    assert repr(comparison) == "<Comparison of standard, zero_bias: fcn on digits, 2 seeds>"


class Cells(HTMLParser):
    """The text of the cells of all tables, and of the items of all lists."""

    def __init__(self):
        super().__init__()
        self.texts, self.tags = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.texts += [""] if tag in ("td", "li") else []

    def handle_data(self, data):
        if self.texts:
            self.texts[-1] += data


def test_a_notebook_shows_the_same_and_foreign_names_are_text(quick_records):
    evil = "<script>alert(1)</script>&"
    records = [replace(r, recipe=replace(r.recipe, family=evil + r.recipe.family)) for r in quick_records]
    comparison = Comparison.from_records([*records, failing(records[0], evil)])
    html = comparison._repr_html_()
    cells = Cells()
    cells.feed(html)
    assert "script" not in cells.tags
    assert "html" not in cells.tags
    assert "title" not in cells.tags
    texts = [text.strip() for text in cells.texts]
    assert f"{evil}standard (1 failed)" in texts
    assert f"{evil}zero_bias" in texts
    for sentence in comparison.findings:
        assert sentence in texts
    assert f"<h3>{comparison.title}</h3>" in html


def test_what_is_missing_is_said(quick_study, quick_records):
    assert not [line for line in Comparison.from_records(quick_records).findings if "not finished" in line]
    partly = Comparison.from_records(quick_records[:3], study=quick_study)
    assert partly.findings[0] == "1 of 4 cells are not finished."


def test_a_page_needs_a_place(quick_records, tmp_path):
    comparison = Comparison.from_records(quick_records)
    with pytest.raises(ValueError, match="write_page needs a path, got none"):
        comparison.write_page()
    file = comparison.write_page(tmp_path / "new" / "page.html")
    assert file == tmp_path / "new" / "page.html"
    assert file.read_text().startswith("<!doctype html>")
