import json
from copy import deepcopy
from pathlib import Path
from time import sleep

import pytest
import torch

from neuronal.bench import train
from neuronal.bench.train import Case, bare_loop, measure, measure_preparation, measure_watched, prepare
from neuronal.cli import app as cli
from neuronal.data.dataset import Dataset, Split
from neuronal.models.registry import create_model
from neuronal.probes.hinge_motion import HingeMotion
from neuronal.train.loop import fit
from neuronal.train.optim import Plan


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(train, "CASES", (Case(40, 8, 16),))
    monkeypatch.setattr(train, "IMAGES", 300)
    monkeypatch.setenv("NEURONAL_DATA", str(tmp_path))


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


def test_preparation_is_what_an_epoch_does_to_its_data(monkeypatch):
    """The same rows as floats, in the same order, as a network sees in training."""
    split = Split(torch.randint(256, (40, 1, 8, 8), dtype=torch.uint8), torch.randint(10, (40,)))
    model = create_model("cnn", "standard", num_classes=10, in_chans=1, img_size=8)
    seen, prepared = [], []
    model.register_forward_pre_hook(lambda _, x: seen.append(x[0].cpu()))
    fit(model, split, Plan(epochs=1, batch_size=16, optim="sgd", lr=0.01))
    monkeypatch.setattr(train, "void", lambda pair: prepared.append(pair[0]))
    prepare(split, 16)
    assert len(seen) == len(prepared) == 3
    assert all(torch.equal(a, b) for a, b in zip(seen, prepared, strict=True))


@pytest.mark.parametrize("missing", [True, False])
def test_the_images_are_fashion_mnists_where_they_are(monkeypatch, missing):
    if not missing:
        images = Split(torch.randint(256, (300, 1, 12, 12), dtype=torch.uint8), torch.randint(10, (300,)))
        monkeypatch.setattr(train, "load", lambda _: Dataset("fashion_mnist", images, images, ("a",) * 10, ""))
    found = measure_preparation(rounds=2)
    assert found.source == ("made up, as fashion_mnist is not here" if missing else "fashion_mnist")
    assert (found.case.images, found.case.side) == (300, 28 if missing else 12)
    assert found.time.seconds > 0


def test_the_command_prints_the_table_and_keeps_the_numbers(capsys):
    assert cli.main(["bench", "train", "--rounds", "2"]) == 0
    out = capsys.readouterr().out
    assert "40 of 8x8, 16" in out
    assert "300 of 28x28, 128" in out
    assert "made up, as fashion_mnist is not here" in " ".join(out.split())
    kept = json.loads(Path("runs/bench/train.json").read_text())
    assert kept["preparation"]["limit"] == 0.1
    assert 0 < kept["preparation"]["time"]["ratio"] < 1
    assert kept["table"][0]["case"] == kept["watched"][0]["case"] == {"images": 40, "side": 8, "batch": 16}
    assert kept["watched"][0]["limit"] == 1.05
    assert [line.split()[0] for line in out.splitlines() if "of 8x8" in line or "of 28x28" in line] == [
        *("fit", "watched", "data")
    ]
    assert cli.main(["bench", "train", "--rounds", "2", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == set(kept)


def test_watching_boundaries_is_timed_against_not_watching(monkeypatch):
    """A probe that sleeps makes the step as much longer, whatever the machine is busy with besides."""

    class Slow(HingeMotion):
        def _look(self):
            sleep(0.2)
            super()._look()

    monkeypatch.setattr(train, "HingeMotion", Slow)
    found = measure_watched(Case(16, 8, 8), rounds=2)
    assert found.limit == 1.05
    # Nine looks: before the first step, and after each of two in four epochs.
    assert found.time.seconds > 9 * 0.2 / 4
    assert found.time.ratio > 2
