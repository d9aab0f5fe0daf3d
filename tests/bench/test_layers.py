import json
from pathlib import Path

import pytest

from neuronal.bench import layers
from neuronal.bench.layers import LAYERS, LIMITS, SHAPES, Shape, Timed, growth, measure
from neuronal.cli import app as cli
from neuronal.train.timing import StepTime

SMALL = (Shape(4, 4, 2), Shape(8, 4, 2), Shape(8, 6, 2))


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(layers, "SHAPES", SMALL)
    monkeypatch.setattr(layers, "WIDTHS", (4, 8))


def test_every_layer_at_every_shape_with_its_limit():
    rows = list(measure(rounds=2))
    assert [(row.layer, row.shape) for row in rows] == [(name, shape) for shape in SMALL for name in LAYERS]
    assert all(row.time.ratio == 1 for row in rows if row.layer == "Conv2d")
    assert [row.limit for row in rows if row.layer == "GeometricConv2d"] == [1.10, 1.10, 1.15]
    assert all(len(limits) == len(SHAPES) for limits in LIMITS.values())


def test_growth_is_the_exponent():
    def row(width, seconds):
        return Timed("a", Shape(width, 8, 64), StepTime(seconds, 1, 1, 1), None)

    assert growth([row(128, 1.0), row(16, 7.0), row(256, 4.0)]) == {"a": pytest.approx(2)}


def test_the_command_prints_the_table_and_keeps_numbers_and_figure(capsys):
    assert cli.main(["bench", "layers", "--rounds", "2"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    assert all(name in out for name in LAYERS)
    assert "time grows like width" in out
    kept = json.loads(Path("runs/bench/layers.json").read_text())
    assert kept["environment"]["torch"]
    assert len(kept["table"]) == 15
    assert set(kept["growth"]) == set(LAYERS)
    assert Path("runs/bench/layers.svg").read_text().startswith("<svg")
    assert cli.main(["bench", "layers", "--rounds", "2", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == set(kept)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["bench", "layer"], "Unknown command 'layer'. Did you mean 'layers'?"),
        (["bench", "layers", "--rounds", "1"], "--rounds needs to be at least 2, got 1."),
        (["bench", "layers", "--out", "/proc/nowhere"], "/proc/nowhere"),
    ],
)
def test_mistakes_are_one_line(capsys, words, message):
    assert cli.main(words) in (1, 2)
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
