"""What certificates cost: the table is made of real certificates, on networks trained for it."""

import json

import pytest
import torch

from neuronal.bench import certify
from neuronal.bench.certify import Timed, Work
from neuronal.cli.app import main
from neuronal.report.bench import certify_table

SEGMENTS = Work("segments", "digits", "fcn", {"widths": (8,)}, 6, 0.5, "ms per segment")
EXACT = Work("exact", "digits", "cnn", {"widths": (2, 4)}, 1, 10.0, "s per segment")
ALL = Work("pairs", "digits", "fcn", {"widths": (8,)}, 5, 20.0, "s for all")


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(certify, "WORKS", (SEGMENTS, EXACT, ALL))
    patterns = certify.patterns
    monkeypatch.setattr(certify, "patterns", lambda: patterns(images=20, rounds=2))


def test_every_line_is_measured(short):
    rows = list(certify.measure())
    names = [row.name for row in rows if "memory" not in row.name]
    assert names == ["segments", "exact", "pairs", "activation patterns of a CNN"]
    assert all(row.cost > 0 for row in rows if row.name in names)
    assert rows[0].certified + rows[0].refuted + rows[0].unknown == rows[0].count == 6
    assert rows[1].count == 1


def test_pairs_are_of_one_class_and_right():
    from neuronal.data.catalogue import load

    data = load("digits")
    model = certify._trained(SEGMENTS, data)
    a, b = certify._same_class(model, data.test, 20)
    with torch.no_grad():
        assert torch.equal(model.eval()(a).argmax(1), model(b).argmax(1))
    assert not (a == b).flatten(1).all(1).any()


def test_what_is_over_its_limit_is_red():
    rows = [Timed("slow", 1, 2.0, 1.0, "s"), Timed("fast", 1, 0.5, 1.0, "s", certified=3)]
    cells = list(certify_table(rows).columns[2].cells)
    assert cells == ["[red]2.00[/]", "0.50"]
    assert list(certify_table(rows).columns[0].cells)[1] == "fast: 3/0/0"


def test_the_command_writes_its_numbers(short, tmp_path, capsys):
    assert main(["bench", "certify", "--out", str(tmp_path)]) == 0
    assert "segments" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "certify.json").read_text())["table"]) in (4, 5)
