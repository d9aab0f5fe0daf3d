"""Implicit blocks on a GPU, as far as it can be told without one: a tiny block, and the cases."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from neuronal.bench.gpu import implicit
from neuronal.bench.gpu.ceilings import Setting
from neuronal.bench.gpu.implicit import CASES, BlockCase, special_functions
from neuronal.train.recording import NotCapturable

RESULTS = Path(__file__).parents[2] / "results/bench/gpu_h200.json"
CPU = Setting(torch.device("cpu"), 2)
TINY = BlockCase("tiny", 2, 3, 10, 3)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(implicit, "CASES", (TINY,))
    monkeypatch.setattr(implicit, "REPEATS", 1)


def test_the_cases_are_those_of_the_networks():
    stages = [(case.channels, case.side) for case in CASES if case.name.startswith("ResNet")]
    assert stages == [(64, 32), (128, 16), (256, 8), (512, 4)]
    assert {case.batch for case in CASES if case.name.startswith("UCN")} == {128}


@pytest.mark.parametrize(("units", "most"), [(16, 10), (64, 10), (256, 100), (1024, 100)])
def test_long_rows_need_few_special_functions(units, most):
    """Pair by pair it would be one per unit and unit, in every step."""
    assert 0 < special_functions(units, 2.0) <= 3 * units * min(units + 1, most * 1000 / units)


def test_the_record_has_every_case():
    sections = {section["name"]: section["rows"] for section in json.loads(RESULTS.read_text())["sections"]}
    known = [row["name"] for row in sections["implicit"]]
    assert [name for name in known if "," not in name] == [case.name for case in CASES if case.limit]
    assert set(known) <= {case.name for case in CASES}
    assert all(row["block"]["converged"] == 1.0 for row in sections["implicit"])


def test_a_block_is_measured_both_ways(tiny):
    (row,) = implicit.rows(CPU)
    assert (row.name, row.limit) == ("tiny", 2.5)
    assert row.measured == row.data["block"]["time"]["ratio"]
    assert row.shown["eager"] == row.data["block"]["eager"]["ratio"]
    assert row.shown["bytes %"] > 0
    assert row.shown["special %"] > 0
    assert row.data["block"]["converged"] == 1.0
    json.dumps(row.to_json())


def test_every_step_has_an_input_of_its_own():
    block, out = torch.nn.Linear(3, 2, bias=False), torch.randn(4, 2)
    inputs = [torch.randn(4, 3, requires_grad=True) for _ in range(2)]
    action = implicit.steps(block, inputs, out)
    for _ in range(2):
        action()
        assert all(torch.allclose(x.grad, out @ block.weight) for x in inputs)
        assert torch.allclose(block.weight.grad, out.T @ inputs[1])


def test_a_case_has_the_same_inputs_every_time(tiny, monkeypatch):
    monkeypatch.setattr(implicit, "REPEATS", 3)
    seen = []
    monkeypatch.setattr(implicit, "steps", lambda block, inputs, out: seen.append(inputs) or (lambda: None))
    for _ in range(2):
        list(implicit.rows(CPU))
    first, again = seen[0], seen[2]
    assert len(first) == 3
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("kind", [{"spread": 4.0}, {"iterations": 1}])
def test_other_kinds_of_a_block_have_no_limit(tiny, monkeypatch, kind):
    monkeypatch.setattr(implicit, "CASES", (replace(TINY, **kind),))
    (row,) = implicit.rows(CPU)
    assert (row.limit, row.met) == (None, None)
    assert row.measured > 0
    assert row.shown["solve ms"] > 0
    assert row.shown["gradient ms"] > 0


def test_a_block_that_cannot_be_recorded_says_why(tiny, monkeypatch):
    def refused(action, device):
        raise NotCapturable("RuntimeError: it waits")

    monkeypatch.setattr(implicit, "captured", refused)
    (row,) = implicit.rows(CPU)
    assert (row.measured, row.met) == (None, False)
    assert row.note == "no CUDA graph of the block: RuntimeError: it waits"
    assert row.shown["eager"] > 0
