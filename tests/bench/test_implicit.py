import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from neuronal.bench import implicit
from neuronal.bench.implicit import Case, Measured, exponent, peak_memory
from neuronal.cli import app as cli
from neuronal.train.timing import StepTime

BOTH = (Case(2, 1, 2, 8, -0.5, 15.0), Case(2, 1, 2, 8, 0.05, 8.0))


def test_the_exponent_is_that_of_the_time_per_row():
    def one(side):
        batch = 4096 // side**2
        return Measured(Case(batch, 3, 8, side, -0.5, None), StepTime(batch * side**3, 1, 1, 1), 0.5, 0, 1, 0, {})

    assert exponent([one(side) for side in (4, 8, 16, 32)]) == pytest.approx(1.5)


def test_the_command_prints_times_and_residuals(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(implicit, "CASES", (*BOTH, replace(BOTH[0], limit=None, iterations=1)))
    monkeypatch.setattr(implicit, "SIDES", (4, 8))
    assert cli.main(["bench", "implicit", "--rounds", "2"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    assert "2, 1->2, 8x8, -0.5" in out
    kept = json.loads(Path("runs/bench/implicit.json").read_text())
    assert [row["case"]["coupling"] for row in kept["table"]] == [-0.5, 0.05, -0.5]
    assert [row["case"]["iterations"] for row in kept["table"]] == [0, 0, 1]
    assert "2, 1->2, 8x8, -0.5, once" in out
    assert all(0 < row["residual"] <= 1e-4 for row in kept["table"])
    assert "exponent" in kept
    for row in kept["table"]:
        assert row["memory"] > 0
        assert sum(row["spent"].values()) == pytest.approx(1)
        assert row["spent"]["convolution"] > 0


def test_peak_memory_counts_what_is_there_at_once():
    def action():
        for _ in range(3):
            one = torch.empty(1000, dtype=torch.float64)
            two = torch.empty(500, dtype=torch.float64)
            del one, two

    assert peak_memory(action, torch.device("cpu")) == pytest.approx(12_000, abs=500)
