"""Which data choices go by: held-out training data, or, where a recipe says so by name, the test data."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
import torch

from neuronal.cli import app as cli
from neuronal.data.catalogue import load
from neuronal.experiments.recipe import PROTOCOLS
from neuronal.experiments.record import read, write
from neuronal.experiments.run import check, run
from neuronal.report.comparison import Comparison
from neuronal.train.log import read_log

run_module = import_module("neuronal.experiments.run")


@pytest.fixture
def stopping(quick):
    return replace(quick, epochs=6, lr=0.1, keep_best=True, cut_after=1, probes=())


@pytest.fixture
def other_test(monkeypatch):
    """Test images that are noise."""
    data = load("digits")
    noise = torch.rand(data.test.stored.shape, generator=torch.Generator().manual_seed(0))
    changed = replace(data, test=replace(data.test, stored=noise))
    monkeypatch.setattr(run_module, "load", lambda _: changed)


def test_clean_training_does_not_look_at_the_test_data(stopping, request):
    record = run(stopping, 0)
    assert not [name for name in record.epochs[0] if "test" in name]
    request.getfixturevalue("other_test")
    changed = run(stopping, 0)
    assert changed.epochs == record.epochs
    assert changed.metrics["best_epoch"] == record.metrics["best_epoch"]
    assert changed.metrics["accuracy"] != record.metrics["accuracy"]


def test_published_training_goes_by_the_test_data_and_says_so(stopping, request, tmp_path):
    published = replace(stopping, protocol="published", holdout=0)
    record = run(published, 0)
    losses = [row["test_loss"] for row in record.epochs]
    assert record.metrics["best_epoch"] == 1 + losses.index(min(losses))
    # Two sums of the same numbers.
    assert record.metrics["loss"] == pytest.approx(min(losses), rel=1e-5)
    said = "go by the TEST data"
    assert said in write(record, tmp_path).read_text()
    assert read(next(tmp_path.iterdir())) == replace(record, recipe=replace(record.recipe, seeds=(record.seed,)))
    assert Comparison.from_records([record]).findings[0] == f"Protocol published: {PROTOCOLS['published']}."
    request.getfixturevalue("other_test")
    assert run(published, 0).epochs != record.epochs


def test_what_is_clean_needs_held_out_data(stopping):
    with pytest.raises(ValueError, match="keep_best go by held-out images, got holdout 0"):
        check(replace(stopping, holdout=0))
    check(replace(stopping, holdout=0, protocol="published"))
    with pytest.raises(ValueError, match=r"Unknown protocol 'publish'. Did you mean 'published'\?"):
        check(replace(stopping, protocol="publish"))


def test_choices_by_the_training_data_need_no_holdout(quick):
    recipe = replace(quick, data="levy", holdout=0.0, protocol="training", epochs=4, probes=())
    record = run(replace(recipe, cut_after=1, keep_best=True, lr=0.1), 0)
    assert "training_loss" in record.epochs[0]
    assert record.metrics["best_epoch"] >= 1


def test_the_commands_say_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--set", "model=fcn", "--set", "widths=8", "--set", "epochs=2", "--set", "protocol=published"]
    assert cli.main(["train", "digits", *words, "--set", "keep_best=true"]) == 0
    out, err = capsys.readouterr()
    assert "protocol published: choices" in err
    assert "(weights of epoch " in out
    lines = Path("runs/digits-standard/log.jsonl").read_text().splitlines()
    assert all("go by the TEST data" in json.loads(line)["note"] for line in lines)
    assert [epoch.number for epoch in read_log("runs/digits-standard/log.jsonl")] == [1, 2]
    grid = [word.replace("--set", "--grid") for word in words]
    assert cli.main(["sweep", "digits", *grid, "--grid", "lr=0.1,0.01", "--grid", "seeds=0"]) == 0
    assert "chosen on the TEST data" in " ".join(capsys.readouterr().out.split())
