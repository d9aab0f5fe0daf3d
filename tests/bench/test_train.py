import json
from copy import deepcopy
from pathlib import Path

import pytest
import torch

from neuronal.bench import train
from neuronal.bench.train import Case, bare_loop, measure
from neuronal.cli import app as cli
from neuronal.data.dataset import Split
from neuronal.models.registry import create_model
from neuronal.train.loop import fit
from neuronal.train.optim import Plan


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(train, "CASES", (Case(40, 8, 16),))


def test_both_loops_do_the_same_steps():
    split = Split(torch.rand(40, 1, 8, 8), torch.randint(10, (40,)))
    model = create_model("cnn", "standard", num_classes=10, in_chans=1, img_size=8)
    plan = Plan(epochs=1, batch_size=16, optim="sgd", lr=0.01)
    one, other = deepcopy(model), deepcopy(model)
    (epoch,) = fit(one, split, plan).epochs
    assert bare_loop(other, split, plan) == pytest.approx((epoch.loss, epoch.accuracy))
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a.cpu(), b.cpu())


def test_a_row_per_case():
    (row,) = measure(rounds=2)
    assert row.case.num_steps == 3
    assert row.limit == 1.05
    assert row.time.ratio > 0


def test_the_command_prints_the_table_and_keeps_the_numbers(capsys):
    assert cli.main(["bench", "train", "--rounds", "2"]) == 0
    assert "40 of 8x8, 16" in capsys.readouterr().out
    kept = json.loads(Path("runs/bench/train.json").read_text())
    assert kept["table"][0]["case"] == {"images": 40, "side": 8, "batch": 16}
    assert cli.main(["bench", "train", "--rounds", "2", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == set(kept)
