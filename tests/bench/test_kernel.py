"""Tangent kernels beside plain Jacobians: the same numbers, side by side, and the command."""

import json

import pytest
import torch
from rich.console import Console
from torch import nn

from neuronal.bench import kernel
from neuronal.bench.gpu import ntk
from neuronal.bench.gpu.ceilings import Setting
from neuronal.bench.kernel import PLAIN, Case, contracted, measure
from neuronal.cli import app as cli
from neuronal.report.bench import kernel_table

SMALL = (
    Case("fcn", {"widths": (5,)}, (1, 4), 3, 2**20, ("jacobian", "structured")),
    Case("resnet9", {"width": 1, "norm": "batch"}, (1, 8), 2, 1),
)


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(kernel, "CASES", SMALL)
    monkeypatch.setattr(ntk, "CASES", tuple((case, kernel.DTYPES) for case in SMALL))


def test_the_plain_way_is_a_sum_over_gradients():
    model, x = nn.Linear(3, 2).double(), torch.randn(4, 3, dtype=torch.float64)
    # Outputs share no parameter: x.x' + 1 on the diagonal of outputs, 0 off it.
    inner = x @ x.T + 1
    torch.testing.assert_close(contracted(model, x), inner[:, :, None, None] * torch.eye(2, dtype=torch.float64))


def test_every_method_in_both_precisions():
    rows = list(measure(rounds=2))
    assert [(row.method, row.dtype) for row in rows[:6]] == [
        (method, dtype) for dtype in ("float32", "float64") for method in (PLAIN, "jacobian", "structured")
    ]
    assert all(row.difference < (1e-5 if row.dtype == "float32" else 1e-13) for row in rows)
    assert all(row.time.ratio == 1 for row in rows if row.method == PLAIN)


def test_the_section_of_the_device():
    rows = list(ntk.rows(Setting(torch.device("cpu"), 2)))
    assert rows[1].name == "fcn 5, 3 inputs, 0.000976562 GiB, float32: jacobian"
    assert rows[1].shown["allowed GiB"] == 2**-10
    assert len({row.name for row in rows}) == len(rows)
    json.dumps([row.to_json() for row in rows])


def test_the_command_prints_the_table_and_keeps_the_numbers(capsys):
    assert cli.main(["bench", "kernel", "--rounds", "2", "--out", "here"]) == 0
    out = capsys.readouterr().out
    assert "structured" in out
    assert "…" not in out
    with open("here/kernel.json") as file:
        kept = json.load(file)
    assert len(kept["table"]) == 10
    assert cli.main(["bench", "kernel", "--rounds", "2", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == set(kept)


def test_the_table_fits_a_terminal(monkeypatch):
    monkeypatch.undo()
    rows = [
        kernel.Timed(case, method, "float64", kernel.StepTime(0.01, 1.2, 1.1, 1.3), 3e-7, 0)
        for case in kernel.CASES
        for method in (PLAIN, *case.methods)
    ]
    console = Console(width=80, record=True)
    console.print(kernel_table(rows))
    assert "…" not in console.export_text()
